"""Odd documents and arguments are accepted or refused with a `MatcherError`, and do no harm."""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracle import (
    InvalidGraph,
    InvalidJobspec,
    InvalidOptions,
    MatcherError,
    MatcherOptions,
)
from tests.oracle.tests.walker_graphs import cluster, slots, vertex
from tests.oracle.walker import Walker

FLAT = cluster(2, 2)


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (None, "size must be an integer"),
        (nested(5000), "size must be an integer"),
        (10**5000, "out of range"),
    ],
    ids=["null", "deep", "huge"],
)
def test_an_odd_size_is_refused_with_its_place(size: Any, message: str) -> None:
    document = cluster(1, 1)
    document["graph"]["nodes"][2]["metadata"]["size"] = size
    with pytest.raises(InvalidGraph) as refusal:
        Walker(document)
    assert str(refusal.value).startswith("graph.nodes[2].metadata.size")
    assert message in str(refusal.value)


def test_text_that_is_no_unicode_is_refused() -> None:
    with pytest.raises(InvalidGraph, match="graph must be an object"):
        Walker('{"graph": "\ud800"}')


def test_a_cycle_off_the_root_is_refused() -> None:
    document = cluster(1, 1)
    document["graph"]["nodes"] += [vertex(8, "rack", 8, "/cluster0/a"), vertex(9, "rack", 9, "/cluster0/a/b")]
    document["graph"]["edges"] += [{"source": "8", "target": "9"}, {"source": "9", "target": "8"}]
    with pytest.raises(InvalidGraph, match=r"graph\.edges: the containment edges close a cycle"):
        Walker(document)


@pytest.mark.parametrize(
    "value", [None, 1, [], pytest.param(nested(5000), id="deep"), pytest.param(10**5000, id="huge")]
)
def test_options_that_are_no_text_are_refused(value: Any) -> None:
    for name in ("policy", "prune_filters", "match_format"):
        with pytest.raises(InvalidOptions, match=f"options.{name} must be a string"):
            MatcherOptions(**{name: value})


@pytest.mark.parametrize(
    "value",
    [
        None,
        "1",
        1.0,
        True,
        [],
        {},
        -1,
        pytest.param(nested(5000), id="deep"),
        pytest.param(10**5000, id="huge"),
    ],
)
def test_arguments_of_the_wrong_kind_are_refused(value: Any) -> None:
    matcher = Walker(FLAT)
    for call in (matcher.cancel, matcher.info):
        with pytest.raises(InvalidJobspec):
            call(value)
    with pytest.raises(MatcherError, match="no vertex is at"):
        matcher.remove_subgraph(value)
    with pytest.raises(MatcherError):
        matcher.set_status(value, True)
    with pytest.raises(InvalidJobspec, match="unknown match operation"):
        matcher.match(value, slots(1))
    assert matcher.match("allocate", slots(3)).jobid == 1


def test_no_message_is_longer_than_a_person_reads() -> None:
    with pytest.raises(MatcherError) as refusal:
        Walker(FLAT).match("allocate", slots(1) | {"attributes": {"x" * 10**6: 1}})
    assert len(str(refusal.value)) <= 2001
