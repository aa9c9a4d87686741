"""A required node affinity as the API server takes it (core/v1)."""

from __future__ import annotations

from collections.abc import Iterable

from fluence_extender.model.pod import NodeTerm, Requirement


def required_affinity(terms: Iterable[NodeTerm]) -> dict[str, object]:
    """An Affinity whose required node affinity has ``terms``, in their order."""
    selector = {"nodeSelectorTerms": [_term(term) for term in terms]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}


def _term(term: NodeTerm) -> dict[str, object]:
    found = {"matchExpressions": term.expressions, "matchFields": term.fields}
    return {name: [_requirement(one) for one in some] for name, some in found.items() if some}


def _requirement(one: Requirement) -> dict[str, object]:
    said: dict[str, object] = {"key": one.key, "operator": one.operator}
    return said | ({"values": list(one.values)} if one.values else {})
