"""The steps of a policy: each takes the backends that are left and keeps some, with a reason for each other one.

A ranking sorts by an attribute and keeps the backends that are within its tolerance of the best. The other steps filter
and keep the order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from fluence_extender.graph.naming_rules import nearest
from fluence_extender.selection.backend import (
    ALIASES,
    STATUS,
    Backend,
    attribute_key,
    number_text,
    parse_number,
)
from fluence_extender.selection.errors import NoCandidates

Candidates = tuple[Backend, ...]


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of a step: the candidates that are left, in order, and why each other one was dropped."""

    kept: Candidates
    dropped: dict[str, str]


class Step(Protocol):
    """One step; ``text`` is the step as written, ``needs`` are the attributes that it uses."""

    @property
    def text(self) -> str: ...

    @property
    def needs(self) -> frozenset[str]: ...

    def apply(self, candidates: Candidates) -> StepResult:
        """Keep some of ``candidates``. Raise `NoCandidates` if none of them has the attribute to rank by."""
        ...


@dataclass(frozen=True, slots=True)
class Rank:
    """Keep those whose ``attribute`` is at most ``tolerance`` (its unit) from the best one, the best first."""

    text: str
    attribute: str
    highest: bool
    tolerance: float = 0.0

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({self.attribute})

    def apply(self, candidates: Candidates) -> StepResult:
        values = {one.name: one.number(self.attribute) for one in candidates}
        known = [value for value in values.values() if value is not None]
        if not known:
            raise NoCandidates(_none_has(self.text, self.attribute, candidates))
        best = max(known) if self.highest else min(known)
        kept: list[tuple[float, Backend]] = []
        dropped: dict[str, str] = {}
        for one in candidates:
            value = values[one.name]
            if value is None:
                dropped[one.name] = f"{self.text}: {_missing(one, self.attribute)}"
            elif abs(value - best) > self.tolerance + _rounding(best):
                dropped[one.name] = (
                    f"{self.text}: {self.attribute} {number_text(value)}, best is {number_text(best)}"
                )
            else:
                kept.append((float(f"{-value if self.highest else value:.12g}"), one))
        # Values that are equal to twelve digits stay in their order.
        kept.sort(key=lambda pair: pair[0])
        return StepResult(tuple(one for _, one in kept), dropped)


@dataclass(frozen=True, slots=True)
class Bound:
    """Keep those whose ``attribute`` is at least, or at most, ``limit``; drop those without it."""

    text: str
    attribute: str
    at_least: bool
    limit: float

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({self.attribute})

    def apply(self, candidates: Candidates) -> StepResult:
        return _filter(self.text, candidates, self._fault)

    def _fault(self, one: Backend) -> str:
        value = one.number(self.attribute)
        if value is None:
            return _missing(one, self.attribute)
        if value >= self.limit if self.at_least else value <= self.limit:
            return ""
        return f"{self.attribute} is {number_text(value)}"


@dataclass(frozen=True, slots=True)
class Equal:
    """Keep those whose ``attribute`` is ``value``, as a number if both are numbers; drop those without it."""

    text: str
    attribute: str
    value: str

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({self.attribute})

    def apply(self, candidates: Candidates) -> StepResult:
        return _filter(self.text, candidates, self._fault)

    def _fault(self, one: Backend) -> str:
        text = one.name if self.attribute in ("name", "backend") else one.text(self.attribute)
        if text is None:
            return _missing(one, self.attribute)
        wanted, number = parse_number(self.value), one.number(self.attribute)
        if text == self.value or (wanted is not None and wanted == number):
            return ""
        return f"{self.attribute} is {text}"


@dataclass(frozen=True, slots=True)
class OnlineOnly:
    """Keep those that are online or have no status; drop those that were asked and didn't answer."""

    text: str = "online-only"

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({STATUS})

    def apply(self, candidates: Candidates) -> StepResult:
        return _filter(self.text, candidates, self._fault)

    def _fault(self, one: Backend) -> str:
        status = one.text(STATUS)
        if status is None or status.upper() == "ONLINE":
            return ""
        error = one.text("query_error")
        return f"status is {status}" + (f" ({error})" if error else "")


@dataclass(frozen=True, slots=True)
class Prefer:
    """Keep only ``name`` if it is a candidate, else all candidates."""

    text: str
    name: str

    @property
    def needs(self) -> frozenset[str]:
        return frozenset()

    def apply(self, candidates: Candidates) -> StepResult:
        if not any(one.name == self.name for one in candidates):
            return StepResult(candidates, {})
        return _filter(self.text, candidates, lambda one: "" if one.name == self.name else "not preferred")


def _filter(text: str, candidates: Candidates, fault: Callable[[Backend], str]) -> StepResult:
    """Keep the candidates without a fault."""
    faults = {one.name: fault(one) for one in candidates}
    kept = tuple(one for one in candidates if not faults[one.name])
    return StepResult(kept, {name: f"{text}: {reason}" for name, reason in faults.items() if reason})


def _missing(one: Backend, attribute: str) -> str:
    error = one.text("query_error")
    return f"has no {attribute}" + (f" ({error})" if error else "")


def _none_has(text: str, attribute: str, candidates: Iterable[Backend]) -> str:
    names = ",".join(sorted(one.name for one in candidates))
    known = {attribute_key(key) for one in candidates for key in one.numbers}
    known |= {alias for alias, key in ALIASES.items() if key in known}
    advice = f"; {nearest(attribute, known)}" if known else ""
    return f'policy "{text}": no candidate has attribute "{attribute}" (missing: {names}){advice}'


def _rounding(best: float) -> float:
    """Return the rounding error of decimal fractions in binary: two costs of 0.3 are equal, however they add up."""
    return 1e-12 * max(1.0, abs(best))
