"""The walker as a part of an engine that has another way to answer: it can be told what is held, and asked.

What a job holds passes between the parts as the paths of its exclusive vertices. Invariant: a walker that was told
every live job, every status, the weights and the job count answers like one that was asked from the start.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from errno import EINVAL

from fluence_extender.matcher.embedded.grant import Booking, Grant
from fluence_extender.matcher.embedded.graph import UNWEIGHED, UP, Edge, Vertex, subtree
from fluence_extender.matcher.embedded.reapi import EmbeddedMatcher
from fluence_extender.matcher.embedded.span import Span
from fluence_extender.matcher.errors import InvalidGraph, MatcherError
from fluence_extender.matcher.port import JobInfo


class Walker(EmbeddedMatcher):
    """An `EmbeddedMatcher` that can take over from another engine, and hand back."""

    def fork(self) -> Walker:
        """An independent copy, at the cost of all vertices."""
        return copy.deepcopy(self)

    # --- what is there -------------------------------------------------------------------------------------------

    @property
    def nodes_up(self) -> int:
        """How many nodes count as up; a job can't ask for more."""
        return self._graph.nodes_up

    @nodes_up.setter
    def nodes_up(self, count: int) -> None:
        self._graph.nodes_up = count

    def recount_nodes(self) -> None:
        """Count the nodes anew, each one up less the vertices marked down at or above it."""
        self._graph.nodes_up = sum(1 - _downs(node) for node in self._graph.nodes)

    def downs(self, path: str) -> int:
        """How many vertices from the root down to ``path`` are marked down."""
        return _downs(self.vertex(path))

    def has(self, path: str) -> bool:
        """Whether a vertex is at ``path``."""
        return path in self._graph.by_path

    def vertex(self, path: str) -> Vertex:
        """The vertex at ``path``, a known one."""
        return self._graph.by_path[path][0]

    def nodes(self) -> Iterator[Vertex]:
        """The vertices of type ``node``."""
        return iter(self._graph.nodes)

    def paths_below(self, path: str) -> list[str]:
        """The paths of all vertices below a known ``path``, parents first."""
        return [vertex.path for vertex in subtree(self.vertex(path)) if vertex.path != path]

    # --- jobs ----------------------------------------------------------------------------------------------------

    @property
    def next_jobid(self) -> int:
        """The id that the next match without one gets."""
        return self._next_jobid

    def resume(self, next_jobid: int, canceled: Mapping[int, JobInfo]) -> None:
        """Go on counting jobs where another engine stopped."""
        self._next_jobid = next_jobid
        self._canceled.update(canceled)

    def duration_of(self, jobid: int) -> int:
        """How many seconds the latest grant of a live job lasts."""
        return self._spans[jobid][-1].duration

    def hold(
        self, jobid: int, info: JobInfo, duration: int, paths: Iterable[str], *, allocated: bool
    ) -> None:
        """Book the vertices at ``paths`` exclusively for ``jobid``, as the match that granted them did.

        ``allocated``: held by a job rather than by a reservation. Raises `MatcherError` where they aren't free.
        """
        span = Span(info.at, duration)
        seq = self._graph.new_walk()
        exclusive = dict.fromkeys(paths)
        for path in exclusive:
            self._mark(path, seq, exclusive)
        booking = Booking.ALLOCATE if allocated else Booking.RESERVE
        grant = Grant(
            self._graph, self._filters, span, booking, seq=seq, whole_types=frozenset(), weighs=False
        )
        root = self._graph.root
        taken = not exclusive or grant.take(root.size, root.path in exclusive)
        if not taken or grant.errno is not None:
            span.release()
            raise MatcherError(f"job {jobid}: what it holds isn't free", EINVAL)
        self._keep(jobid, span, info)

    def _mark(self, path: str, seq: int, exclusive: Mapping[str, None]) -> None:
        """Mark the edges from the root down to ``path``, as far as they aren't."""
        if path not in self._graph.by_path:
            raise InvalidGraph(f"no vertex is at {path!r}")
        vertex = self.vertex(path)
        while vertex.parents and vertex.parents[0].seq != seq:
            edge = vertex.parents[0]
            edge.mark(seq, vertex.size, vertex.path in exclusive)
            vertex = edge.source

    # --- weights -------------------------------------------------------------------------------------------------

    def weigh(self, weights: Mapping[str, int | None]) -> None:
        """Set the weights of the edges to the vertices at known paths; None is that of an edge no job came through."""
        for path, weight in weights.items():
            for edge in self.vertex(path).parents:
                edge.reweigh(UNWEIGHED if weight is None else weight)

    def weights(self, paths: Iterable[str]) -> dict[str, int | None]:
        """The weights of the edges to the vertices at known paths."""
        edges: Iterator[Edge] = (edge for path in paths for edge in self.vertex(path).parents[:1])
        return {edge.target.path: None if edge.weight == UNWEIGHED else edge.weight for edge in edges}


def _downs(vertex: Vertex) -> int:
    downs = 0
    above: Vertex | None = vertex
    while above is not None:
        downs += above.status != UP
        above = above.parents[0].source if above.parents else None
    return downs
