"""A faulty document is refused with the position of the fault; the matcher doesn't change and no process dies."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engines import FLUXION
from tests.oracle.engines import ENGINES
from tests.oracle.errors import MatcherError
from tests.oracle.fuzz import originals
from tests.oracle.fuzz.children import run
from tests.oracle.fuzz.spoiling import places
from tests.oracle.fuzz.trials import Trials, busy_matcher, fingerprint
from tests.oracle.port import Matcher
from tests.oracle.walker import Walker

HERE = ["oracle", *(["fluxion"] if FLUXION.library is not None else [])]

WRONG: tuple[Any, ...] = (None, True, 1.5, "\ud800", -7, [], {}, [[1]], {"a": {}}, 10**400)

CALLS: dict[str, tuple[Any, str]] = {
    "jobspec": (originals.JOBSPECS[0], "match"),
    "constrained": (originals.JOBSPECS[1], "match"),
    "addition": (originals.ADDITION, "add_subgraph"),
    "R": (originals.TIMED_R, "update_allocate"),
}


def offer(matcher: Matcher, method: str, document: Any) -> None:
    match method:
        case "match":
            matcher.match("without_allocating", document)
        case "add_subgraph":
            matcher.add_subgraph(document)
        case _:
            matcher.update_allocate(77, document)


def dotted(document: Any, container: Any, key: Any) -> list[str]:
    """Return the path to a value as messages write it, from the outermost container inwards."""

    def search(item: Any, way: list[str]) -> list[str] | None:
        members: Iterator[tuple[Any, Any]] = iter(
            item.items() if isinstance(item, dict) else enumerate(item) if isinstance(item, list) else ()
        )
        for name, member in members:
            step = f".{name}" if isinstance(item, dict) else f"[{name}]"
            if item is container and name == key:
                return [*way, step]
            found = search(member, [*way, step])
            if found is not None:
                return found
        return None

    return search(document, []) or []


def spots(document: Any) -> Iterator[tuple[Any, list[str]]]:
    """Yield the document with a value of the wrong kind at each position, and the path to it."""
    for number in range(len(places(document))):
        for wrong in WRONG:
            spoiled = copy.deepcopy(document)
            container, key = places(spoiled)[number]
            if type(container[key]) is not type(wrong):
                way = dotted(spoiled, container, key)
                container[key] = copy.deepcopy(wrong)
                yield spoiled, way


def names(message: str, way: list[str]) -> bool:
    """Return whether the message names the position, its container or its content."""
    path = "".join(way).lstrip(".").removeprefix("scheduling.")
    if path in message:
        return True
    return any(
        re.search(rf"(?<![\w.]){re.escape(path[:end])}(?![\w\[])", message)
        for end in range(len(path), 0, -1)
        if path[end : end + 1] in ("", ".", "[")
    )


@pytest.mark.parametrize("kind", CALLS)
@pytest.mark.parametrize("engine", HERE)
def test_a_value_of_the_wrong_kind_is_reported_with_its_position(engine: str, kind: str) -> None:
    document, method = CALLS[kind]
    matcher = busy_matcher(ENGINES[engine])
    before = fingerprint(matcher)
    refused = 0
    silent = []
    for spoiled, way in spots(document):
        try:
            offer(matcher, method, spoiled)
        except MatcherError as refusal:
            refused += 1
            if not names(str(refusal), way) and type(refusal).__name__.startswith("Invalid"):
                silent.append(("".join(way), str(refusal)[:200]))
        else:
            matcher.close()
            matcher = busy_matcher(ENGINES[engine])
    assert silent == []
    assert refused > 20
    assert fingerprint(matcher) == before


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**64))
def test_damaged_documents_are_reported_and_do_no_harm(seed: int) -> None:
    trials, random = Trials(Walker), Random(seed)
    for _ in range(3):
        trials.offer(random)


@pytest.mark.parametrize("engine", HERE)
def test_no_document_ends_the_process_or_blocks_it(engine: str) -> None:
    report = run(engine, seed=20, start=0, documents=250, seconds=60)
    assert report.findings == {}
    assert report.documents == 250
