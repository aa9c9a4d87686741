"""A resource graph in libreapi_cli, and the jobs on it.

Invariant: no argument reaches the library that could crash it, hang it, or get an answer to another question. Each is
checked first and refused with its place. The table of job ids exists because the library gives
an id that is held to a second job without an error.
"""

from __future__ import annotations

import errno as _errno
import functools
import threading
import weakref
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from fluxion_ffi._ffi import OutString, ffi
from fluxion_ffi.containment import Containment, Subtree
from fluxion_ffi.encoding import c_string, dump, parse
from fluxion_ffi.errors import (
    FluxionError,
    InvalidGraph,
    InvalidOptions,
    InvalidRequest,
    JobExists,
    Unsatisfiable,
    shown,
)
from fluxion_ffi.features import Feature
from fluxion_ffi.jobspec import encode_jobspec
from fluxion_ffi.library import Library
from fluxion_ffi.options import GraphOptions, PruneFilters
from fluxion_ffi.resource_set import encode_ranks, encode_release, encode_replay
from fluxion_ffi.values import LAST_JOB, NO_JOB, Document, JobInfo, MatchOp, MatchResult

_GROWTH_FACTOR, _GROWTH = 4, 2**16
"""How many vertices to reserve unless an option says it: so many times the graph's own, and so many more.

The library keeps vertices in one vector. When the vector moves, an earlier search for a future start leaves pointers to
the old place. Reserved memory that isn't used costs address space only.
"""

_P = ParamSpec("_P")
_T = TypeVar("_T")


def _one_at_a_time(
    method: Callable[Concatenate[ResourceGraph, _P], _T],
) -> Callable[Concatenate[ResourceGraph, _P], _T]:
    """Let no other call change the graph between the checks of a method and its call of the library."""

    @functools.wraps(method)
    def alone(self: ResourceGraph, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        with self._lock:
            return method(self, *args, **kwargs)

    return alone


class ResourceGraph:
    """One graph, loaded from a JGF document; a context manager that frees the graph at its end.

    Calls may come from any thread; they run one at a time. The library's clock stands at 0.

    Raises `InvalidGraph` and `InvalidOptions`.
    """

    def __init__(self, library: Library, jgf: Document, options: GraphOptions | None = None) -> None:
        self._library = library
        self._options = options or GraphOptions()
        self._tree = Containment()
        self._held: set[int] = set()
        document = parse(jgf, "graph", InvalidGraph)
        loaded = self._tree.read(document, _errno.EPROTO)
        self._tree.commit(loaded)
        self._check_loadable()
        self._capacity = self._options.reserve_vtx_vec or _GROWTH_FACTOR * self._tree.loaded + _GROWTH
        text = dump(document, "graph", InvalidGraph)
        context = library.new_context()
        try:
            library.call("reapi_cli_initialize", context, text, self._options.json(self._capacity))
        except FluxionError:
            library.destroy(context)
            raise
        self._context = context
        self._lock = threading.Lock()
        self._abandon = weakref.finalize(self, library.abandon, context)
        self._abandon.atexit = False

    def __enter__(self) -> ResourceGraph:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Free the graph; further calls raise `GraphClosed`, closing again does nothing."""
        if self._abandon.detach():
            self._library.destroy(self._context)

    @property
    def types(self) -> frozenset[str]:
        """The types of its vertices."""
        return frozenset(vertex.type for vertex in self._tree.vertices.values())

    @_one_at_a_time
    def match(self, op: MatchOp, jobspec: Document) -> MatchResult:
        """Match under the library's own next jobid.

        The library counts from 1 and doesn't check whether `match_with_jobid` or `update_allocate` took an id: it
        gives the id again, and the two jobs become one. Use this call alone, or not at all. Raises
        `ResourcesBusy`, `Unsatisfiable`, `InvalidRequest`, `NothingToAllocate`.
        """
        op = self._op(op)
        jobid = ffi.new("uint64_t *")
        arguments = (int(op), self._jobspec(jobspec), jobid)
        return self._match("reapi_cli_match", op, arguments, jobid)

    @_one_at_a_time
    def match_with_jobid(self, op: MatchOp, jobspec: Document, jobid: int) -> MatchResult:
        """Match under ``jobid``, from 0 to 2^63 - 1. Raises as `match`, and `JobExists` if that id is held."""
        self._library.require(Feature.MATCH_WITH_JOBID)
        op = self._op(op)
        self._check_jobid(jobid)
        if op.holds:
            self._check_free(jobid)
        given = ffi.new("uint64_t *", jobid if op <= MatchOp.SATISFIABILITY else NO_JOB)
        arguments = (int(op), self._jobspec(jobspec), given[0])
        return self._match("reapi_cli_match_with_jobid", op, arguments, given)

    @_one_at_a_time
    def match_satisfy(self, jobspec: Document) -> bool:
        """Whether the empty graph, all of it up, could hold the jobspec. Raises `InvalidRequest`.

        The library leaks some bytes at each yes; ``match(MatchOp.SATISFIABILITY, …)`` answers the same and doesn't.
        """
        self._library.require(Feature.MATCH_SATISFY)
        satisfiable, overhead = ffi.new("_Bool *"), ffi.new("double *")
        try:
            self._call("reapi_cli_match_satisfy", self._jobspec(jobspec), satisfiable, overhead)
        except Unsatisfiable:
            return False
        return bool(satisfiable[0])

    @_one_at_a_time
    def update_allocate(self, jobid: int, R: Document) -> MatchResult:  # noqa: N803
        """Allocate exactly what ``R`` lists.

        Raises `JobExists`, `InvalidRequest`, or `FluxionError` with errno 0 if a vertex isn't in the graph.
        """
        self._library.require(Feature.UPDATE_ALLOCATE)
        self._check_jobid(jobid)
        self._check_free(jobid)
        text = encode_replay(R, self._tree)
        at, overhead = ffi.new("int64_t *"), ffi.new("double *")
        with OutString("const char *[1]") as out:
            self._call("reapi_cli_update_allocate", jobid, text, at, overhead, out.pointer)
            self._held.add(jobid)
            return MatchResult(jobid, False, at[0], overhead[0], out.text() or "")

    @_one_at_a_time
    def cancel(self, jobid: int, noent_ok: bool = False) -> None:
        """Free everything that a job holds. Raises `NotFound`, unless ``noent_ok``."""
        self._check_jobid(jobid)
        self._call("reapi_cli_cancel", jobid, noent_ok)
        self._held.discard(jobid)

    @_one_at_a_time
    def partial_cancel(self, jobid: int, R: Document, noent_ok: bool = False) -> bool:  # noqa: N803
        """Free what an allocation holds on the ranks of ``R``; return whether nothing is left of it.

        ``R`` is ``{"version": 1, "execution": {"R_lite": [{"rank": "3,5", "children": {}}]}}``. The job must hold
        something on each rank: the library frees what it finds and fails at a rank where it finds nothing.
        Raises `NotFound` (reservations too), `InvalidRequest`, `FluxionError` with errno 0 (such a rank).
        """
        self._library.require(Feature.PARTIAL_CANCEL)
        self._check_jobid(jobid)
        text = encode_release(R, self._tree.check_ranks)
        full = ffi.new("_Bool *")
        self._call("reapi_cli_partial_cancel", jobid, text, noent_ok, full)
        if full[0]:
            self._held.discard(jobid)
        return bool(full[0])

    @_one_at_a_time
    def info(self, jobid: int) -> JobInfo:
        """Return the state of a job, a cancelled one included. Raises `NotFound`."""
        self._check_jobid(jobid)
        reserved, at, overhead = ffi.new("_Bool *"), ffi.new("int64_t *"), ffi.new("double *")
        with OutString() as mode:
            self._call("reapi_cli_info", jobid, mode.pointer, reserved, at, overhead)
            return JobInfo(mode.text() or "", bool(reserved[0]), at[0], overhead[0])

    @_one_at_a_time
    def find(self, criteria: str) -> str | None:
        """Return the vertices that meet ``criteria``, with their ancestors, as JGF; None if there are none.

        ``criteria`` is such as ``status=down and property=big``. Raises `InvalidRequest`.
        """
        self._library.require(Feature.FIND)
        with OutString() as found:
            self._call("reapi_cli_find", c_string(criteria, "criteria"), b"jgf", found.pointer)
            return found.text()

    @_one_at_a_time
    def add_subgraph(self, jgf: Document) -> None:
        """Add the vertices of ``jgf`` that are new; it holds the path from the root down to them too.

        Raises `InvalidGraph` (EINVAL) with the place; the graph is unchanged.
        """
        document = parse(jgf, "graph", self._refuse_graph)
        addition = self._tree.read(document, _errno.EINVAL)
        self._check_addition(addition)
        self._call("reapi_cli_add_subgraph", dump(document, "graph", self._refuse_graph))
        self._tree.commit(addition)

    @_one_at_a_time
    def remove_subgraph(self, path: str) -> None:
        """Remove the vertex at ``path`` and all below it. Cancel the jobs there first.

        Raises `InvalidRequest`: no such vertex, the root, or the last child of its parent.
        """
        text = c_string(path, "path")
        self._tree.check_removal(path)
        self._call("reapi_cli_remove_subgraph", text)
        self._tree.commit_removal(path)

    @_one_at_a_time
    def set_status(self, path: str, up: bool) -> None:
        """Mark the vertex at ``path`` up or down; nothing new lands below one that is down. Raises `InvalidRequest`."""
        self._library.require(Feature.STATUS)
        self._call("reapi_cli_set_status", c_string(path, "path"), 0 if up else 1)

    @_one_at_a_time
    def get_status(self, path: str) -> bool:
        """Whether the vertex at ``path`` itself is marked up, whatever is above it. Raises `InvalidRequest`."""
        self._library.require(Feature.STATUS)
        status = ffi.new("int *")
        self._call("reapi_cli_get_status", c_string(path, "path"), status)
        return bool(status[0] == 0)

    @_one_at_a_time
    def set_rank_status(self, ranks: Iterable[int], up: bool) -> None:
        """Mark the topmost vertex of each rank up or down. Raises `InvalidRequest` if a rank has no vertex."""
        self._library.require(Feature.RANK_STATUS)
        chosen = list(ranks) if isinstance(ranks, Iterable) else [ranks]
        self._tree.check_ranks(chosen, "ranks")
        self._call("reapi_cli_set_rank_status", encode_ranks(chosen).encode(), 0 if up else 1)

    @_one_at_a_time
    def get_rank_status(self, rank: int) -> bool:
        """Whether the node of ``rank`` itself is marked up. Raises `InvalidRequest`."""
        self._library.require(Feature.RANK_STATUS)
        self._tree.check_ranks([rank], "rank")
        status = ffi.new("int *")
        self._call("reapi_cli_get_rank_status", str(rank).encode(), status)
        return bool(status[0] == 0)

    def _match(self, function: str, op: MatchOp, arguments: tuple[Any, ...], jobid: Any) -> MatchResult:
        reserved, at, overhead = ffi.new("_Bool *"), ffi.new("int64_t *"), ffi.new("double *")
        with OutString() as out:
            self._call(function, *arguments, reserved, out.pointer, at, overhead)
            if op.holds:
                self._held.add(jobid[0])
            return MatchResult(jobid[0], bool(reserved[0]), at[0], overhead[0], out.text() or "")

    def _call(self, function: str, *arguments: Any) -> None:
        self._library.call(function, self._context, *arguments)

    def _op(self, op: MatchOp) -> MatchOp:
        try:
            op = MatchOp(op)
        except ValueError:
            raise InvalidRequest(f"op: {shown(op)} isn't a match operation") from None
        if op > MatchOp.SATISFIABILITY:
            self._library.require(Feature.WITHOUT_ALLOCATING)
        return op

    def _jobspec(self, jobspec: Document) -> bytes:
        return encode_jobspec(jobspec, self._tree.units, self._options)

    def _check_jobid(self, jobid: int) -> None:
        if isinstance(jobid, bool) or not isinstance(jobid, int) or not 0 <= jobid <= LAST_JOB:
            raise InvalidRequest(f"jobid: must be an integer from 0 to 2^63 - 1, not {shown(jobid)}")

    def _check_free(self, jobid: int) -> None:
        if jobid in self._held:
            raise JobExists(f"jobid: {jobid} is held by a job")

    def _check_loadable(self) -> None:
        tree = self._tree
        if not tree.root:
            raise InvalidGraph("graph.nodes: no vertex is the root (a containment path with one /)")
        if not tree.children.get(tree.root):
            raise InvalidGraph(f"graph.edges: the root {tree.root} contains nothing")
        root = tree.vertices[tree.root].type
        if not PruneFilters.parse(self._options.prune_filters).kept_by(root, tree.leaf_types()):
            raise InvalidOptions(
                f"options.prune_filters: {shown(self._options.prune_filters)} keeps no total at the root, "
                f"whose type is {root}; add ALL:core, for example"
            )

    def _check_addition(self, addition: Subtree) -> None:
        grown = self._tree.loaded + len(addition.new)
        if grown > self._capacity:
            raise self._refuse_graph(
                f"graph.nodes: {grown} vertices would exceed the {self._capacity} that are reserved; load the graph "
                f"anew, or with options.reserve_vtx_vec"
            )

    def _refuse_graph(self, message: str) -> FluxionError:
        return InvalidGraph(message, _errno.EINVAL)
