"""Groups of users that go by the name of a producer's group: ``g-producer``, beside a shared group ``g``.

Their pods and the producer would be one gang. The name is a contract, and one that is a valid group name may always be
somebody's, so this is told: to whom comes second, and in the log. Invariant: a group is known as long as a pod of it is
that hasn't ended.
"""

from __future__ import annotations

import structlog

from fluence_extender.cluster.pods_seen import follow_pods
from fluence_extender.cluster.port import Observation
from fluence_extender.model.coordination import PRODUCER, PRODUCER_SUFFIX, ROLE_ANNOTATION
from fluence_extender.model.names import GROUP_LABEL
from fluence_extender.model.pod import Pod
from fluence_extender.webhook.contract import Group

log = structlog.get_logger(__name__)


class Namesakes:
    """``take`` what is seen; ``of_producers`` and ``of_others`` are the groups whose names end like a producer's."""

    def __init__(self) -> None:
        self.of_producers: frozenset[Group] = frozenset()
        self.of_others: frozenset[Group] = frozenset()
        self._of: dict[str, tuple[Group, bool]] = {}
        self._pods: dict[tuple[Group, bool], set[str]] = {}

    def take(self, seen: Observation) -> bool:
        """Take note of what was seen; whether the groups have changed."""
        known = frozenset(self._pods)
        follow_pods(seen, self._of, self._put, self._drop)
        if self._pods.keys() == known:
            return False
        self._settle()
        return True

    def _put(self, pod: Pod) -> None:
        group = pod.labels.get(GROUP_LABEL, "")
        if not pod.ours or not group.endswith(PRODUCER_SUFFIX) or pod.finished:
            self._drop(pod.uid)
            return
        key = (pod.namespace, group), pod.annotations.get(ROLE_ANNOTATION) == PRODUCER
        if self._of.get(pod.uid, key) != key:
            self._drop(pod.uid)
        self._of[pod.uid] = key
        self._pods.setdefault(key, set()).add(pod.uid)

    def _drop(self, uid: str) -> None:
        key = self._of.pop(uid, None)
        if key is None:
            return
        self._pods[key].remove(uid)
        if not self._pods[key]:
            del self._pods[key]

    def _settle(self) -> None:
        before = self.of_producers & self.of_others
        self.of_producers, self.of_others = (
            frozenset(group for group, produces in self._pods if produces is wanted)
            for wanted in (True, False)
        )
        for namespace, group in (self.of_producers & self.of_others) - before:
            log.warning("a group goes by the name of a producer's", group=f"{namespace}/{group}")
