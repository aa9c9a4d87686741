"""The error of a resources file that can't be used, alone or with this cluster: it lists every `Problem`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault: its file ``source``, the ``line`` (from 1; 0 if unknown), the ``path`` inside, and the ``fix``."""

    source: str
    path: str
    line: int
    message: str
    fix: str

    def __str__(self) -> str:
        place = f"{self.source}:{self.line}" if self.line else self.source
        inside = f" {self.path}:" if self.path else ""
        return f"{place}:{inside} {self.message} ({self.fix})"


class InvalidResourcesFile(ValueError):
    """The resources file can't be used; ``problems`` are all faults that were found, in the order of the file."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))
