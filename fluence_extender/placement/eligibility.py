"""Which nodes a pod may run on at all, apart from what is free there.

These are the checks that are cheap and certain: readiness, cordon, taints and tolerations, node selector, required node
affinity. kube-scheduler's own filters run afterwards and have the last word; a node that passes here and fails there
costs a retry, a node that fails here wrongly would never be used, so every rule follows kube-scheduler's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from fluence_extender.ledger.accounts import Journal
from fluence_extender.model.node import Node, Taint
from fluence_extender.model.pod import NodeTerm, Pod, Requirement, Toleration

UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "NoSchedule")
NOT_READY = Taint("node.kubernetes.io/not-ready", "NoSchedule")
BLOCKING_EFFECTS = ("NoSchedule", "NoExecute")

Signature = tuple[object, ...]


def signature(pod: Pod) -> Signature:
    """What eligibility depends on: pods with equal signatures may run on the same nodes."""
    return (pod.tolerations, tuple(sorted(pod.node_selector.items())), pod.affinity)


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether one toleration covers one taint (core/v1 Toleration.ToleratesTaint).

    ``Gt`` and ``Lt`` compare the taint's value with the toleration's (Kubernetes 1.35, KEP-5471).
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "Exists":
            return True
        case "Equal" | "":
            return toleration.value == taint.value
        case "Gt" | "Lt":
            return _compares(toleration.operator, taint.value, toleration.value)
    return False


def untolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> Taint | None:
    """The first taint that keeps the pod away, or None."""
    allowed = tuple(tolerations)
    for taint in taints:
        if taint.effect in BLOCKING_EFFECTS and not any(tolerates(one, taint) for one in allowed):
            return taint
    return None


_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)


def _whole_number(text: str) -> int | None:
    """A 64-bit integer as Go's ParseInt reads it: digits alone, so that ``1_000`` is none."""
    if not _WHOLE_NUMBER.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def _compares(operator: str, value: str, bound: str) -> bool:
    have, limit = _whole_number(value), _whole_number(bound)
    if have is None or limit is None:
        return False
    return have > limit if operator == "Gt" else have < limit


def holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """Whether one selector expression holds for ``labels``; NotIn holds where the label is missing."""
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return (
                value is not None
                and len(requirement.values) == 1
                and _compares(requirement.operator, value, requirement.values[0])
            )
    return False


def term_holds(term: NodeTerm, node: Node) -> bool:
    """Whether a node selector term holds; a term without any expression holds nowhere (core/v1 NodeSelectorTerm)."""
    if not term.expressions and not term.fields:
        return False
    named = {"metadata.name": node.name}
    return all(holds(one, node.labels) for one in term.expressions) and all(
        holds(one, named) for one in term.fields
    )


def refusal(pod: Pod, node: Node) -> str | None:
    """Why ``node`` is out of the question for ``pod``, in a few stable words, or None when it isn't.

    What lasts comes before what ends by itself (`passes`): a node that the pod may never use isn't waited for.
    """
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
    """Why the node is closed to the pod, or None.

    The node controller taints a node that isn't ready a moment after its condition shows it, so that is judged
    by the same toleration.
    """
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
    """Whether a refusal (or None) ends by itself: a cordon, a node that isn't ready, a taint of the node controller."""
    return why in (None, "not ready", "cordoned") or why.startswith(_PASSING_TAINTS)


class EligibilityIndex:
    """The eligible nodes by signature, kept up to date node by node; memory is bounded to the newest signatures."""

    LIMIT = 128

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._eligible: dict[Signature, tuple[Pod, set[str]]] = {}
        self._refusals: dict[Signature, tuple[dict[str, int], tuple[str, ...]]] = {}
        self._refusals_at = 0
        self.journal = Journal()

    @property
    def nodes(self) -> Mapping[str, Node]:
        """All nodes by name."""
        return self._nodes

    def put(self, node: Node) -> None:
        """Add a node or its new state."""
        self._nodes[node.name] = node
        self.journal.note(node.name)
        for pod, names in self._eligible.values():
            if refusal(pod, node) is None:
                names.add(node.name)
            else:
                names.discard(node.name)

    def drop(self, name: str) -> None:
        """Forget a node."""
        self._nodes.pop(name, None)
        self.journal.note(name)
        for _, names in self._eligible.values():
            names.discard(name)

    def eligible(self, pod: Pod) -> set[str]:
        """The names of the nodes this pod may run on. The set is shared: read it, don't change it."""
        if pod.confined_to:
            # As many forms as there are such pods, and few nodes to look at.
            few = (self._nodes[name] for name in pod.confined_to if name in self._nodes)
            return {node.name for node in few if refusal(pod, node) is None}
        key = signature(pod)
        known = self._eligible.pop(key, None)
        if known is None:
            known = (pod, {name for name, node in self._nodes.items() if refusal(pod, node) is None})
            if len(self._eligible) >= self.LIMIT:
                del self._eligible[next(iter(self._eligible))]
        self._eligible[key] = known
        return known[1]

    def refusals(self, pod: Pod) -> Mapping[str, int]:
        """Each refusal with the number of nodes it holds for, most frequent first."""
        return self._judged(pod)[0]

    def possible(self, pod: Pod) -> tuple[str, ...]:
        """The nodes that the pod could ever use, cordoned and not ready ones included."""
        return self._judged(pod)[1]

    def _judged(self, pod: Pod) -> tuple[dict[str, int], tuple[str, ...]]:
        """`refusals` and `possible`, remembered until a node changes: many pods that wait are alike."""
        if self._refusals_at != self.journal.now or len(self._refusals) >= self.LIMIT:
            self._refusals.clear()
            self._refusals_at = self.journal.now
        key = signature(pod)
        if key not in self._refusals:
            counts: dict[str, int] = {}
            names = []
            for node in self._nodes.values():
                why = refusal(pod, node)
                if why is not None:
                    counts[why] = counts.get(why, 0) + 1
                if passes(why):
                    names.append(node.name)
            told = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
            self._refusals[key] = told, tuple(names)
        return self._refusals[key]
