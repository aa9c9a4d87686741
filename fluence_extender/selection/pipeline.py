"""Choose one backend from descriptions and offers, with a reason for each other one.

Merge by name → keep the allowed names → keep what the cluster offers → constraints → policy, left to right → take the
first one left. Backends are in the order of their names, so a tie goes to the first name.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from fluence_extender.selection.backend import Backend, merged, priced
from fluence_extender.selection.errors import SelectionError
from fluence_extender.selection.policy import parse_constraints, parse_policy
from fluence_extender.selection.providers import BackendProvider, BackendQuery
from fluence_extender.selection.request import SelectionRequest
from fluence_extender.selection.steps import Candidates

NOT_OFFERED = "not offered by the cluster scheduler"
NOT_DESCRIBED = "offered by scheduler but no attributes available (not in file/providers)"
NOT_A_CANDIDATE = "not in select-candidates"
_MOST_LISTED = 8


@dataclass(frozen=True, slots=True)
class Selection:
    """A choice. ``candidates`` were left at the end, the chosen one first; ``dropped`` has a reason for each other."""

    chosen: str
    request: SelectionRequest
    candidates: Candidates
    dropped: dict[str, str]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sources:
    """What is known of backends before providers are asked.

    ``offers`` is what the cluster offers, None if that is unknown; ``described`` is the content of attribute files.
    """

    offers: tuple[Backend, ...] | None
    described: tuple[Backend, ...] = ()
    providers: tuple[BackendProvider, ...] = ()
    notes: tuple[str, ...] = ()


def select(request: SelectionRequest, sources: Sources, cost_tolerance: float = 0.0) -> Selection:
    """Choose a backend. Raise `SelectionError` if that isn't possible."""
    steps = (*parse_constraints(request.constraints), *parse_policy(request.policy, cost_tolerance))
    needs = frozenset[str]().union(*(step.needs for step in steps))
    known = _merge([*(sources.offers or ()), *sources.described])
    dropped = _dropped(known, request, sources.offers)
    allowed = tuple(one for one in known if one.name not in dropped)
    live, notes = _ask(sources.providers, BackendQuery(allowed, needs, request.shots))
    known = _merge([*known, *live])
    dropped = _dropped(known, request, sources.offers)
    dropped |= {one.name: NOT_DESCRIBED for one in known if one.name not in dropped and not one.described}
    left = tuple(priced(one, request.shots) for one in known if one.name not in dropped)
    if not left:
        why = _reasons(dropped) or "there are none"
        raise SelectionError(
            f"no candidate backends after intersecting providers with scheduler offerings: {why}"
        )
    for step in steps:
        left, faults = step.apply(left)
        if not left:
            reasons = _reasons(faults) + (f"; dropped before: {_reasons(dropped)}" if dropped else "")
            raise SelectionError(f'policy "{step.text}" removed all candidates: {reasons}')
        dropped |= faults
    return Selection(left[0].name, request, left, dropped, (*sources.notes, *request.notes, *notes))


def _merge(descriptions: Iterable[Backend]) -> Candidates:
    pool: dict[str, Backend] = {}
    for one in descriptions:
        pool[one.name] = merged(pool[one.name], one) if one.name in pool else one
    return tuple(pool[name] for name in sorted(pool))


def _dropped(
    backends: Candidates, request: SelectionRequest, offers: Collection[Backend] | None
) -> dict[str, str]:
    """Return why some backends may not be chosen, whatever the policy is."""
    offered = None if offers is None else {one.name for one in offers}
    dropped: dict[str, str] = {}
    for one in backends:
        if request.candidates is not None and one.name not in request.candidates:
            dropped[one.name] = NOT_A_CANDIDATE
        elif offered is not None and one.name not in offered:
            dropped[one.name] = NOT_OFFERED
    for name in set(request.candidates or ()).difference(one.name for one in backends):
        dropped[name] = "in select-candidates, but not known"
    return dropped


def _ask(providers: Sequence[BackendProvider], query: BackendQuery) -> tuple[list[Backend], list[str]]:
    backends: list[Backend] = []
    notes: list[str] = []
    for provider in providers:
        if not provider.wanted(query.needs):
            continue
        try:
            description = provider.describe(query)
            described = [_finite(one) for one in description.backends]
        except Exception as error:  # code of another package, which must not end the selection
            notes.append(f"provider {provider.name}: failed: {str(error) or type(error).__name__}")
            continue
        backends += described
        notes += [f"provider {provider.name}: {note}" for note in description.notes]
    return backends, notes


def _finite(backend: Backend) -> Backend:
    """Return a provider's description without NaN and infinities, which can't be ranked or written as JSON."""
    numbers = {key: float(value) for key, value in backend.numbers.items() if math.isfinite(value)}
    return Backend(backend.name, numbers, dict(backend.strings))


def _reasons(dropped: dict[str, str]) -> str:
    names = sorted(dropped)
    text = "; ".join(f"{name}: {dropped[name]}" for name in names[:_MOST_LISTED])
    return text + (f"; and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else "")
