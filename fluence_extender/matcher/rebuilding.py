"""A matcher whose graph can change, over an engine whose graph had better not.

libreapi_cli adds and removes subgraphs in place, but doesn't count the nodes that come (fluxion reference 5.4), and
hangs where the last child of a vertex goes. So here a change builds a new graph with the change in it, replays what is
held, and swaps. Changes can be batched, and the long part run beside the event loop::

    rebuild = matcher.begin([Addition(subtree), Removal("/cluster0/node7")])
    await asyncio.to_thread(rebuild.run)
    matcher.finish(rebuild)

Meanwhile the matcher answers from the old graph; what is granted or freed in between is carried over at the end.
Invariant: job ids, what is held, and what is down are the same before and after, for all that is still in the graph.
The weights of ``first`` aren't carried over, and a reservation is as an allocation of the same time: until then nothing
else gets its vertices exclusively. libreapi_cli serves one call at a time in the whole process, so a call made while it
loads the new graph waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from errno import EBUSY
from typing import Any, cast

from fluence_extender.matcher.embedded.jgf import parse_json
from fluence_extender.matcher.embedded.replay import is_bare, times_of
from fluence_extender.matcher.errors import (
    Busy,
    InvalidOptions,
    JobExists,
    MatcherError,
    OnlyRootFound,
    UnknownJob,
    Unsatisfiable,
)
from fluence_extender.matcher.formatted import ends_at
from fluence_extender.matcher.graph_document import GraphDocument
from fluence_extender.matcher.port import Jgf, JobInfo, Match, Matcher, MatcherOptions, MatchOp
from fluence_extender.matcher.rebuild import Addition, Change, Live, Rebuild, Removal
from fluence_extender.matcher.release import truly_listed

Create = Callable[[Jgf, MatcherOptions], Matcher]

_ALLOCATING = (
    MatchOp.ALLOCATE,
    MatchOp.ALLOCATE_WITH_SATISFIABILITY,
    MatchOp.ALLOCATE_ORELSE_RESERVE,
)
_CANCELED_REMEMBERED = 100_000


class RebuildingMatcher:
    """A `Matcher` over matchers that ``create`` makes. Not thread-safe, but for `Rebuild.run`.

    Ids that it gives itself count as libreapi_cli's do, and pass over those that are held.
    """

    def __init__(self, graph: Jgf | str | bytes, options: MatcherOptions, create: Create) -> None:
        """Load ``graph``. Raises `InvalidGraph`, `InvalidOptions` (a match format other than ``jgf``)."""
        if options.match_format != "jgf":
            raise InvalidOptions(f"match format {options.match_format!r}: what is held is kept as jgf")
        self._create: Callable[[Jgf], Matcher] = lambda document: create(document, options)
        self._document = GraphDocument.read(graph)
        self._inner = self._create(self._document.jgf())
        self._live: dict[int, Live] = {}
        self._info: dict[int, JobInfo] = {}
        self._canceled: dict[int, JobInfo] = {}
        self._down: dict[str, None] = {}
        self._hollow: set[int] = set()
        self._next_jobid = 1
        for path in self._document.down():
            self.set_status(path, False)

    # --- changes of the graph ------------------------------------------------------------------------------------

    def begin(self, changes: Sequence[Change]) -> Rebuild:
        """Begin a batch of changes. `Rebuild.run` it, wherever, then `finish` it here."""
        return Rebuild(self._create, self._document, changes, self._live, self._down)

    def finish(self, rebuild: Rebuild) -> None:
        """Put a rebuild that has been run in place of the graph, and free the old one.

        Raises `MatcherError`: EBUSY where another one was finished since this one began; the graph stays as it is.
        """
        if rebuild.base is not self._document:
            self.abandon(rebuild)
            raise MatcherError("the graph has been rebuilt since; begin anew", EBUSY)
        try:
            down = rebuild.catch_up(self._live, self._down)
        except MatcherError:
            self.abandon(rebuild)
            raise
        if rebuild.matcher is not None:
            self._inner.close()
            self._inner = rebuild.matcher
        self._document = rebuild.document
        self._hollow = rebuild.hollow
        self._down = down

    @staticmethod
    def abandon(rebuild: Rebuild) -> None:
        """Free the new graph of a rebuild that isn't wanted any more."""
        if rebuild.matcher is not None:
            rebuild.matcher.close()
            rebuild.matcher = None

    def add_subgraph(self, jgf: Jgf | str | bytes) -> None:
        """Add the subtree in ``jgf``, at once. Raises `InvalidGraph`."""
        self._change(Addition(jgf))

    def remove_subgraph(self, path: str) -> None:
        """Remove the vertex at ``path`` and all below it, at once; jobs there keep the rest. Raises `MatcherError`."""
        self._change(Removal(path))

    def _change(self, change: Change) -> None:
        rebuild = self.begin([change])
        rebuild.run()
        self.finish(rebuild)

    # --- jobs ----------------------------------------------------------------------------------------------------

    def match(self, op: MatchOp | str, jobspec: Mapping[str, Any], jobid: int | None = None) -> Match:
        """Match ``jobspec``. Raises as the engine does."""
        while self._next_jobid in self._info:
            self._next_jobid += 1
        number = self._next_jobid if jobid is None else jobid
        if op in _ALLOCATING:
            self._check_free(number)
        try:
            match = self._inner.match(op, jobspec, number)
        except (Busy, Unsatisfiable):
            self._next_jobid += op in _ALLOCATING
            raise
        if op in _ALLOCATING:
            self._next_jobid += 1
            self._keep(match, ends_at(jobspec, match.at))
        return match

    def update_allocate(self, jobid: int, R: Jgf | str | bytes) -> Match:  # noqa: N803
        """Allocate exactly what ``R`` lists. Raises as the engine does."""
        self._check_free(jobid)
        match = self._inner.update_allocate(jobid, R)
        top = parse_json(R)
        at, duration = times_of(top)
        self._keep(match, at + duration)
        if not is_bare(top) and top.get("scheduling") is None:
            left = truly_listed(cast(Jgf, match.R), top["execution"], self._document.vertices_of)
            self._live[jobid] = replace(self._live[jobid], left=left)
        return match

    def cancel(self, jobid: int) -> None:
        """Free all that the job holds. Raises `UnknownJob`."""
        if jobid not in self._hollow:
            self._inner.cancel(jobid)
        self._forget(jobid)

    def partial_cancel(self, jobid: int, R: Jgf | str | bytes) -> bool:  # noqa: N803
        """Free a part of what the job has allocated. Raises `UnknownJob`, `InvalidJobspec`."""
        if jobid in self._info and self._info[jobid].reserved:
            raise UnknownJob(f"job {jobid} is reserved, and has nothing allocated")
        gone = self._inner.partial_cancel(jobid, R)
        if gone:
            self._forget(jobid)
        else:
            live = self._live[jobid]
            left = self._tagged(jobid)
            self._live[jobid] = replace(live, left=left if live.left is None else left & live.left)
        return gone

    def _tagged(self, jobid: int) -> frozenset[str]:
        try:
            found = self._inner.find(f"jobid-tag={jobid}", "jgf") or {"graph": {"nodes": []}}
        except OnlyRootFound:
            return frozenset()
        return frozenset(entry["metadata"]["paths"]["containment"] for entry in found["graph"]["nodes"])

    def info(self, jobid: int) -> JobInfo:
        """Say what became of a job; the latest hundred thousand cancelled ones are remembered. Raises `UnknownJob`."""
        info = self._info.get(jobid) or self._canceled.get(jobid)
        return self._inner.info(jobid) if info is None else info

    # --- the rest ------------------------------------------------------------------------------------------------

    def set_status(self, path: str, up: bool) -> None:
        """Mark the vertex at ``path`` up or down. Raises `MatcherError`."""
        self._inner.set_status(path, up)
        self._note_status(path, up)

    def get_status(self, path: str) -> bool:
        """Whether the vertex at ``path`` is itself marked up. Raises `MatcherError`."""
        return self._inner.get_status(path)

    def set_rank_status(self, ranks: Iterable[int], up: bool) -> None:
        """Mark the topmost vertex of each rank up or down. Raises `MatcherError`."""
        chosen = set(ranks)
        self._inner.set_rank_status(chosen, up)
        for rank in chosen:
            path = self._document.topmost(rank)
            if path is not None:
                self._note_status(path, up)

    def get_rank_status(self, rank: int) -> bool:
        """Whether the node of ``rank`` is itself marked up. Raises `MatcherError`."""
        return self._inner.get_rank_status(rank)

    def find(self, criteria: str, format: str | None = None) -> Jgf | None:
        """The vertices that meet ``criteria``. Raises as the engine does."""
        return self._inner.find(criteria, format)

    def close(self) -> None:
        """Free the graph."""
        self._inner.close()
        self._live.clear()

    def _keep(self, match: Match, expiration: int) -> None:
        self._live[match.jobid] = Live(match, expiration)
        self._info[match.jobid] = self._inner.info(match.jobid)
        self._canceled.pop(match.jobid, None)

    def _forget(self, jobid: int) -> None:
        del self._live[jobid]
        self._hollow.discard(jobid)
        self._canceled[jobid] = JobInfo("CANCELED", False, self._info.pop(jobid).at)
        if len(self._canceled) > _CANCELED_REMEMBERED:
            del self._canceled[next(iter(self._canceled))]

    def _check_free(self, jobid: int) -> None:
        if isinstance(jobid, int) and jobid in self._info:
            raise JobExists(f"job {jobid} is there already")

    def _note_status(self, path: str, up: bool) -> None:
        if up:
            self._down.pop(path, None)
        else:
            self._down[path] = None
