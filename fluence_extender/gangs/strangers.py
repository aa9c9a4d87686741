"""Pods of other schedulers that name a gang: they are no members, and a gang that waits for them should say so."""

from __future__ import annotations

from collections import Counter
from typing import TypeVar

from fluence_extender.gangs.conventions import BY_NAME, CONVENTIONS
from fluence_extender.model.gang import GangKey
from fluence_extender.model.pod import Pod
from fluence_extender.model.workload import Workload

Found = TypeVar("Found", bound=Workload)


class Strangers:
    """Living pods of other schedulers, by the gang they name; only groups that are named on the pod count.

    Admission links labelled pods of ours to a PodGroup of the same name, and leaves those of others as they are.
    """

    def __init__(self) -> None:
        self._of: dict[str, GangKey] = {}
        self._in: dict[GangKey, dict[str, str]] = {}

    def put(self, pod: Pod) -> GangKey | None:
        """Take note of a pod of another scheduler; the gang it names, if it does."""
        key = None if pod.finished or pod.deleting else _named(pod)
        if self._of.get(pod.uid) != key:
            self.drop(pod.uid)
        if key is not None:
            self._of[pod.uid] = key
            self._in.setdefault(key, {})[pod.uid] = pod.scheduler
        return key

    def drop(self, uid: str) -> GangKey | None:
        """Forget a pod; the gang that it named."""
        key = self._of.pop(uid, None)
        if key is not None:
            del self._in[key][uid]
            if not self._in[key]:
                del self._in[key]
        return key

    def schedulers(self, key: GangKey) -> Counter[str]:
        """How many pods name the gang and which scheduler they name instead of ours."""
        return Counter(self._in.get(key, {}).values())


class _Nothing:
    """A cluster without any workloads: a name on the pod doesn't depend on them."""

    def find(self, kind: type[Found], namespace: str, name: str) -> Found | None:
        return None

    def served(self, kind: type[Workload]) -> bool:
        return False


NOTHING = _Nothing()


def _named(pod: Pod) -> GangKey | None:
    for convention in BY_NAME:
        claim = CONVENTIONS[convention](pod, NOTHING)
        if claim is not None:
            return claim.key
    return None
