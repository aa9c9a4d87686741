"""Selectors of labels and of nodes, and tolerations of taints (core/v1): whether their expressions hold."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from fluence_extender.model.node import Node
from fluence_extender.model.pod import NodeTerm, Requirement
from fluence_extender.model.taints import BLOCKING_EFFECTS, Taint, Toleration

_WHOLE_NUMBER = re.compile(r"([+-]?)0*([0-9]{1,19})", re.ASCII)
_CANONICAL_NUMBER = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)


def _whole_number(text: str) -> int | None:
    """Return the 64-bit integer that Go's ParseInt reads: only digits after a sign, so not ``1_000``."""
    found = _WHOLE_NUMBER.fullmatch(text)
    if found is None:
        return None
    number = int(found[1] + found[2])
    return number if -(2**63) <= number < 2**63 else None


def compares(operator: str, value: str, bound: str) -> bool:
    """Return whether a value is greater (Gt) or less (Lt) than the bound; only whole numbers compare."""
    have, limit = _whole_number(value), _whole_number(bound)
    if have is None or limit is None:
        return False
    return have > limit if operator == "Gt" else have < limit


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Return whether a toleration covers a taint (core/v1 Toleration.ToleratesTaint).

    ``Gt`` and ``Lt`` compare the taint's value with the toleration's (Kubernetes 1.35, KEP-5471), where both are
    numbers without leading zeros or a plus sign.
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
            return all(map(_CANONICAL_NUMBER.fullmatch, (taint.value, toleration.value))) and compares(
                toleration.operator, taint.value, toleration.value
            )
    return False


def untolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> Taint | None:
    """Return the first taint that keeps pods away and that these tolerations don't cover, None without one."""
    allowed = tuple(tolerations)
    for taint in taints:
        if taint.effect in BLOCKING_EFFECTS and not any(tolerates(one, taint) for one in allowed):
            return taint
    return None


def holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """Return whether a selector expression holds for ``labels``; NotIn holds when the label is missing."""
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
                and compares(requirement.operator, value, requirement.values[0])
            )
    return False


def term_holds(term: NodeTerm, node: Node) -> bool:
    """Return whether a node selector term holds; an empty term never does (core/v1 NodeSelectorTerm)."""
    if not term.expressions and not term.fields:
        return False
    named = {"metadata.name": node.name}
    return all(holds(one, node.labels) for one in term.expressions) and all(
        holds(one, named) for one in term.fields
    )
