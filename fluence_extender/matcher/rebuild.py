"""Building a matcher for a changed graph, with the jobs of the old one on it.

The long part, `Rebuild.run`, touches nothing that anybody else uses, so it may run in a thread of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fluence_extender.matcher.errors import MatcherError
from fluence_extender.matcher.graph_document import GraphDocument
from fluence_extender.matcher.port import Jgf, Match, Matcher

CreateMatcher = Callable[[Jgf], Matcher]


@dataclass(frozen=True, slots=True)
class Addition:
    """A subtree to be added, with the path from the root down to it, as for `Matcher.add_subgraph`."""

    jgf: Jgf | str | bytes


@dataclass(frozen=True, slots=True)
class Removal:
    """The path of a vertex to be removed with all below it."""

    path: str


Change = Addition | Removal


@dataclass(frozen=True, slots=True)
class Live:
    """A job that holds something: its match as JGF, and when it ends, in seconds on the matcher's clock.

    ``left`` are the paths that a partial cancel left it, None for all.
    """

    match: Match
    expiration: int
    left: frozenset[str] | None = None

    def resources(self, document: GraphDocument) -> Jgf | None:
        """What it holds of the graph, as an RFC 20 object with JGF and times; None where nothing is left."""
        granted: Any = self.match.R
        held = {
            path
            for path in _exclusive(granted)
            if path in document.vertices and (self.left is None or path in self.left)
        }
        above = {path[:index] for path in held for index, char in enumerate(path) if char == "/" and index}
        nodes = [e for e in granted["graph"]["nodes"] if _path(e) in held or _path(e) in above - held]
        ids = {entry["id"] for entry in nodes}
        edges = [e for e in granted["graph"]["edges"] if e["source"] in ids and e["target"] in ids]
        if not held or not edges:
            return None
        return {
            "version": 1,
            "execution": {"starttime": self.match.at, "expiration": self.expiration},
            "scheduling": {"graph": {"nodes": [_marked(e, _path(e) in held) for e in nodes], "edges": edges}},
        }


class Rebuild:
    """One batch of changes under way: the graph and the jobs as they were when it began.

    ``hollow`` are the jobs of which nothing is left in the new graph.
    """

    def __init__(
        self,
        create: CreateMatcher,
        base: GraphDocument,
        changes: Sequence[Change],
        live: Mapping[int, Live],
        down: Iterable[str],
    ) -> None:
        self.base = base
        self.document = base
        self.matcher: Matcher | None = None
        self.hollow: set[int] = set()
        self._create = create
        self._changes = tuple(changes)
        self._live = dict(live)
        self._down = dict.fromkeys(down)
        self._joined_down: dict[str, None] = {}

    def run(self) -> None:
        """Build the new matcher. Raises `InvalidGraph`, `MatcherError`; nothing has changed then."""
        for change in self._changes:
            self._change(change)
        matcher = self._create(self.document.jgf())
        self._down = self._downs(self._down)
        try:
            for path in self._down:
                matcher.set_status(path, False)
            for jobid, live in self._live.items():
                self._replay(matcher, jobid, live)
        except MatcherError:
            matcher.close()
            raise
        self.matcher = matcher

    def catch_up(self, live: Mapping[int, Live], down: Iterable[str]) -> dict[str, None]:
        """Tell the new matcher what happened since the rebuild began; returns what is down. Raises `MatcherError`."""
        matcher = self.matcher
        if matcher is None:
            raise MatcherError("the rebuild hasn't been run")
        for jobid, before in self._live.items():
            if live.get(jobid) is not before:
                if jobid not in self.hollow:
                    matcher.cancel(jobid)
                self.hollow.discard(jobid)
        now_down = self._downs(down)
        for path in self._down.keys() ^ now_down.keys():
            matcher.set_status(path, path not in now_down)
        for jobid, now in live.items():
            if self._live.get(jobid) is not now:
                self._replay(matcher, jobid, now)
        return now_down

    def _change(self, change: Change) -> None:
        before = self.document.vertices
        if isinstance(change, Removal):
            self.document = self.document.minus(change.path)
            return
        self.document = self.document.plus(change.jgf)
        self._joined_down |= {path: None for path in self.document.down() if path not in before}

    def _downs(self, down: Iterable[str]) -> dict[str, None]:
        """Of those that are down, and those that joined so, the ones that are in the new graph."""
        return {path: None for path in (*down, *self._joined_down) if path in self.document.vertices}

    def _replay(self, matcher: Matcher, jobid: int, live: Live) -> None:
        resources = live.resources(self.document)
        if resources is None:
            self.hollow.add(jobid)
        else:
            matcher.update_allocate(jobid, resources)


def _path(entry: Mapping[str, Any]) -> str:
    path: str = entry["metadata"]["paths"]["containment"]
    return path


def _exclusive(granted: Jgf) -> list[str]:
    return [_path(entry) for entry in granted["graph"]["nodes"] if entry["metadata"].get("exclusive")]


def _marked(entry: Mapping[str, Any], exclusive: bool) -> Jgf:
    metadata = {key: value for key, value in entry["metadata"].items() if key != "exclusive"}
    return {"id": entry["id"], "metadata": {**metadata, **({"exclusive": True} if exclusive else {})}}
