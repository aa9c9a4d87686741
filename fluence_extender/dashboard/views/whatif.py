"""What the service answers to a what-if question, in the words of ``kubectl fluence simulate``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fluence_extender.apps.kubectl.simulate import answer_lines
from fluence_extender.dashboard.service import Item

NOTE = "note: "


@dataclass(frozen=True, slots=True)
class GangAnswer:
    """What would become of a gang, or of several that are alike."""

    title: str
    fits: bool
    lines: Sequence[str]


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The answer as a whole."""

    fits: bool
    gangs: Sequence[GangAnswer]
    notes: Sequence[str]


def what_if(answer: Item) -> WhatIf:
    """Return an answer of ``/v1/simulate`` for people."""
    gangs: list[GangAnswer] = []
    notes: list[str] = []
    for line in answer_lines(answer):
        if line.startswith(NOTE):
            notes.append(line.removeprefix(NOTE))
        elif line.startswith("  "):
            last = gangs[-1]
            gangs[-1] = GangAnswer(last.title, last.fits, [*last.lines, line.strip()])
        else:
            gangs.append(GangAnswer(line, line.endswith(": fits now"), []))
    return WhatIf(answer["fits"], gangs, notes)
