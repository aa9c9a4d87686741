"""Which nodes a pod may run on, apart from their free capacity.

These checks are cheap and certain: whether the node could be read, readiness, cordon, taints and tolerations, node
selector, required node affinity, declared features. For pods that the service binds itself they decide. Behind other
pods kube-scheduler's own filters run; a node that fails here by mistake would never be used. So all rules are those of
kube-scheduler, except that a node must be readable and ready.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Set

from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.model.selectors import holds, term_holds, untolerated
from fluence_extender.model.taints import Taint
from fluence_extender.placement.node_groups import NodeGroups
from fluence_extender.room.holdings import Journal
from fluence_extender.room.kept_apart import KEPT_APART

UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "NoSchedule")
NOT_READY = Taint("node.kubernetes.io/not-ready", "NoSchedule")

Signature = tuple[object, ...]


def signature(pod: Pod) -> Signature:
    """Return the pod's signature. Pods with equal signatures may run on the same nodes."""
    selector = pod.node_selector
    return (pod.tolerations, tuple(sorted(selector.items())) if selector else (), pod.affinity, pod.features)


def refusal(pod: Pod, node: Node) -> str | None:
    """Return why ``pod`` may not run on ``node``, in a few stable words, or None when it may.

    A lasting refusal has precedence over one that `passes`, because a pod doesn't wait for a node that it may never
    use.
    """
    if node.problem:
        return "can't be read"
    if pod.node_selector:
        lacking = [
            f"{key}={value}" for key, value in pod.node_selector.items() if node.labels.get(key) != value
        ]
        if lacking:
            return f"node selector {min(lacking)}"
    if pod.affinity is not None and not any(term_holds(term, node) for term in pod.affinity):
        return "node affinity"
    return _closed(pod, node)


def _closed(pod: Pod, node: Node) -> str | None:
    """Return why the node's state, taints or features exclude the pod, or None.

    The node controller taints a node that isn't ready a moment after its condition changes. So the toleration of the
    taint also decides about the condition.
    """
    for feature in pod.features:
        if feature not in node.features:
            return f"without the feature {feature}"
    if node.taints:
        lasting = untolerated(
            (one for one in node.taints if not one.key.startswith(_PASSING_KEYS)), pod.tolerations
        )
        if lasting is not None:
            return f"untolerated taint {lasting.key}"
    if not node.ready and untolerated((NOT_READY,), pod.tolerations):
        return "not ready"
    taints = (*node.taints, UNSCHEDULABLE) if node.unschedulable else node.taints
    taint = untolerated(taints, pod.tolerations)
    if taint is None:
        return None
    return "cordoned" if taint.key == UNSCHEDULABLE.key else f"untolerated taint {taint.key}"


_PASSING_KEYS = "node.kubernetes.io/"
_PASSING_TAINTS = f"untolerated taint {_PASSING_KEYS}"


def passes(why: str | None) -> bool:
    """Return whether a refusal (or None) ends by itself.

    That is a cordon, a node that isn't ready, a taint of the node controller, or pods there that keep the pod away.
    """
    return why in (None, "not ready", "cordoned") or why.startswith((_PASSING_TAINTS, KEPT_APART))


def by_frequency(counts: Mapping[str, int]) -> dict[str, int]:
    """Return refusals with their numbers of nodes, the most frequent first."""
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


class EligibilityIndex:
    """The eligible nodes by signature, updated node by node; only the signatures used last are kept."""

    LIMIT = 128

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._names: tuple[str, ...] | None = ()
        self._groups = NodeGroups(holds)
        self._eligible: dict[Signature, tuple[Pod, set[str]]] = {}
        self._refusals: dict[Signature, tuple[dict[str, int], tuple[str, ...]]] = {}
        self._refusals_at = 0
        self.journal = Journal()

    @property
    def nodes(self) -> Mapping[str, Node]:
        """All nodes by name."""
        return self._nodes

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all nodes, in the order in which they joined."""
        if self._names is None:
            self._names = tuple(self._nodes)
        return self._names

    def put(self, node: Node) -> None:
        """Record a node that joins or has changed."""
        if node.name not in self._nodes:
            self._names = None
        self._nodes[node.name] = node
        self._groups.put(node)
        self.journal.note(node.name)
        for pod, names in self._eligible.values():
            if refusal(pod, node) is None:
                names.add(node.name)
            else:
                names.discard(node.name)

    def drop(self, name: str) -> None:
        """Forget a node."""
        self._nodes.pop(name, None)
        self._names = None
        self._groups.drop(name)
        self.journal.note(name)
        for _, names in self._eligible.values():
            names.discard(name)

    def eligible(self, pod: Pod) -> set[str]:
        """Return the names of the nodes this pod may run on. The set is shared; treat it as read-only."""
        if pod.confined_to:
            # Each such pod has its own signature, and few nodes.
            few = (self._nodes[name] for name in pod.confined_to if name in self._nodes)
            return {node.name for node in few if refusal(pod, node) is None}
        key = signature(pod)
        known = self._eligible.pop(key, None)
        if known is None:
            known = (pod, set().union(*(names for why, names in self._verdicts(pod) if why is None)))
            if len(self._eligible) >= self.LIMIT:
                del self._eligible[next(iter(self._eligible))]
        self._eligible[key] = known
        return known[1]

    def refusals(self, pod: Pod) -> Mapping[str, int]:
        """Return each refusal with the number of nodes for which it holds, the most frequent first."""
        return self._judged(pod)[0]

    def possible(self, pod: Pod) -> tuple[str, ...]:
        """Return the nodes that the pod could ever use, cordoned and not ready ones included."""
        return self._judged(pod)[1]

    def _judged(self, pod: Pod) -> tuple[dict[str, int], tuple[str, ...]]:
        """Return `refusals` and `possible`, cached until a node changes, because many waiting pods are alike."""
        if self._refusals_at != self.journal.now or len(self._refusals) >= self.LIMIT:
            self._refusals.clear()
            self._refusals_at = self.journal.now
        key = signature(pod)
        if key not in self._refusals:
            counts: Counter[str] = Counter()
            possible: set[str] = set()
            for why, names in self._verdicts(pod):
                if why is not None:
                    counts[why] += len(names)
                if passes(why):
                    possible |= names
            in_order = tuple(filter(possible.__contains__, self._nodes))
            self._refusals[key] = by_frequency(counts), in_order
        return self._refusals[key]

    def _verdicts(self, pod: Pod) -> Iterator[tuple[str | None, Set[str]]]:
        """Yield the results of `refusal`, each with the nodes for which it is returned; one may come twice."""
        left = self._groups.all()
        for node, names in self._groups.states():
            if node.problem:
                yield refusal(pod, node), names
                left -= names
        wanted = sorted((f"{key}={value}", key, value) for key, value in pod.node_selector.items())
        for text, key, value in wanted:
            kept = left & self._groups.labelled(key, value)
            if len(kept) < len(left):
                yield f"node selector {text}", left - kept
            left = kept
        if pod.affinity is not None:
            kept = left & self._groups.matching(pod.affinity)
            if len(kept) < len(left):
                yield "node affinity", left - kept
            left = kept
        for node, names in self._groups.states():
            here = left & names
            if here:
                yield _closed(pod, node), here
