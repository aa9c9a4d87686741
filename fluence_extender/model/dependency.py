"""The dependencies of a gang on work that has to end first, as users write them: ``ok:job/prep, any:gang/train``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from fluence_extender.model.names import AFTER_ANNOTATION

MOST_DEPENDENCIES = 32
LONGEST_SHOWN = 40
"""The most characters of an invalid text that a message quotes."""

FORM = "ok:, any: or failed:, then job/NAME or gang/NAME, and commas between several"
_ONE = re.compile(r"(ok|any|failed):(job|gang)/([a-z0-9](?:[-a-z0-9./]{0,251}[a-z0-9])?)")


class Ending(StrEnum):
    """How a Job or a gang has ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"


class EndCondition(StrEnum):
    """How a Job or a gang has to end to meet a dependency: with success, in any way, or with a failure."""

    OK = "ok"
    ANY = "any"
    FAILED = "failed"

    def met_by(self, outcome: Ending) -> bool:
        """Return whether this outcome meets the condition."""
        return self is EndCondition.ANY or (self is EndCondition.OK) == (outcome is Ending.SUCCEEDED)


@dataclass(frozen=True, slots=True, order=True)
class Target:
    """A Job or a gang of the same namespace; ``kind`` is job or gang."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


@dataclass(frozen=True, slots=True)
class Dependency:
    """A Job or gang that has to end, and how it has to end."""

    wanted: EndCondition
    target: Target

    def __str__(self) -> str:
        return f"{self.wanted}:{self.target}"


def parse_dependencies(text: str) -> tuple[Dependency, ...] | str:
    """Return the dependencies that the annotation ``after`` names, each once, or what is wrong with it.

    An empty text names none.
    """
    parts = [part.strip() for part in text.split(",", MOST_DEPENDENCIES)] if text.strip() else []
    if len(parts) > MOST_DEPENDENCIES:
        return f"annotation {AFTER_ANNOTATION} names more than {MOST_DEPENDENCIES} dependencies"
    found: dict[Dependency, None] = {}
    for part in parts:
        match = _ONE.fullmatch(part)
        if match is None:
            return f"annotation {AFTER_ANNOTATION} has {part[:LONGEST_SHOWN]!r}: it must be {FORM}"
        found[Dependency(EndCondition(match[1]), Target(match[2], match[3]))] = None
    return tuple(found)
