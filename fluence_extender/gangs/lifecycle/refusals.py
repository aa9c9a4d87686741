"""Learns from kube-scheduler's refusals of a pod which nodes to exclude for a while, and what to tell users.

kube-scheduler's own filters have the last word. They often refuse a node only because they saw the cluster as it was a
moment earlier. Therefore a node is tried twice before it is excluded for the pod, and it is excluded only for a
while or until it changes.

kube-scheduler states why it refused a pod only in the PodScheduled condition. The condition's message counts nodes by
reason, and our own answers are among the reasons. The others are the filters' own texts (Kubernetes 1.36,
pkg/scheduler/framework/plugins). The text of an unknown filter is shown unchanged.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from fluence_extender.gangs.lifecycle.limits import NEVER, Limits

FITTED = re.compile(r"\d+/\d+ nodes are available: (?P<reasons>.*)", re.DOTALL)
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
"""The filter that writes a text, by the beginning of the text."""

OURS = ("planned on node ", "busy: ", "waiting for members", "node(s) didn't satisfy plugin")
"""Texts that don't come from a filter's verdict: our own answers, and the nodes outside a pinned pod's affinity."""

Verdicts = tuple[tuple[str, int], ...]
"""Filters, each with the number of nodes on which it refused the pod; the highest number comes first."""

NO_NODES: frozenset[str] = frozenset()


def verdicts(refusal: str) -> Verdicts:
    """Return the filters that a refusal names, each with how many nodes it refused; none if it names none."""
    found = FITTED.match(refusal)
    if found is None:
        return ()
    counts: Counter[str] = Counter()
    for part in NEXT_REASON.split(PREEMPTION.sub("", found["reasons"]).rstrip(". ")):
        counted = COUNTED.match(part)
        if counted is not None and not counted["text"].startswith(OURS):
            counts[_plugin(counted["text"])] += int(counted["nodes"])
    return tuple(sorted(counts.items(), key=lambda one: (-one[1], one[0])))


def _plugin(text: str) -> str:
    return next((name for begin, name in PLUGINS.items() if text.startswith(begin)), text)


def last_verdicts(refusal: str, before: Verdicts) -> Verdicts:
    """Return the last verdicts of known filters, after a pod's condition has become ``refusal``.

    The verdicts ``before`` stay if the condition names no known filter, because we refuse a pod without a place.
    """
    found = verdicts(refusal)
    return found if any(name in PLUGINS.values() for name, _ in found) else before


def in_words(found: Verdicts) -> str:
    """Return the verdicts for people: ``TaintToleration on 3 nodes, NodePorts on 1 node``."""
    return ", ".join(f"{name} on {nodes} {'node' if nodes == 1 else 'nodes'}" for name, nodes in found)


@dataclass(frozen=True, slots=True)
class Refusals:
    """The refusals of one member.

    ``count`` is the number of refusals in a row on the planned node, from the time ``first`` to the time ``last``.
    ``excluded`` are the nodes that refused the
    pod, each with the time until which it is excluded. ``verdicts`` are the last ones of kube-scheduler's filters.
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
        found = replace(self, count=self.count + 1, first=self.first if self.count else now, last=now)
        patient = now - found.first >= limits.refusal_patience
        return (
            found.excluding(node, now, limits) if found.count >= limits.same_node_tries and patient else found
        )

    def excluding(self, node: str, now: float, limits: Limits) -> Refusals:
        """Return a copy in which ``node`` is excluded for a while."""
        kept = {one: until for one, until in self.excluded.items() if until > now}
        return replace(self, excluded={**kept, node: now + limits.excluded_for})

    def admitting(self, node: str) -> Refusals:
        """Return a copy in which ``node`` isn't excluded."""
        if node not in self.excluded:
            return self
        return replace(self, excluded={one: until for one, until in self.excluded.items() if one != node})

    def excluded_nodes(self, now: float) -> frozenset[str]:
        """Return the nodes that are excluded for the pod."""
        return (
            frozenset(one for one, until in self.excluded.items() if until > now)
            if self.excluded
            else NO_NODES
        )

    def next_admission(self, now: float) -> float:
        """Return when the next excluded node is admitted again; `NEVER` if none is excluded."""
        return min((until for until in self.excluded.values() if until > now), default=NEVER)

    @property
    def anew(self) -> Refusals:
        """Return a copy that counts anew, for use after a change of plan; excluded nodes stay."""
        return replace(self, count=0, first=0.0, last=0.0) if self.count else self


NO_REFUSALS = Refusals()
