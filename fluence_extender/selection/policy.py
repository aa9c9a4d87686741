"""The steps of a selection: each takes the backends that are left and keeps some, with a reason for each other one.

Rankers sort by an attribute and keep what is as good as the best, give or take their tolerance; filters keep the order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from fluence_extender.graph.naming_rules import nearest
from fluence_extender.selection.backend import ALIASES, STATUS, Backend, attribute_key, parse_number, shown
from fluence_extender.selection.errors import NoCandidates

Candidates = tuple[Backend, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """What a policy made of the candidates: who is left, in order, and why each other one left."""

    kept: Candidates
    dropped: dict[str, str]


class Policy(Protocol):
    """One step; ``text`` is how it was written, ``needs`` are the attributes it looks at."""

    @property
    def text(self) -> str: ...

    @property
    def needs(self) -> frozenset[str]: ...

    def apply(self, candidates: Candidates) -> Step:
        """Keep some of ``candidates``. Raises `NoCandidates` when they can't be told apart at all."""
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

    def apply(self, candidates: Candidates) -> Step:
        values = {one.name: one.number(self.attribute) for one in candidates}
        known = [value for value in values.values() if value is not None]
        if not known:
            raise NoCandidates(_nobody_has(self.text, self.attribute, candidates))
        best = max(known) if self.highest else min(known)
        kept: list[tuple[float, Backend]] = []
        dropped: dict[str, str] = {}
        for one in candidates:
            value = values[one.name]
            if value is None:
                dropped[one.name] = f"{self.text}: {_missing(one, self.attribute)}"
            elif abs(value - best) > self.tolerance + _rounding(best):
                dropped[one.name] = f"{self.text}: {self.attribute} {shown(value)}, best is {shown(best)}"
            else:
                kept.append((float(f"{-value if self.highest else value:.12g}"), one))
        # To twelve digits, as above; equal ones stay in their order.
        kept.sort(key=lambda pair: pair[0])
        return Step(tuple(one for _, one in kept), dropped)


@dataclass(frozen=True, slots=True)
class Bound:
    """Keep those whose ``attribute`` is at least, or at most, ``limit``; who lacks it goes."""

    text: str
    attribute: str
    at_least: bool
    limit: float

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({self.attribute})

    def apply(self, candidates: Candidates) -> Step:
        return _filter(self.text, candidates, self._fault)

    def _fault(self, one: Backend) -> str:
        value = one.number(self.attribute)
        if value is None:
            return _missing(one, self.attribute)
        if value >= self.limit if self.at_least else value <= self.limit:
            return ""
        return f"{self.attribute} is {shown(value)}"


@dataclass(frozen=True, slots=True)
class Equal:
    """Keep those whose ``attribute`` is ``value``, as a number where both are numbers; who lacks it goes."""

    text: str
    attribute: str
    value: str

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({self.attribute})

    def apply(self, candidates: Candidates) -> Step:
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
    """Keep those that are online, or of which nobody knows; who was asked and didn't answer goes."""

    text: str = "online-only"

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({STATUS})

    def apply(self, candidates: Candidates) -> Step:
        return _filter(self.text, candidates, self._fault)

    def _fault(self, one: Backend) -> str:
        status = one.text(STATUS)
        if status is None or status.upper() == "ONLINE":
            return ""
        error = one.text("query_error")
        return f"status is {status}" + (f" ({error})" if error else "")


@dataclass(frozen=True, slots=True)
class Prefer:
    """Keep only ``name`` if it is there, else everybody."""

    text: str
    name: str

    @property
    def needs(self) -> frozenset[str]:
        return frozenset()

    def apply(self, candidates: Candidates) -> Step:
        if not any(one.name == self.name for one in candidates):
            return Step(candidates, {})
        return _filter(self.text, candidates, lambda one: "" if one.name == self.name else "another is there")


class _Fault(Protocol):
    def __call__(self, one: Backend, /) -> str: ...


def _filter(text: str, candidates: Candidates, fault: _Fault) -> Step:
    faults = {one.name: fault(one) for one in candidates}
    kept = tuple(one for one in candidates if not faults[one.name])
    return Step(kept, {name: f"{text}: {told}" for name, told in faults.items() if told})


def _missing(one: Backend, attribute: str) -> str:
    error = one.text("query_error")
    return f"has no {attribute}" + (f" ({error})" if error else "")


def _nobody_has(text: str, attribute: str, candidates: Iterable[Backend]) -> str:
    names = ",".join(sorted(one.name for one in candidates))
    known = {attribute_key(key) for one in candidates for key in one.numbers}
    known |= {alias for alias, key in ALIASES.items() if key in known}
    advice = f"; {nearest(attribute, known)}" if known else ""
    return f'policy "{text}": no candidate has attribute "{attribute}" (missing: {names}){advice}'


def _rounding(best: float) -> float:
    """What decimal fractions lose in binary: two costs of 0.3 are equal however they were added up."""
    return 1e-12 * max(1.0, abs(best))
