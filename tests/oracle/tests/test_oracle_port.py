"""The matcher port, on each engine that is found here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.engines import FLUXION
from tests.oracle import (
    Busy,
    InvalidJobspec,
    InvalidOptions,
    Matcher,
    MatcherOptions,
)
from tests.oracle.engines import ENGINES
from tests.oracle.tests.walker_graphs import jobspec, slots, vertex

Make = Callable[[], Matcher]

HERE = [name for name in ENGINES if name == "oracle" or FLUXION.library is not None]


def _graph() -> dict[str, Any]:
    """Two nodes of two cores and a pool of memory; a gateway without rank, with a qpu."""
    nodes = [vertex(0, "cluster", 0, "/cluster0")]
    edges = []
    for rank in range(2):
        path, key = f"/cluster0/node{rank}", 10 * (rank + 1)
        node = vertex(key, "node", rank, path, rank=rank)
        node["metadata"]["properties"] = {"big": ""} if rank else {}
        leaves = [vertex(key + 1 + i, "core", i, f"{path}/core{i}", rank=rank) for i in range(2)]
        leaves.append(vertex(key + 3, "memory", 0, f"{path}/memory0", rank=rank, size=4))
        nodes += [node, *leaves]
        edges += [{"source": "0", "target": str(key)}]
        edges += [{"source": str(key), "target": leaf["id"]} for leaf in leaves]
    nodes += [vertex(30, "node", 7, "/cluster0/node7"), vertex(31, "qpu", 0, "/cluster0/node7/qpu0")]
    edges += [{"source": "0", "target": "30"}, {"source": "30", "target": "31"}]
    return {"graph": {"nodes": nodes, "edges": edges}}


@pytest.fixture(params=HERE)
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    made: list[Matcher] = []

    def create() -> Matcher:
        made.append(ENGINES[request.param](_graph(), MatcherOptions("lonode")))
        return made[-1]

    yield create
    for matcher in made:
        matcher.close()


@pytest.fixture
def matcher(make: Make) -> Matcher:
    return make()


@pytest.mark.parametrize("name", ["rv1", "rv1_nosched", "jgf_shorthand", "simple", "rlite", "yaml", ""])
def test_only_jgf_is_a_match_format(name: str) -> None:
    with pytest.raises(InvalidOptions, match="match_format must be 'jgf'"):
        MatcherOptions(match_format=name)


def test_satisfiability_has_no_r(matcher: Matcher) -> None:
    assert matcher.match("satisfiability", slots(1)).R is None


def _timed(resources: Any, start: float, end: float) -> dict[str, Any]:
    execution = {
        "R_lite": [{"rank": "0", "children": {"core": "0"}}],
        "nodelist": ["node0"],
        "starttime": start,
        "expiration": end,
    }
    return {"version": 1, "execution": execution, "scheduling": resources}


def test_r_with_times_is_held_for_that_time(make: Make) -> None:
    original = make().match("allocate", slots(3, duration=100), 1).R
    fresh = make()
    replayed = fresh.update_allocate(4, _timed(original, 0, 100))
    assert original == replayed.R
    assert fresh.info(4).mode == "ALLOCATED"
    assert fresh.match("without_allocating_future", slots(4)).at == 100
    fresh.cancel(4)
    assert fresh.match("allocate", slots(4)).at == 0


def test_bare_jgf_is_held_without_an_end(make: Make) -> None:
    whole = jobspec(
        [{"type": "node", "count": 1, "exclusive": True, "with": [slots(1)["resources"][0]]}], 100
    )
    original = make().match("allocate", whole, 1).R
    assert original is not None
    fresh = make()
    fresh.update_allocate(4, original)
    with pytest.raises(Busy):
        fresh.match("allocate_orelse_reserve", slots(3))


def test_times_in_the_future_are_those_of_r(matcher: Matcher) -> None:
    granted = matcher.match("without_allocating", slots(4)).R
    assert matcher.update_allocate(1, _timed(granted, 50.9, 80)).at == 50
    assert matcher.match("without_allocating_future", slots(4, duration=10)).at == 79


@pytest.mark.parametrize("name", ["ranks_alone", "shorthand", "free_ranks", "other_writer"])
def test_an_r_that_does_not_list_what_it_holds_is_refused(matcher: Matcher, name: str) -> None:
    granted = matcher.match("without_allocating", slots(2)).R
    assert granted is not None
    document: dict[str, Any] = {
        "ranks_alone": {key: _timed(granted, 0, 9)[key] for key in ("version", "execution")},
        "shorthand": granted | {"writer": "fluxion:jgf_shorthand"},
        "free_ranks": granted | {"free_ranks": "0"},
        "other_writer": _timed(granted | {"writer": "sched-simple"}, 0, 9),
    }[name]
    with pytest.raises(InvalidJobspec) as refusal:
        matcher.update_allocate(1, document)
    assert refusal.value.errno == 22
    assert matcher.match("allocate", slots(4), 1).jobid == 1
