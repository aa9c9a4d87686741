"""The choice of victims with its questions answered at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fluence_extender.gangs.preemption import victims
from fluence_extender.gangs.preemption.victims import Chosen, Victim

Fits = Callable[[frozenset[str]], bool]
"""Returns whether the preemptor fits once the pods of these uids are gone."""


def choose(candidates: Sequence[Victim], fits: Fits, trials: int) -> Chosen | None:
    """Return what is chosen when ``fits`` answers the questions."""
    choice = victims.choose(candidates, trials)
    try:
        question = next(choice)
        while True:
            question = choice.send(fits(question))
    except StopIteration as end:
        found: Chosen | None = end.value
        return found
