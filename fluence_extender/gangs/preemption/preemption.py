"""Which lower gangs make way for a gang that has no place: the decision, as plain values.

A gang is taken whole or not at all; of one that runs more members than it needs the surplus may be taken alone. Chosen
are the fewest gangs, then the lowest in priority, the fewest pods, the youngest. Invariant: whoever asks would
fit once the chosen have gone, and wouldn't if any one of them stayed.

How many sets are tried is bounded. Few candidates are tried in every combination, the best first; of many a smallest
set is found by leaving out halves, the dearest first (Junker's QuickXplain), which needn't be the best of its size.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from math import comb

from fluence_extender.model.gang import GangKey


@dataclass(frozen=True, slots=True)
class Victim:
    """What may be taken from one gang together: ``uids`` are pods that hold something.

    ``surplus`` says that the gang goes on without them; ``created`` is when the gang was, seconds since the epoch.
    """

    gang: GangKey
    priority: int
    created: float
    uids: frozenset[str]
    surplus: bool = False


Cost = tuple[int, tuple[int, ...], int, tuple[float, ...], tuple[GangKey, ...]]


def cost(victims: Iterable[Victim]) -> Cost:
    """What taking ``victims`` costs, to be compared: gangs, priorities (the highest first), pods, ages, names."""
    taken = tuple(victims)
    return (
        sum(1 for one in taken if not one.surplus),
        tuple(sorted((one.priority for one in taken), reverse=True)),
        len(_uids(taken)),
        tuple(sorted(-one.created for one in taken)),
        tuple(sorted(one.gang for one in taken)),
    )


Question = frozenset[str]
Chosen = tuple[Victim, ...]
Choosing = Generator[Question, bool, Chosen | None]
"""Asks, with the uids of pods that are gone, whether there is a place; at the end there are the victims, or None."""


def choice(candidates: Sequence[Victim], trials: int) -> Choosing:
    """The victims to take, or None when even all of them wouldn't be enough; it asks about ``trials`` times at most.

    When the trials run out, a set that is enough but perhaps not the smallest is returned.
    """
    return _Choice(trials).choose(candidates)


class _Choice:
    """One search; ``_left`` is how often may still be asked."""

    def __init__(self, trials: int) -> None:
        self._left = trials

    def choose(self, candidates: Sequence[Victim]) -> Choosing:
        ordered = sorted(candidates, key=_cost_of_one)
        surplus = tuple(one for one in ordered if one.surplus)
        whole = tuple(one for one in ordered if not one.surplus)
        if not ordered or not (yield from self._enough(ordered)):
            return None
        if surplus and (yield from self._enough(surplus)):
            return (yield from self._smallest((), surplus))
        taken = yield from self._few(whole, surplus)
        if taken is None:
            taken = yield from self._smallest(surplus, whole)
        gangs = {one.gang for one in taken}
        spare = tuple(one for one in surplus if one.gang not in gangs)
        return (*taken, *(yield from self._smallest(taken, spare)))

    def _enough(self, victims: Iterable[Victim]) -> Generator[Question, bool, bool]:
        self._left -= 1
        return (yield _uids(victims))

    def _few(self, whole: Sequence[Victim], beside: Chosen) -> Choosing:
        """The best set of whole gangs, as far as all sets of its size and smaller ones can be tried."""
        for size in range(1, len(whole) + 1):
            if comb(len(whole), size) > self._left // 2:
                return None
            for taken in sorted(combinations(whole, size), key=cost):
                if (yield from self._enough((*taken, *beside))):
                    return taken
        return None

    def _smallest(self, given: Chosen, among: Chosen) -> Generator[Question, bool, Chosen]:
        """A set out of ``among``, dear ones last, that beside ``given`` is enough and of which none can be spared."""
        if not among or self._spent or (yield from self._enough(given)):
            return () if not self._spent else among
        low, high = 1, len(among)
        while low < high and not self._spent:
            middle = (low + high) // 2
            if (yield from self._enough((*given, *among[:middle]))):
                high = middle
            else:
                low = middle + 1
        return (yield from self._needed(given, among[:high], False))

    def _needed(self, given: Chosen, among: Chosen, ask: bool) -> Generator[Question, bool, Chosen]:
        if self._spent:
            return among
        if ask and (yield from self._enough(given)):
            return ()
        if len(among) <= 1:
            return among
        half = len(among) // 2
        cheap, dear = among[:half], among[half:]
        kept = yield from self._needed((*given, *cheap), dear, True)
        return (*(yield from self._needed((*given, *kept), cheap, bool(kept))), *kept)

    @property
    def _spent(self) -> bool:
        return self._left <= 0


def _cost_of_one(one: Victim) -> tuple[bool, int, int, float, GangKey]:
    """What `cost` of one victim alone says, in less time."""
    return (not one.surplus, one.priority, len(one.uids), -one.created, one.gang)


def _uids(victims: Iterable[Victim]) -> frozenset[str]:
    return frozenset(chain.from_iterable(one.uids for one in victims))
