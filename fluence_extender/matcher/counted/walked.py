"""The small rest of a compact graph, matched vertex by vertex.

It is a walker over the skeleton document. A fork shares the walker until one side changes it; only then is it copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fluence_extender.matcher.embedded import Walker
from fluence_extender.matcher.embedded.graph import UP, Vertex
from fluence_extender.matcher.errors import Busy, Unsatisfiable
from fluence_extender.matcher.port import Jgf, JobInfo, Match, MatcherOptions, MatchOp


@dataclass(slots=True)
class _Shared:
    walker: Walker
    owners: int = 1


class Walked:
    """The walker, its own until forked."""

    def __init__(self, skeleton: Jgf, options: MatcherOptions) -> None:
        """Raises `InvalidGraph`, `InvalidOptions`."""
        self._shared = _Shared(Walker(skeleton, options))

    def fork(self) -> Walked:
        """A copy that is made when either changes."""
        fork = Walked.__new__(Walked)
        self._shared.owners += 1
        fork._shared = self._shared
        return fork

    def leave(self) -> None:
        """Give up this share of the walker; it isn't asked any more."""
        self._shared.owners -= 1

    @property
    def _own(self) -> Walker:
        """The walker, for a call that changes it."""
        if self._shared.owners > 1:
            self._shared.owners -= 1
            self._shared = _Shared(self._shared.walker.fork())
        return self._shared.walker

    @property
    def _read(self) -> Walker:
        return self._shared.walker

    def match(self, op: MatchOp, jobspec: Mapping[str, Any], jobid: int | None, nodes_up: int) -> Match:
        """Match on the skeleton, with ``nodes_up`` nodes up in the whole graph."""
        walker = self._own
        walker.nodes_up = nodes_up
        return walker.match(op, jobspec, jobid)

    def satisfiable(self, jobspec: Mapping[str, Any], nodes_up: int) -> bool:
        """Whether the skeleton could ever meet a jobspec."""
        try:
            self.match(MatchOp.SATISFIABILITY, jobspec, None, nodes_up)
        except (Busy, Unsatisfiable):
            return False
        return True

    def hold(
        self, jobid: int, info: JobInfo, duration: int, paths: Iterable[str], *, allocated: bool
    ) -> None:
        """Book vertices as another part of the engine granted them. Raises `MatcherError`."""
        self._own.hold(jobid, info, duration, paths, allocated=allocated)

    def cancel(self, jobid: int) -> None:
        """Free what the job holds here. Raises `UnknownJob`."""
        self._own.cancel(jobid)

    def update_allocate(self, jobid: int, resources: Jgf | str | bytes) -> Match:
        """Allocate what R lists. Raises `InvalidJobspec`."""
        return self._own.update_allocate(jobid, resources)

    def set_status(self, path: str, up: bool) -> None:
        """Mark a vertex up or down. Raises `MatcherError`."""
        self._own.set_status(path, up)

    def add_subgraph(self, skeleton: Jgf) -> None:
        """Add vertices. Raises `InvalidGraph`."""
        self._own.add_subgraph(skeleton)

    def remove_subgraph(self, path: str) -> None:
        """Remove vertices. Raises `MatcherError`."""
        self._own.remove_subgraph(path)

    def weigh(self, weights: Mapping[str, int | None]) -> None:
        """Set the weights of edges to vertices at known paths."""
        self._own.weigh(weights)

    def weights(self, paths: Iterable[str]) -> dict[str, int | None]:
        """The weights of edges to vertices at known paths."""
        return self._read.weights(paths)

    def has(self, path: str) -> bool:
        """Whether a vertex is at ``path``."""
        return self._read.has(path)

    def nodes(self) -> Iterator[Vertex]:
        """The vertices of type ``node``."""
        return self._read.nodes()

    def vertex(self, path: str) -> Vertex:
        """The vertex at ``path``."""
        return self._read.vertex(path)

    def downs(self, path: str) -> int:
        """How many vertices from the root down to ``path`` are marked down."""
        return self._read.downs(path)

    def below(self, path: str) -> list[str]:
        """The paths of all vertices below ``path``, parents first."""
        return self._read.paths_below(path)

    def entry(self, path: str, *, exclusive: bool) -> dict[str, Any]:
        """The vertex as an entry of an R whose ids are paths."""
        vertex = self.vertex(path)
        return {
            "id": path,
            "metadata": {
                "type": vertex.type,
                "basename": vertex.basename,
                "name": vertex.name,
                "id": vertex.id,
                "uniq_id": vertex.uniq_id,
                "rank": vertex.rank,
                "size": vertex.size,
                "exclusive": exclusive,
                "paths": dict(vertex.paths),
            },
        }


def is_up(vertex: Vertex) -> bool:
    """Whether a vertex is itself marked up."""
    return vertex.status == UP
