"""Whatever JSON is given, a refusal is a `MatcherError`, and the matcher is as before."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracle import MatcherError, MatcherOptions
from tests.oracle.tests.walker_graphs import cluster, slots
from tests.oracle.walker import Walker

GRAPH = cluster(2, 2, 1, 4)
JOBSPEC = slots(
    {"min": 1, "max": 2, "operator": "+", "operand": 1},
    2,
    1,
    duration=5,
    constraints={"and": [{"ranks": ["0-1"]}, {"not": [{"properties": ["a"]}]}, {"hostlist": ["node[0-9]"]}]},
)
R = {
    "version": 1,
    "execution": {"starttime": 0, "expiration": 10},
    "scheduling": Walker(GRAPH, MatcherOptions("lonode")).match("allocate", slots(1, 2)).R,
}

values: st.SearchStrategy[Any] = st.sampled_from(
    [
        None,
        True,
        -1,
        0,
        1,
        2**31,
        2**64,
        10**400,
        10**5000,
        1.5,
        float("nan"),
        float("inf"),
        "",
        "x",
        "1",
        "/",
        [],
        {},
    ]
) | st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=5,
)


def _places(document: Any) -> list[tuple[Any, Any]]:
    """Every container of the document with every key in it."""
    found: list[tuple[Any, Any]] = []
    waiting = [document]
    while waiting:
        item = waiting.pop()
        if isinstance(item, (dict, list)):
            for key in item if isinstance(item, dict) else range(len(item)):
                found.append((item, key))
                waiting.append(item[key])
    return found


@st.composite
def spoiled(draw: st.DrawFn, original: Any) -> Any:
    """The document with one to three of its values replaced."""
    document = copy.deepcopy(original)
    for _ in range(draw(st.integers(1, 3))):
        container, key = draw(st.sampled_from(_places(document)))
        container[key] = draw(values)
    return document


@settings(max_examples=400, deadline=None)
@given(spoiled(JOBSPEC))
def test_spoiled_jobspec(jobspec: Any) -> None:
    matcher = Walker(GRAPH)
    try:
        matcher.cancel(matcher.match("allocate", jobspec).jobid)
    except MatcherError:
        assert matcher.match("satisfiability", slots(2, 2)).at == 0
    assert len(matcher.match("allocate", slots(2, 2)).placement) == 3


@settings(max_examples=400, deadline=None)
@given(spoiled(GRAPH))
def test_spoiled_graph(graph: Any) -> None:
    matcher = Walker(GRAPH)
    with contextlib.suppress(MatcherError):
        Walker(graph).match("satisfiability", slots(1))
    try:
        matcher.add_subgraph(graph)
    except MatcherError:
        assert len(matcher.match("allocate", slots(2, 2)).placement) == 3


@settings(max_examples=400, deadline=None)
@given(spoiled(R))
def test_spoiled_r(document: Any) -> None:
    matcher = Walker(GRAPH)
    try:
        matcher.update_allocate(1, document)
    except MatcherError:
        assert len(matcher.match("allocate", slots(2, 2)).placement) == 3
    else:
        matcher.cancel(1)
        assert len(matcher.match("allocate", slots(2, 2)).placement) == 3
