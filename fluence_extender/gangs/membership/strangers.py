"""Pods of other schedulers that name a gang: they are no members, and a gang that waits for them should say so."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TypeVar

from fluence_extender.gangs.membership.conventions import BY_NAME, CONVENTIONS
from fluence_extender.model.gang import Convention, GangKey
from fluence_extender.model.pod import Pod
from fluence_extender.model.workload import JobSet, Workload

Found = TypeVar("Found", bound=Workload)


class Strangers:
    """Living pods of other schedulers, by the gang they name, be it by the labels of the operator that made them.

    Admission links labelled pods of ours to a PodGroup of the same name, and leaves those of others as they are.
    Whether what they are part of comes in stages isn't known here: they count for their stage and for a gang of all.
    """

    def __init__(self) -> None:
        self._of: dict[str, GangKey] = {}
        self._in: dict[GangKey, dict[str, tuple[str, str]]] = {}
        """By the key of the whole group and the uid: the part that the pod names, and its scheduler."""

    def put(self, pod: Pod) -> GangKey | None:
        """Take note of a pod of another scheduler; the gang it names, if it does."""
        key = None if pod.finished or pod.deleting else _named(pod)
        if self._of.get(pod.uid) != key:
            self.drop(pod.uid)
        if key is not None:
            self._of[pod.uid] = key
            self._in.setdefault(_whole(key), {})[pod.uid] = key.part, pod.scheduler
        return key

    def drop(self, uid: str) -> GangKey | None:
        """Forget a pod; the gang that it named."""
        key = self._of.pop(uid, None)
        if key is not None:
            whole = _whole(key)
            del self._in[whole][uid]
            if not self._in[whole]:
                del self._in[whole]
        return key

    def schedulers(self, key: GangKey) -> Counter[str]:
        """How many pods name the gang and which scheduler they name instead of ours."""
        named = self._in.get(_whole(key), {}).values()
        return Counter(scheduler for part, scheduler in named if key.part in ("", part))


def _whole(key: GangKey) -> GangKey:
    return replace(key, part="") if key.part else key


class _Nothing:
    """A cluster of which no workload is known: a name on the pod doesn't depend on them, nor does a JobSet's stage."""

    def find(self, kind: type[Found], namespace: str, name: str) -> Found | None:
        return None

    def served(self, kind: type[Workload]) -> bool:
        return kind is not JobSet


NOTHING = _Nothing()

BY_OPERATOR = (Convention.LEADER_WORKER_SET, Convention.RAY_CLUSTER, Convention.MPI_JOB, Convention.JOB_SET)
"""The conventions in which an operator names the group on pods that may be of several schedulers."""


def _named(pod: Pod) -> GangKey | None:
    for convention in (*BY_NAME, *BY_OPERATOR):
        claim = CONVENTIONS[convention](pod, NOTHING)
        if claim is not None:
            return claim.key if claim.key.convention is convention else None
    return None
