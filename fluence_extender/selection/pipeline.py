"""From descriptions and offers to one backend, with a reason for each other one.

merge by name → the allow-list → what the cluster offers → constraints → policy, left to right → the first one left.
Backends come in the order of their names, so that ties go to the first name.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from fluence_extender.selection.backend import Backend, merged
from fluence_extender.selection.errors import NoCandidates
from fluence_extender.selection.policy import Candidates, Policy
from fluence_extender.selection.policy_text import parse_constraints, parse_policy
from fluence_extender.selection.pricing import priced
from fluence_extender.selection.providers import Provider, Query
from fluence_extender.selection.request import SelectionRequest

NOT_OFFERED = "not offered by the cluster scheduler"
NOT_DESCRIBED = "offered by scheduler but no attributes available (not in file/providers)"
NOT_A_CANDIDATE = "not in select-candidates"
_MOST_TOLD = 8


@dataclass(frozen=True, slots=True)
class Selection:
    """A choice: ``candidates`` were left at the end, the chosen one first; ``dropped`` says why others weren't."""

    chosen: str
    request: SelectionRequest
    candidates: Candidates
    dropped: dict[str, str]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sources:
    """Who tells of backends.

    ``offers`` is what the cluster offers, None where that is unknown; ``described`` is what files say.
    """

    offers: tuple[Backend, ...] | None
    described: tuple[Backend, ...] = ()
    providers: tuple[Provider, ...] = ()
    notes: tuple[str, ...] = ()


def select(request: SelectionRequest, sources: Sources, cost_tolerance: float = 0.0) -> Selection:
    """Choose a backend. Raises `SelectionError` when that can't be done."""
    steps = (*parse_constraints(request.constraints), *parse_policy(request.policy, cost_tolerance))
    needs = frozenset[str]().union(*(step.needs for step in steps))
    pool = _pool(_merge([*(sources.offers or ()), *sources.described]), request, sources.offers)
    told, notes = _ask(sources.providers, Query(pool.left, needs, request.shots))
    pool = _pool(_merge([*pool.everybody, *told]), request, sources.offers)
    undescribed = {one.name: NOT_DESCRIBED for one in pool.left if not one.described}
    left = tuple(priced(one, request.shots) for one in pool.left if one.described)
    dropped = {**pool.dropped, **undescribed}
    if not left:
        told_why = _told(dropped) or "there are none"
        raise NoCandidates(
            f"no candidate backends after intersecting providers with scheduler offerings: {told_why}"
        )
    for step in steps:
        left = _apply(step, left, dropped)
    return Selection(left[0].name, request, left, dropped, (*sources.notes, *request.notes, *notes))


@dataclass(frozen=True, slots=True)
class _Pool:
    everybody: Candidates
    left: Candidates
    dropped: dict[str, str]


def _merge(descriptions: Iterable[Backend]) -> Candidates:
    pool: dict[str, Backend] = {}
    for one in descriptions:
        pool[one.name] = merged(pool[one.name], one) if one.name in pool else one
    return tuple(pool[name] for name in sorted(pool))


def _pool(everybody: Candidates, request: SelectionRequest, offers: Collection[Backend] | None) -> _Pool:
    offered = None if offers is None else {one.name for one in offers}
    dropped: dict[str, str] = {}
    for one in everybody:
        if request.candidates is not None and one.name not in request.candidates:
            dropped[one.name] = NOT_A_CANDIDATE
        elif offered is not None and one.name not in offered:
            dropped[one.name] = NOT_OFFERED
    for name in request.candidates or ():
        if all(one.name != name for one in everybody):
            dropped[name] = "in select-candidates, and nobody knows it"
    return _Pool(everybody, tuple(one for one in everybody if one.name not in dropped), dropped)


def _ask(providers: Sequence[Provider], query: Query) -> tuple[list[Backend], list[str]]:
    backends: list[Backend] = []
    notes: list[str] = []
    for provider in providers:
        if not provider.wanted(query.needs):
            continue
        try:
            told = provider.describe(query)
            described = [_finite(one) for one in told.backends]
        except Exception as error:  # a provider is somebody else's code, and fails softly
            notes.append(f"provider {provider.name}: failed: {str(error) or type(error).__name__}")
            continue
        backends += described
        notes += [f"provider {provider.name}: {note}" for note in told.notes]
    return backends, notes


def _finite(told: Backend) -> Backend:
    """A description by somebody else's code: numbers that are none can't be ranked, nor written as JSON."""
    numbers = {key: float(value) for key, value in told.numbers.items() if math.isfinite(value)}
    return Backend(told.name, numbers, dict(told.strings))


def _apply(step: Policy, left: Candidates, dropped: dict[str, str]) -> Candidates:
    made = step.apply(left)
    dropped.update(made.dropped)
    if not made.kept:
        before = {name: why for name, why in dropped.items() if name not in made.dropped}
        told = _told(made.dropped) + (f"; left before: {_told(before)}" if before else "")
        raise NoCandidates(f'policy "{step.text}" removed all candidates: {told}')
    return made.kept


def _told(dropped: dict[str, str]) -> str:
    names = sorted(dropped)
    told = "; ".join(f"{name}: {dropped[name]}" for name in names[:_MOST_TOLD])
    return told + (f"; and {len(names) - _MOST_TOLD} more" if len(names) > _MOST_TOLD else "")
