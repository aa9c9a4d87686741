"""Offer spoiled documents to a matcher.

Invariant: each document is accepted, or refused with a `MatcherError` and no other exception. A matcher that has
refused one gives the same answers as before. `Trials` keeps one busy matcher, and makes another one whenever a document
is accepted.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

from tests.oracle.conformance.jobspecs import cores, slot, spec, want
from tests.oracle.engines import Create
from tests.oracle.errors import MatcherError
from tests.oracle.fuzz import originals
from tests.oracle.fuzz.spoiling import odd, spoil, spoil_text
from tests.oracle.port import Jgf, Matcher, MatcherOptions, MatchOp

Offer = Callable[[Matcher], object]

_OPTIONS = MatcherOptions(policy="lonode")
_PROBES: tuple[tuple[MatchOp, Any], ...] = (
    (MatchOp.SATISFIABILITY, spec(slot(4, cores(1), want("memory", 4)))),
    (MatchOp.SATISFIABILITY, spec(slot(5, cores(1)))),
    (MatchOp.SATISFIABILITY, spec(slot(1, want("node", 3, cores(1))))),
    (MatchOp.WITHOUT_ALLOCATING, spec(want("core", {"min": 1}, exclusive=True), duration=1)),
    (MatchOp.WITHOUT_ALLOCATING, spec(want("memory", {"min": 1}, exclusive=True), duration=1)),
    (MatchOp.WITHOUT_ALLOCATING, spec(slot(1, cores(1)), constraints={"properties": ["big"]})),
    (MatchOp.WITHOUT_ALLOCATING_FUTURE, spec(slot(4, cores(1)), duration=30)),
    (MatchOp.WITHOUT_ALLOCATING_FUTURE, spec(slot(2, want("node", 1, cores(1))), duration=7)),
)


def busy_matcher(create: Create, graph: Jgf = originals.GRAPH) -> Matcher:
    """Return a matcher with a job, a reservation and a job that was cancelled."""
    matcher = create(graph, _OPTIONS)
    matcher.match(MatchOp.ALLOCATE, spec(slot(1, cores(1)), duration=50), 1)
    matcher.match(MatchOp.ALLOCATE_ORELSE_RESERVE, spec(slot(4, cores(1)), duration=20), 2)
    matcher.match(MatchOp.ALLOCATE, spec(slot(1, cores(1)), duration=9), 3)
    matcher.cancel(3)
    return matcher


def fingerprint(matcher: Matcher) -> list[str]:
    """Return answers that show what the matcher holds; the questions change nothing."""
    answers = []
    for op, request in _PROBES:
        try:
            found = matcher.match(op, request, 99)
            answers.append(f"{found.at} {json.dumps(found.R)}")
        except MatcherError as error:
            answers.append(f"{type(error).__name__} {error.errno}")
    for jobid in (1, 2, 3, 77):
        try:
            answers.append(repr(matcher.info(jobid)))
        except MatcherError as error:
            answers.append(f"{type(error).__name__} {error.errno}")
    return answers


def _graph(random: Random, document: Any) -> Any:
    return spoil_text(random, document) if random.random() < 0.15 else spoil(random, document)


def _match(random: Random) -> Offer:
    request = spoil(random, random.choice(originals.JOBSPECS))
    op: Any = random.choice(tuple(MatchOp)) if random.random() < 0.98 else odd(random)
    jobid: Any = 77 if random.random() < 0.98 else odd(random)
    return lambda matcher: matcher.match(op, request, jobid)


def _add(random: Random) -> Offer:
    document = _graph(random, originals.ADDITION)
    return lambda matcher: matcher.add_subgraph(document)


def _replay(random: Random) -> Offer:
    whole = random.choice((originals.R, originals.TIMED_R))
    document = _graph(random, whole)
    jobid: Any = 77 if random.random() < 0.98 else odd(random)
    return lambda matcher: matcher.update_allocate(jobid, document)


def _path(random: Random) -> Offer:
    path: Any = spoil(random, ["/cluster0/node1/core0"])
    path = path[0] if isinstance(path, list) and path else path
    call: Callable[[Matcher], object] = random.choice(
        (
            lambda matcher: matcher.set_status(path, False),
            lambda matcher: matcher.remove_subgraph(path),
        )
    )
    return call


def _job(random: Random) -> Offer:
    jobid = odd(random)
    call = random.randrange(2)
    return lambda matcher: matcher.cancel(jobid) if call else matcher.info(jobid)


_CALLS: dict[str, Callable[[Random], Offer]] = {
    "jobspec": _match,
    "addition": _add,
    "R": _replay,
    "path": _path,
    "job": _job,
}
_RARER = ("options", "path", "job")
_TURNS = (*("jobspec",) * 8, *("addition",) * 4, *("R",) * 5, *("graph",) * 6, *_RARER)


class Harm(Exception):
    """A document did what none may do."""


class Trials:
    """Offers one document after another."""

    def __init__(self, create: Create) -> None:
        self._create = create
        self._matcher = busy_matcher(create)
        self._before = fingerprint(self._matcher)

    def offer(self, random: Random) -> tuple[str, str]:
        """Make a document, offer it and check the invariant; return the document's kind and the answer."""
        kind = random.choice(_TURNS)
        creates = kind in ("graph", "options")
        return kind, self._create_one(random, kind) if creates else self._ask(random, kind)

    def _create_one(self, random: Random, kind: str) -> str:
        graph = _graph(random, originals.GRAPH) if kind == "graph" else None
        given = spoil(random, originals.OPTIONS) if kind == "options" else None
        try:
            options = MatcherOptions(**_keywords(given)) if given is not None else _OPTIONS
            matcher = self._create(originals.GRAPH if graph is None else graph, options)
            fingerprint(matcher)
            matcher.close()
        except MatcherError as error:
            return _refusal_kind(error)
        return "accepted"

    def _ask(self, random: Random, kind: str) -> str:
        call = _CALLS[kind](random)
        try:
            call(self._matcher)
        except MatcherError as error:
            after = fingerprint(self._matcher)
            if after != self._before:
                raise Harm(f"changed by what it refused: {error}\n{after}\n{self._before}") from error
            return _refusal_kind(error)
        fingerprint(self._matcher)
        self._matcher.close()
        self._matcher = busy_matcher(self._create)
        return "accepted"


def _keywords(given: Any) -> dict[str, Any]:
    known = MatcherOptions.__dataclass_fields__
    return {key: given[key] for key in given if key in known} if isinstance(given, dict) else {}


def _refusal_kind(error: MatcherError) -> str:
    message = str(error)
    if not 0 < len(message) < 5000:
        raise Harm(f"a message of {len(message)} characters: {message[:200]}")
    return type(error).__name__
