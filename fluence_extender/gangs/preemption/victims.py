"""Victims: what may be taken from a gang, and which of many candidates a preemptor takes.

A gang is taken whole or not at all, except that the surplus members of a gang that runs more than its size may be taken
alone. The choice prefers the fewest gangs, then those of queues that borrow and have the largest share, the lowest
priorities, the fewest pods, and the youngest gangs.

Invariant: the preemptor fits once the chosen victims are gone, and does not fit if any one of them stays.

The number of sets that are tried is bounded. With few candidates every combination is tried, the cheapest first. With
many, half of them is left out at a time, the most expensive half first (Junker's QuickXplain). This finds a set from
which no victim can be left out, but not always the cheapest set of its size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from math import comb

from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.model.gang import GangKey
from fluence_extender.placement.ranks import rank_key


@dataclass(frozen=True, slots=True)
class Victim:
    """Pods that are taken together from one gang: ``uids``, all of which hold something.

    ``surplus`` means that the gang keeps running without them. ``created`` is when the gang was created, in seconds
    since the epoch. ``borrowed`` is the share of its queue if the queue borrows and has to give back, otherwise 0.
    """

    gang: GangKey
    priority: int
    created: float
    uids: frozenset[str]
    surplus: bool = False
    borrowed: float = 0.0


def victims_of(gang: Gang) -> list[Victim]:
    """Return what may be taken from ``gang``: the whole gang first, then each surplus member on its own.

    Surplus members come in the reverse order of their ranks. The list is empty if the gang holds nothing, or while one
    of its Bindings is under way, because the outcome of that is not known yet.
    """
    alive = [member for member in gang.members.values() if member.alive]
    holding = [member for member in alive if member.assignment is not None]
    if not holding or any(member.binding for member in holding):
        return []
    created = min(member.age[0] for member in alive)
    priority = priority_as_victim(gang)
    found = [Victim(gang.key, priority, created, frozenset([member.pod.uid for member in holding]))]
    if not gang.whole or len(holding) <= gang.size - gang.ended:
        return found
    if any(member.membership.indivisible for member in alive):
        return found
    bound = [member for member in holding if member.bound]
    surplus = len(bound) + gang.ended - gang.size
    if surplus > 0:
        bound.sort(key=lambda member: rank_key(member.pod))
        found.extend(
            Victim(gang.key, priority, created, frozenset({member.pod.uid}), surplus=True)
            for member in reversed(bound[-surplus:])
        )
    return found


def priority_as_victim(gang: Gang) -> int:
    """Return the highest priority of all living members, because all of them would be evicted."""
    return gang.priority_among([member for member in gang.members.values() if member.alive])


Cost = tuple[int, tuple[float, ...], tuple[int, ...], int, tuple[float, ...], tuple[GangKey, ...]]


def cost(victims: Iterable[Victim]) -> Cost:
    """Return the cost of taking ``victims`` as a sort key: whole gangs, shares, priorities, pods, ages, names.

    The priorities are compared from the highest down.
    """
    taken = tuple(victims)
    return (
        sum(1 for victim in taken if not victim.surplus),
        tuple(sorted(-victim.borrowed for victim in taken)),
        tuple(sorted((victim.priority for victim in taken), reverse=True)),
        len(_uids(taken)),
        tuple(sorted(-victim.created for victim in taken)),
        tuple(sorted(victim.gang for victim in taken)),
    )


Chosen = tuple[Victim, ...]
Fits = Callable[[frozenset[str]], bool]
"""Returns whether the preemptor fits once these pods are gone, which are given by uid."""


def choose(candidates: Sequence[Victim], fits: Fits, trials: int) -> Chosen | None:
    """Choose victims with at most about ``trials`` trials; return None if all of them together aren't enough.

    When the trials run out, the returned set is enough but perhaps not the smallest.
    """
    return _Chooser(fits, trials).choose(candidates)


class _Chooser:
    """One choice; ``_left`` is the number of trials that are left."""

    def __init__(self, fits: Fits, trials: int) -> None:
        self._fits = fits
        self._left = trials

    def choose(self, candidates: Sequence[Victim]) -> Chosen | None:
        ordered = sorted(candidates, key=_cost_of_one)
        surplus = tuple(victim for victim in ordered if victim.surplus)
        whole = tuple(victim for victim in ordered if not victim.surplus)
        if not ordered or not self._enough(ordered):
            return None
        if surplus and self._enough(surplus):
            return self._smallest((), surplus)
        taken = self._best_of_few(whole, surplus)
        if taken is None:
            taken = self._smallest(surplus, whole)
        gangs = {victim.gang for victim in taken}
        others = tuple(victim for victim in surplus if victim.gang not in gangs)
        return (*taken, *self._smallest(taken, others))

    def _enough(self, victims: Iterable[Victim]) -> bool:
        self._left -= 1
        return self._fits(_uids(victims))

    def _best_of_few(self, whole: Sequence[Victim], surplus: Chosen) -> Chosen | None:
        """Return the best set of whole gangs that is enough with ``surplus``; None if there are too many to try."""
        for size in range(1, len(whole) + 1):
            if comb(len(whole), size) > self._left // 2:
                return None
            for taken in sorted(combinations(whole, size), key=cost):
                if self._enough((*taken, *surplus)):
                    return taken
        return None

    def _smallest(self, given: Chosen, among: Chosen) -> Chosen:
        """Return a part of ``among`` that is enough with ``given`` and from which no victim can be left out.

        ``among`` is ordered from cheap to expensive, and cheap victims are preferred.
        """
        if not among or self._spent or self._enough(given):
            return () if not self._spent else among
        low, high = 1, len(among)
        while low < high and not self._spent:
            middle = (low + high) // 2
            if self._enough((*given, *among[:middle])):
                high = middle
            else:
                low = middle + 1
        return self._needed(given, among[:high], False)

    def _needed(self, given: Chosen, among: Chosen, ask: bool) -> Chosen:
        """Return the part of ``among`` that is needed with ``given``; ``ask`` whether ``given`` alone is enough."""
        if self._spent:
            return among
        if ask and self._enough(given):
            return ()
        if len(among) <= 1:
            return among
        half = len(among) // 2
        cheap, expensive = among[:half], among[half:]
        needed = self._needed((*given, *cheap), expensive, True)
        return (*self._needed((*given, *needed), cheap, bool(needed)), *needed)

    @property
    def _spent(self) -> bool:
        return self._left <= 0


def _cost_of_one(victim: Victim) -> tuple[bool, float, int, int, float, GangKey]:
    """Return a key that orders single victims as `cost` does, in less time."""
    return (
        not victim.surplus,
        -victim.borrowed,
        victim.priority,
        len(victim.uids),
        -victim.created,
        victim.gang,
    )


def _uids(victims: Iterable[Victim]) -> frozenset[str]:
    return frozenset(chain.from_iterable(victim.uids for victim in victims))
