"""What kube-scheduler's own filters said of a pod, from the one place where it says so: the PodScheduled condition.

The condition's message counts nodes by reason, ours among them. Reasons are the filters' own texts (Kubernetes 1.36,
pkg/scheduler/framework/plugins); what can't be told from them is shown as it is written.
"""

from __future__ import annotations

import re
from collections import Counter

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
"""Which filter a text is of, by how it begins."""

OURS = ("planned on node ", "busy: ", "waiting for members", "node(s) didn't satisfy plugin")
"""What says nothing of the filters: our own answers, and the nodes that a pinned pod isn't confined to."""

Judged = tuple[tuple[str, int], ...]
"""Filters, each with on how many nodes it refused, the most first."""


def judgements(refusal: str) -> Judged:
    """The filters that refused nodes, each with how many, the most first; empty where nothing is said of them."""
    found = FITTED.match(refusal)
    if found is None:
        return ()
    counts: Counter[str] = Counter()
    for part in NEXT_REASON.split(PREEMPTION.sub("", found["reasons"]).rstrip(". ")):
        counted = COUNTED.match(part)
        if counted is not None and not counted["text"].startswith(OURS):
            counts[_plugin(counted["text"])] += int(counted["nodes"])
    return tuple(sorted(counts.items(), key=lambda one: (-one[1], one[0])))


def last_judged(refusal: str, before: Judged) -> Judged:
    """What filters that are known by name said last, after a pod's condition has become ``refusal``.

    What they had said ``before`` stays where the attempt since has failed for another reason: a pod that has no place
    any more is refused by us.
    """
    judged = judgements(refusal)
    return judged if any(name in PLUGINS.values() for name, _ in judged) else before


def _plugin(text: str) -> str:
    return next((name for begin, name in PLUGINS.items() if text.startswith(begin)), text)


def shown(judged: Judged) -> str:
    """``TaintToleration on 3 nodes, NodePorts on 1 node``, for people."""
    return ", ".join(f"{name} on {nodes} {'node' if nodes == 1 else 'nodes'}" for name, nodes in judged)
