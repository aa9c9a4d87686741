"""Refusals: which nodes are excluded for a while, when something is tried again, and what users are told.

What has failed is tried again after a pause, which is twice as long after each failure in a row.

| what fails | what waits | the pause ends early |
|---|---|---|
| kube-scheduler's filters refuse a pod on its node twice | that node, for that pod (a fixed time) | the node changes |
| a kubelet rejects a pod | that node, for the pods that replace it | the node changes |
| members are refused again and again | their gang | a node changes |
| kube-scheduler doesn't request a member's node | its gang | it requests the node |
| the Binding of a direct pod fails | that Binding | never |
| expected pods aren't created | the expected pods of their namespace | a failure is cancelled after an hour |

kube-scheduler's own filters have the last word. They often refuse a node only because they saw the cluster as it was a
moment earlier. Therefore a node is tried twice before it is excluded for the pod, and it is excluded only for a while
or until it changes.

kube-scheduler states why it refused a pod only in the PodScheduled condition. The condition's message counts nodes by
reason, and our own answers are among the reasons. The others are the filters' own texts (Kubernetes 1.36,
pkg/scheduler/framework/plugins). The text of an unknown filter is shown unchanged.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from fluence_extender.gangs.lifecycle.limits import NEVER, Limits

# Back-offs.

MOST_DOUBLINGS = 16
"""The most doublings of a pause: far beyond any limit, and few enough not to overflow a float."""


def pause(first: float, failures: int, longest: float) -> float:
    """Return the seconds to wait after so many failures in a row: ``first``, then doubled each time."""
    return min(first * (1 << min(failures - 1, MOST_DOUBLINGS)), longest)


@dataclass(frozen=True, slots=True)
class BackOff:
    """Until when something that has failed waits, and how often it has failed in a row."""

    until: float = 0.0
    failures: int = 0

    def failed(self, now: float, first: float, longest: float) -> Self:
        """Return the back-off after one more failure."""
        failures = self.failures + 1
        return replace(self, until=now + pause(first, failures, longest), failures=failures)


@dataclass(frozen=True, slots=True)
class GangBackOff(BackOff):
    """The back-off of a gang, which holds no places meanwhile unless it has begun.

    ``replans`` counts the changes of plan since the last back-off began. The first of them since the gang got its
    places was at ``replanned``, `NEVER` if there was none. ``until_requested`` is the uid of the member whose node
    kube-scheduler didn't request: as soon as it does, the back-off ends. It is "" for other back-offs.
    """

    replans: int = 0
    replanned: float = NEVER
    until_requested: str = ""


NO_BACK_OFF = GangBackOff()


# Verdicts of kube-scheduler's filters.

UNSCHEDULABLE = re.compile(r"\d+/\d+ nodes are available: (?P<reasons>.*)", re.DOTALL)
PREEMPTION = re.compile(r"\.?\s*(still not schedulable, )?preemption: .*", re.DOTALL)
NEXT_REASON = re.compile(r", (?=\d+ )")
COUNTED = re.compile(r"(?P<nodes>\d+) (?P<text>.*)", re.DOTALL)

PLUGINS = {
    "node(s) had untolerated taint": "TaintToleration",
    "node(s) were unschedulable": "NodeUnschedulable",
    "node(s) didn't match Pod's node affinity/selector": "NodeAffinity",
    "node(s) didn't have free ports": "NodePorts",
    "Insufficient ": "NodeResourcesFit",
    "Too many pods": "NodeResourcesFit",
    "node(s) didn't match pod affinity rules": "InterPodAffinity",
    "node(s) didn't match pod anti-affinity rules": "InterPodAffinity",
    "node(s) didn't satisfy existing pods anti-affinity rules": "InterPodAffinity",
    "node(s) didn't match pod topology spread constraints": "PodTopologySpread",
    "node(s) had volume node affinity conflict": "VolumeBinding",
    "node(s) didn't match PersistentVolume's node affinity": "VolumeBinding",
    "node(s) didn't find available persistent volumes to bind": "VolumeBinding",
    "node(s) did not have enough free storage": "VolumeBinding",
    "node(s) unavailable due to one or more pvc": "VolumeBinding",
    "node(s) had no available volume zone": "VolumeZone",
    "node(s) had no available disk": "VolumeRestrictions",
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod": "VolumeRestrictions",
    "node(s) exceed max volume count": "NodeVolumeLimits",
    "cannot allocate all claims": "DynamicResources",
}
"""The filters, by the beginning of the texts that they write."""

OURS = ("planned on node ", "busy: ", "waiting for members", "node(s) didn't satisfy plugin")
"""The beginnings of texts that aren't verdicts: our own answers, and nodes outside the affinity of a pinned pod."""

Verdicts = tuple[tuple[str, int], ...]
"""Filters, each with the number of nodes on which it refused the pod; the highest number comes first."""

NO_NODES: frozenset[str] = frozenset()


def verdicts(refusal: str) -> Verdicts:
    """Return the filters that a refusal names, each with how many nodes it refused."""
    message = UNSCHEDULABLE.match(refusal)
    if message is None:
        return ()
    counts: Counter[str] = Counter()
    for part in NEXT_REASON.split(PREEMPTION.sub("", message["reasons"]).rstrip(". ")):
        counted = COUNTED.match(part)
        if counted is not None and not counted["text"].startswith(OURS):
            counts[_plugin(counted["text"])] += int(counted["nodes"])
    return tuple(sorted(counts.items(), key=lambda verdict: (-verdict[1], verdict[0])))


def _plugin(text: str) -> str:
    return next((name for beginning, name in PLUGINS.items() if text.startswith(beginning)), text)


def last_verdicts(refusal: str, before: Verdicts) -> Verdicts:
    """Return the last verdicts of known filters, after a pod's condition has become ``refusal``.

    The verdicts ``before`` stay if the condition names no known filter: we ourselves refuse a pod without a place.
    """
    stated = verdicts(refusal)
    return stated if any(name in PLUGINS.values() for name, _ in stated) else before


def in_words(stated: Verdicts) -> str:
    """Return the verdicts for people: ``TaintToleration on 3 nodes, NodePorts on 1 node``."""
    return ", ".join(f"{name} on {nodes} {'node' if nodes == 1 else 'nodes'}" for name, nodes in stated)


# The refusals of one member.


@dataclass(frozen=True, slots=True)
class Refusals:
    """The refusals of one member.

    ``count`` is the number of refusals in a row on the planned node, from the time ``first`` to the time ``last``.
    ``excluded`` are the nodes that refused the pod, each with the time until which it is excluded. ``verdicts`` are the
    last ones of kube-scheduler's filters.
    """

    count: int = 0
    first: float = 0.0
    last: float = 0.0
    excluded: Mapping[str, float] = field(default_factory=dict)
    verdicts: Verdicts = ()

    def counted(self, node: str, now: float, limits: Limits) -> Refusals:
        """Return a copy with one more failed attempt on the planned ``node``, which may be excluded from now on.

        One attempt can be observed twice, in a filter call and in the nomination that is cleared after it. It counts
        once.
        """
        if self.count and now - self.last < limits.same_attempt:
            return self
        refusals = replace(self, count=self.count + 1, first=self.first if self.count else now, last=now)
        if refusals.count < limits.same_node_tries or now - refusals.first < limits.refusal_patience:
            return refusals
        return refusals.excluding(node, now, limits)

    def excluding(self, node: str, now: float, limits: Limits) -> Refusals:
        """Return a copy in which ``node`` is excluded for a while."""
        still_excluded = {name: until for name, until in self.excluded.items() if until > now}
        return replace(self, excluded={**still_excluded, node: now + limits.excluded_for})

    def admitting(self, node: str) -> Refusals:
        """Return a copy in which ``node`` isn't excluded."""
        if node not in self.excluded:
            return self
        return replace(self, excluded={name: until for name, until in self.excluded.items() if name != node})

    def excluded_nodes(self, now: float) -> frozenset[str]:
        """Return the nodes that are excluded for the pod."""
        if not self.excluded:
            return NO_NODES
        return frozenset(name for name, until in self.excluded.items() if until > now)

    def next_admission(self, now: float) -> float:
        """Return when the next excluded node is admitted again; `NEVER` if none is excluded."""
        return min((until for until in self.excluded.values() if until > now), default=NEVER)

    @property
    def uncounted(self) -> Refusals:
        """A copy with a count of zero, for use after a change of plan; excluded nodes stay."""
        return replace(self, count=0, first=0.0, last=0.0) if self.count else self


NO_REFUSALS = Refusals()
