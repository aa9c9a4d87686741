"""The errors of this package, all of them `GraphError`, and the problems in a resources file.

* `InvalidResourcesFile`: the file, alone or with this cluster, can't be used; it lists every `Problem`.
* `GraphTooLarge`: a document with one vertex for each leaf would have too many vertices.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


class GraphError(ValueError):
    """The base of this package's errors."""


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


class InvalidResourcesFile(GraphError):
    """The resources file can't be used; ``problems`` are all faults that were found, in the order of the file."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class GraphTooLarge(GraphError):
    """A graph would have too many vertices if each leaf were one."""

    def __init__(self, vertices: int, limit: int) -> None:
        self.vertices = vertices
        self.limit = limit
        super().__init__(
            f"the graph would have {vertices} vertices with one a leaf, more than {limit}: "
            "take the compact form (with --engine embedded, graph --compact)"
        )

    def __reduce__(self) -> tuple[type[GraphTooLarge], tuple[int, int]]:
        return GraphTooLarge, (self.vertices, self.limit)
