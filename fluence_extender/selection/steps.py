"""The steps of a policy: each takes the backends that are left and keeps some, with a reason for each other one.

A ranking sorts by an attribute and keeps the backends that are within its tolerance of the best. The other steps filter
and keep the order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fluence_extender.graph.naming_rules import nearest
from fluence_extender.selection.backend import (
    ALIASES,
    STATUS,
    Backend,
    attribute_key,
    number_text,
    parse_number,
)
from fluence_extender.selection.errors import SelectionError

Candidates = tuple[Backend, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """One step; ``text`` is the step as written, ``needs`` are the attributes that it uses.

    ``faults`` returns why the step drops some of the candidates, by name. A ranking sorts the others by ``order``.
    """

    text: str
    needs: frozenset[str]
    faults: Callable[[Candidates], dict[str, str]]
    order: Callable[[Backend], float] | None = None

    def apply(self, candidates: Candidates) -> tuple[Candidates, dict[str, str]]:
        """Return the candidates that are left, in order, and why each other one was dropped.

        Raise `SelectionError` if none of them has the attribute to rank by.
        """
        faults = self.faults(candidates)
        kept = [one for one in candidates if one.name not in faults]
        if self.order is not None:
            kept.sort(key=self.order)
        return tuple(kept), {name: f"{self.text}: {why}" for name, why in faults.items()}


def rank(text: str, attribute: str, highest: bool, tolerance: float) -> Step:
    """Keep those whose ``attribute`` is at most ``tolerance``, in its unit, from the best one; the best first."""

    def faults(candidates: Candidates) -> dict[str, str]:
        values = {one.name: one.number(attribute) for one in candidates}
        known = [value for value in values.values() if value is not None]
        if not known:
            raise SelectionError(_none_has(text, attribute, candidates))
        best = max(known) if highest else min(known)
        found: dict[str, str] = {}
        for one in candidates:
            value = values[one.name]
            if value is None:
                found[one.name] = _missing(one, attribute)
            elif abs(value - best) > tolerance + _rounding(best):
                found[one.name] = f"{attribute} {number_text(value)}, best is {number_text(best)}"
        return found

    def order(one: Backend) -> float:
        value = one.number(attribute) or 0.0
        # Values that are equal to twelve digits stay in their order.
        return float(f"{-value if highest else value:.12g}")

    return Step(text, frozenset({attribute}), faults, order)


def bound(text: str, attribute: str, at_least: bool, limit: float) -> Step:
    """Keep those whose ``attribute`` is at least, or at most, ``limit``; drop those without it."""

    def fault(one: Backend) -> str:
        value = one.number(attribute)
        if value is None:
            return _missing(one, attribute)
        within = value >= limit if at_least else value <= limit
        return "" if within else f"{attribute} is {number_text(value)}"

    return _filter(text, attribute, fault)


def equal(text: str, attribute: str, value: str) -> Step:
    """Keep those whose ``attribute`` is ``value``, as a number if both are numbers; drop those without it."""
    number = parse_number(value)

    def fault(one: Backend) -> str:
        found = one.name if attribute in ("name", "backend") else one.text(attribute)
        if found is None:
            return _missing(one, attribute)
        same = found == value or (number is not None and number == one.number(attribute))
        return "" if same else f"{attribute} is {found}"

    return _filter(text, attribute, fault)


def online_only(text: str) -> Step:
    """Keep those that are online or have no status; drop those that were asked and didn't answer."""

    def fault(one: Backend) -> str:
        status = one.text(STATUS)
        if status is None or status.upper() == "ONLINE":
            return ""
        return f"status is {status}{_query_error(one)}"

    return _filter(text, STATUS, fault)


def prefer(text: str, name: str) -> Step:
    """Keep only ``name`` if it is a candidate, else all candidates."""

    def faults(candidates: Candidates) -> dict[str, str]:
        others = [one.name for one in candidates if one.name != name]
        return dict.fromkeys(others, "not preferred") if len(others) < len(candidates) else {}

    return Step(text, frozenset(), faults)


def _filter(text: str, attribute: str, fault: Callable[[Backend], str]) -> Step:
    """Return the step that keeps the candidates without a fault."""

    def faults(candidates: Candidates) -> dict[str, str]:
        return {one.name: why for one in candidates if (why := fault(one))}

    return Step(text, frozenset({attribute}), faults)


def _missing(one: Backend, attribute: str) -> str:
    return f"has no {attribute}{_query_error(one)}"


def _query_error(one: Backend) -> str:
    error = one.text("query_error")
    return f" ({error})" if error else ""


def _none_has(text: str, attribute: str, candidates: Iterable[Backend]) -> str:
    names = ",".join(sorted(one.name for one in candidates))
    known = {attribute_key(key) for one in candidates for key in one.numbers}
    known |= {alias for alias, key in ALIASES.items() if key in known}
    advice = f"; {nearest(attribute, known)}" if known else ""
    return f'policy "{text}": no candidate has attribute "{attribute}" (missing: {names}){advice}'


def _rounding(best: float) -> float:
    """Return the rounding error of decimal fractions in binary: two costs of 0.3 are equal, however they add up."""
    return 1e-12 * max(1.0, abs(best))
