"""The choice of victims with its questions answered at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fluence_extender.gangs.preemption.preemption import Chosen, Victim, choice

Fits = Callable[[frozenset[str]], bool]
"""Whether whoever asks has a place once the pods of these uids have gone."""


def choose(candidates: Sequence[Victim], fits: Fits, trials: int) -> Chosen | None:
    """What is chosen when ``fits`` answers the questions."""
    choosing = choice(candidates, trials)
    try:
        question = next(choosing)
        while True:
            question = choosing.send(fits(question))
    except StopIteration as end:
        found: Chosen | None = end.value
        return found
