"""The matcher port, on each engine that is found here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fluence_extender.matcher import (
    Busy,
    InvalidJobspec,
    InvalidOptions,
    Matcher,
    MatcherError,
    MatcherOptions,
    NotExpressible,
    OnlyRootFound,
    UnknownJob,
    create_matcher,
)
from fluence_extender.matcher.embedded import EmbeddedMatcher
from fluence_extender.matcher.engine import EmbeddedEngine
from fluence_extender.matcher.fluxion import create_fluxion_matcher
from fluence_extender.matcher.formats import FORMATS
from fluence_extender.matcher.formatted import FormattedMatcher
from tests.engines import FLUXION
from tests.unit.matcher.embedded_graphs import jobspec, slots, vertex

Make = Callable[..., Matcher]


def _counted(graph: Any, options: MatcherOptions) -> Matcher:
    return EmbeddedEngine(graph, options, fewest_counted=0)


ENGINES: dict[str, Callable[[Any, MatcherOptions], Matcher]] = {
    "walker": EmbeddedMatcher,
    "counted": _counted,
}
if FLUXION.library is not None:
    ENGINES["fluxion"] = create_fluxion_matcher


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


QPU = jobspec([{"type": "slot", "count": 1, "label": "task", "with": [{"type": "qpu", "count": 1}]}])


@pytest.fixture(params=ENGINES.values(), ids=list(ENGINES))
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    made: list[Matcher] = []

    def create(match_format: str = "jgf", policy: str = "lonode") -> Matcher:
        engine = request.param(_graph(), MatcherOptions(policy))
        made.append(engine)
        return engine if match_format == "jgf" else FormattedMatcher(engine, match_format)

    yield create
    for matcher in made:
        matcher.close()


@pytest.fixture
def matcher(make: Make) -> Matcher:
    return make()


def _by_ranks(ranks: str) -> dict[str, Any]:
    return {"version": 1, "execution": {"R_lite": [{"rank": ranks, "children": {}}]}}


def _by_vertices(match: Any, *names: str, **scheduling: Any) -> dict[str, Any]:
    entries = [e for e in match.R["graph"]["nodes"] if e["metadata"]["paths"]["containment"].endswith(names)]
    graph = {"nodes": entries, "edges": []}
    return {"version": 1, "execution": {"R_lite": []}, "scheduling": {"graph": graph, **scheduling}}


def _paths(found: Any) -> list[str]:
    assert found is not None
    return [entry["metadata"]["paths"]["containment"] for entry in found["graph"]["nodes"]]


# --- partial cancel --------------------------------------------------------------------------------------------------


def test_partial_cancel_by_rank_frees_all_that_the_job_holds_there(matcher: Matcher) -> None:
    matcher.match("allocate", slots(4), 1)
    assert matcher.partial_cancel(1, _by_ranks("1")) is False
    assert matcher.info(1).mode == "ALLOCATED"
    assert matcher.match("allocate", slots(2), 2).placement["/cluster0/node1"] == {"core": 2}
    with pytest.raises(Busy):
        matcher.match("allocate", slots(1), 3)


def test_partial_cancel_of_the_last_part_ends_the_job(matcher: Matcher) -> None:
    matcher.match("allocate", slots(4), 1)
    assert matcher.partial_cancel(1, _by_ranks("0")) is False
    assert matcher.partial_cancel(1, _by_ranks("1")) is True
    assert matcher.info(1).mode == "CANCELED"
    assert matcher.match("allocate", slots(4), 1).jobid == 1
    with pytest.raises(UnknownJob):
        matcher.partial_cancel(7, _by_ranks("0"))


def test_what_a_partial_cancel_leaves_is_freed_by_cancel(matcher: Matcher) -> None:
    matcher.match("allocate", slots(4), 1)
    matcher.partial_cancel(1, _by_ranks("0"))
    matcher.cancel(1)
    assert matcher.find("sched-now=allocated") is None


@pytest.mark.parametrize("writer", [None, "fluxion", "fluxion:jgf", "fluxion:jgf_shorthand"])
def test_partial_cancel_by_vertices_frees_those(matcher: Matcher, writer: str | None) -> None:
    match = matcher.match("allocate", slots(3), 1)
    release = _by_vertices(match, "node0/core1", **({"writer": writer} if writer else {}))
    assert matcher.partial_cancel(1, release) is False
    assert "/cluster0/node0/core1" not in _paths(matcher.find("jobid-alloc=1"))


def test_shorthand_frees_what_the_job_holds_below(matcher: Matcher) -> None:
    whole = jobspec([{"type": "node", "count": 1, "exclusive": True}])
    match = matcher.match("allocate", whole, 1)
    assert matcher.partial_cancel(1, _by_vertices(match, "/node0", writer="fluxion:jgf_shorthand")) is True
    assert matcher.find("sched-now=allocated") is None


@pytest.mark.parametrize(
    "release",
    [
        {"graph": {"nodes": [], "edges": []}},
        {"version": 1, "execution": {}},
        {"version": 2, "execution": {"R_lite": [{"rank": "0", "children": {}}]}},
        {"version": 1, "execution": {"R_lite": [{"rank": "0-", "children": {}}]}},
        {"version": 1, "execution": {"R_lite": [{"rank": "0"}, {"rank": "0"}]}},
        _by_ranks("5"),
        _by_ranks("0,1"),
        "{",
    ],
)
def test_a_release_of_what_the_job_does_not_hold_changes_nothing(matcher: Matcher, release: Any) -> None:
    matcher.match("allocate", slots(2), 1)
    before = matcher.find("jobid-tag=1")
    with pytest.raises(InvalidJobspec):
        matcher.partial_cancel(1, release)
    assert matcher.find("jobid-tag=1") == before


def test_a_shared_vertex_in_a_release_is_refused_before_anything_is_freed(matcher: Matcher) -> None:
    match = matcher.match("allocate", slots(2), 1)
    with pytest.raises(InvalidJobspec, match="node0"):
        matcher.partial_cancel(1, _by_vertices(match, "core0", "core1", "node0"))
    assert len(_paths(matcher.find("jobid-alloc=1"))) == 4


def test_a_node_whose_children_stay_is_not_released(matcher: Matcher) -> None:
    match = matcher.match("allocate", jobspec([{"type": "node", "count": 1, "exclusive": True}]), 1)
    with pytest.raises(InvalidJobspec, match="keeps"):
        matcher.partial_cancel(1, _by_vertices(match, "/node0"))


def test_vertices_under_two_parents_of_one_rank_are_not_released_together(make: Make) -> None:
    matcher = make()
    both = jobspec([{"type": "slot", "count": 1, "label": "task", "with": [{"type": "qpu", "count": 2}]}])
    gateway = {
        "nodes": [vertex(0, "cluster", 0, "/cluster0"), vertex(40, "node", 8, "/cluster0/node8")],
        "edges": [],
    }
    gateway["nodes"].append(vertex(41, "qpu", 0, "/cluster0/node8/qpu0"))
    gateway["edges"] = [{"source": "0", "target": "40"}, {"source": "40", "target": "41"}]
    matcher.add_subgraph({"graph": gateway})
    with pytest.raises(Busy):
        matcher.match("allocate", both, 1)
    both["resources"][0]["count"] = 2
    both["resources"][0]["with"][0]["count"] = 1
    match = matcher.match("allocate", both, 1)
    with pytest.raises(InvalidJobspec, match="different vertices"):
        matcher.partial_cancel(1, _by_vertices(match, "qpu0"))
    assert matcher.find("jobid-alloc=1") is not None
    assert matcher.partial_cancel(1, _by_vertices(match, "node8/qpu0")) is False


def test_a_reservation_has_nothing_to_free_yet(matcher: Matcher) -> None:
    matcher.match("allocate", slots(4, duration=10), 1)
    assert matcher.match("allocate_orelse_reserve", slots(1), 2).reserved
    with pytest.raises(UnknownJob):
        matcher.partial_cancel(2, _by_ranks("0"))


# --- find ------------------------------------------------------------------------------------------------------------


def test_find_tells_what_is_found_with_all_above(matcher: Matcher) -> None:
    matcher.match("allocate", slots(1, 1, 4), 5)
    assert _paths(matcher.find("jobid-alloc=5")) == [
        "/cluster0/node0/core0",
        "/cluster0/node0/memory0",
        "/cluster0/node0",
        "/cluster0",
    ]
    found = matcher.find("names=memory0 and jobid-alloc=0x5")
    assert found is not None
    metadata = found["graph"]["nodes"][0]["metadata"]
    assert (metadata["exclusive"], metadata["size"]) == (True, 4)
    assert matcher.find("jobid-alloc=6") is None


def test_and_and_or_bind_alike_from_the_left(matcher: Matcher) -> None:
    both = matcher.find("names=node0 or names=node1 and property=big")
    assert _paths(both) == ["/cluster0/node1", "/cluster0"]
    grouped = matcher.find("names=node0 or ( names=node1 and property=big )")
    assert _paths(grouped) == ["/cluster0/node0", "/cluster0/node1", "/cluster0"]
    assert matcher.find("names=node1 property=BIG") == both


def test_what_is_below_something_down_is_down(matcher: Matcher) -> None:
    matcher.set_status("/cluster0/node1", False)
    assert "/cluster0/node1/core0" in _paths(matcher.find("status=down"))
    assert "/cluster0/node1" not in _paths(matcher.find("status=up"))


def test_reservations_are_found_by_their_own_keys(matcher: Matcher) -> None:
    matcher.match("allocate", slots(4, duration=10), 1)
    matcher.match("allocate_orelse_reserve", slots(4), 2)
    assert matcher.find("sched-future=reserved") == matcher.find("jobid-reserved=2")
    assert matcher.find("jobid-alloc=2") is None


def test_agfilter_tells_what_is_used_below(matcher: Matcher) -> None:
    matcher.match("allocate", slots(3), 1)
    found = matcher.find("status=up and agfilter=true")
    assert found is not None
    used = {e["metadata"]["paths"]["containment"]: e["metadata"]["agfilter"] for e in found["graph"]["nodes"]}
    assert used["/cluster0/node0"]["core"] == "used:2, total:2"
    assert used["/cluster0"]["core"] == "used:3, total:4"
    assert "/cluster0/node0/core0" not in used


NO_CRITERIA = """
status
status=sideways
names=a[
jobid-alloc=
(status=up
status=up)
(status=up)x=y
a=b
not status=up
status=up and
property=
jobid-tag=99999999999999999999
"""


@pytest.mark.parametrize("criteria", [*NO_CRITERIA.split("\n"), "(" * 5000, "status=up\0"])
def test_what_is_no_criterion_is_refused(matcher: Matcher, criteria: str) -> None:
    with pytest.raises(InvalidJobspec) as refusal:
        matcher.find(criteria)
    assert refusal.value.errno == 22


def test_the_root_alone_is_not_told(matcher: Matcher) -> None:
    with pytest.raises(OnlyRootFound) as refusal:
        matcher.find("names=cluster0")
    assert refusal.value.errno == 2


def test_find_answers_in_the_formats_that_are_json(matcher: Matcher) -> None:
    found = matcher.find("names=core0 and status=up", "rv1_nosched")
    assert found is not None
    assert found["execution"]["R_lite"] == [{"rank": "0-1", "children": {"core": "0"}}]
    assert found["execution"]["nodelist"] == ["node[0-1]"]
    assert matcher.find("names=qpu0", "rv1_nosched") is None
    for name in ("simple", "rlite", "yaml"):
        with pytest.raises(NotExpressible):
            matcher.find("status=up", name)


# --- status ----------------------------------------------------------------------------------------------------------


def test_a_vertex_has_a_status_of_its_own(matcher: Matcher) -> None:
    matcher.set_status("/cluster0/node0", False)
    assert matcher.get_status("/cluster0/node0") is False
    assert matcher.get_status("/cluster0/node0/core0") is True
    with pytest.raises(MatcherError):
        matcher.get_status("/cluster0/node9")


def test_a_rank_is_marked_at_its_topmost_vertex(matcher: Matcher) -> None:
    matcher.set_rank_status([1], False)
    assert matcher.get_rank_status(1) is False
    assert matcher.get_status("/cluster0/node1") is False
    assert matcher.get_rank_status(0) is True
    with pytest.raises(Busy):
        matcher.match("allocate", slots(3))
    matcher.set_rank_status([0, 1], True)
    assert matcher.match("allocate", slots(3)).at == 0


def test_a_rank_that_nobody_has_is_refused(matcher: Matcher) -> None:
    for ranks in ([], [9], [0, 9], [-1]):
        with pytest.raises(MatcherError) as refusal:
            matcher.set_rank_status(ranks, False)
        assert refusal.value.errno == 22
    assert matcher.get_rank_status(0) is True
    for rank in (9, -1):
        with pytest.raises(MatcherError):
            matcher.get_rank_status(rank)


# --- formats ---------------------------------------------------------------------------------------------------------


def test_each_format_writes_r_in_its_way(make: Make) -> None:
    wanted = slots(3, duration=60)
    wanted["attributes"]["system"]["queue"] = "batch"
    written = {name: make(name).match("allocate", wanted, 1).R for name in FORMATS}
    execution = {
        "R_lite": [{"rank": "1", "children": {"core": "0"}}, {"rank": "0", "children": {"core": "0-1"}}],
        "nodelist": ["node[0-1]"],
        "properties": {"big": "1"},
        "starttime": 0,
        "expiration": 60,
    }
    assert written["rv1_nosched"] == {"version": 1, "execution": execution}
    attributes = {"system": {"scheduler": {"queue": "batch"}}}
    assert written["rv1"] == {
        "version": 1,
        "execution": execution,
        "scheduling": written["jgf"],
        "attributes": attributes,
    }
    assert written["rv1_shorthand"] == written["rv1"]
    assert written["jgf_shorthand"] == written["jgf"]
    lines = ["---------core0[1:x]", "---------core1[1:x]", "------node0[1:s]"]
    lines += ["---------core0[1:x]", "------node1[1:s]", "---cluster0[1:s]"]
    assert written["simple"] == "".join(f"      {line}\n" for line in lines)
    pretty = [line.replace(":x", ":exclusive").replace(":s", ":shared") for line in reversed(lines)]
    assert written["pretty_simple"] == "".join(f"      {line}\n" for line in pretty)


def test_shorthand_leaves_out_what_is_below_something_exclusive(make: Make) -> None:
    whole = jobspec([{"type": "node", "count": 1, "exclusive": True, "with": [slots(1)["resources"][0]]}])
    short = make("jgf_shorthand").match("allocate", whole).R
    assert isinstance(short, dict)
    assert short["writer"] == "fluxion:jgf_shorthand"
    assert _paths(short) == ["/cluster0/node0", "/cluster0"]
    assert short["graph"]["edges"] == [{"source": "0", "target": "10"}]


def test_a_queue_is_told_for_its_own_job_only(make: Make) -> None:
    matcher = make("rv1")
    queued = slots(1)
    queued["attributes"]["system"]["queue"] = "batch"
    matcher.match("allocate", queued, 1)
    plain = matcher.match("allocate", slots(1), 2).R
    assert isinstance(plain, dict)
    assert "attributes" not in plain


@pytest.mark.parametrize("name", ["rv1", "rv1_nosched", "rv1_shorthand"])
def test_what_a_format_cannot_say_is_not_held(make: Make, name: str) -> None:
    matcher = make(name)
    with pytest.raises(NotExpressible, match="use jgf") as refusal:
        matcher.match("allocate", QPU, 1)
    assert refusal.value.errno == 22
    assert matcher.find("sched-now=allocated", "jgf") is None
    written = matcher.match("allocate", slots(1), 1).R
    assert isinstance(written, dict)
    assert written["execution"]["nodelist"] == ["node0"]


def test_satisfiability_has_no_r_in_any_format(make: Make) -> None:
    for name in FORMATS:
        assert make(name).match("satisfiability", slots(1)).R is None


def test_an_unknown_format_is_refused() -> None:
    for name in ("rlite", "yaml", ""):
        with pytest.raises(InvalidOptions):
            create_matcher("embedded", _graph(), MatcherOptions(match_format=name))


# --- replay ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rv1", "rv1_shorthand", "rv1_nosched"])
def test_r_with_times_replays_with_them(make: Make, name: str) -> None:
    whole = jobspec([{"type": "node", "count": 2, "exclusive": True}], 100)
    whole["resources"][0]["with"] = [slots(1)["resources"][0]]
    wanted = whole if name == "rv1_shorthand" else slots(3, duration=100)
    original = make(name).match("allocate", wanted, 1).R
    fresh = make(name)
    assert original is not None
    replayed = fresh.update_allocate(4, original)
    assert original == replayed.R
    assert fresh.info(4).mode == "ALLOCATED"
    assert fresh.match("without_allocating_future", slots(4)).at == 100
    fresh.cancel(4)
    assert fresh.match("allocate", slots(4)).at == 0


@pytest.mark.parametrize("name", ["jgf", "jgf_shorthand"])
def test_bare_jgf_replays_for_as_long_as_there_is(make: Make, name: str) -> None:
    whole = jobspec(
        [{"type": "node", "count": 1, "exclusive": True, "with": [slots(1)["resources"][0]]}], 100
    )
    original = make(name).match("allocate", whole, 1).R
    fresh = make(name)
    assert original is not None
    fresh.update_allocate(4, original)
    with pytest.raises(Busy):
        fresh.match("allocate_orelse_reserve", slots(3))


def test_times_are_moved_with_r(matcher: Matcher) -> None:
    granted = matcher.match("without_allocating", slots(4)).R
    assert isinstance(granted, dict)
    later = {"version": 1, "execution": {"starttime": 50.9, "expiration": 80}, "scheduling": granted}
    assert matcher.update_allocate(1, later).at == 50
    assert matcher.match("without_allocating_future", slots(4, duration=10)).at == 79


def _nosched(**execution: Any) -> dict[str, Any]:
    whole = {"R_lite": [{"rank": "0", "children": {"core": "0-1"}}], "nodelist": ["node0"], **execution}
    return {"version": 1, "execution": whole}


@pytest.mark.parametrize(
    "document",
    [
        _nosched(nodelist=["node1"]),
        _nosched(nodelist=[]),
        _nosched(nodelist=["node["]),
        _nosched(nodelist="node0"),
        _nosched(R_lite=[]),
        _nosched(R_lite=[{"rank": "0", "children": {}}]),
        _nosched(R_lite=[{"rank": "0", "children": {"core": "0-7"}}]),
        _nosched(R_lite=[{"rank": "0", "children": {"memory": "0"}}]),
        _nosched(R_lite=[{"rank": "0", "children": {"core": "0"}}, {"rank": "0", "children": {"core": "1"}}]),
        _nosched(R_lite=[{"rank": "1", "children": {"core": "0"}}]),
        _nosched(properties=[]),
        _nosched(starttime=-1),
        _nosched() | {"scheduling": {"writer": "sched-simple", "graph": {"nodes": [], "edges": []}}},
    ],
)
def test_ranks_and_ids_that_the_graph_does_not_have_are_refused(matcher: Matcher, document: Any) -> None:
    with pytest.raises(InvalidJobspec) as refusal:
        matcher.update_allocate(1, document)
    assert refusal.value.errno == 22
    assert matcher.find("sched-now=allocated") is None
    assert matcher.match("allocate", slots(4), 1).jobid == 1


def test_a_node_is_shared_by_those_who_name_a_part_of_its_rank(matcher: Matcher) -> None:
    for jobid, core in ((1, "0"), (2, "1")):
        matcher.update_allocate(jobid, _nosched(R_lite=[{"rank": "0", "children": {"core": core}}]))
    assert "/cluster0/node0/core1" in _paths(matcher.find("jobid-alloc=2"))
    with pytest.raises(InvalidJobspec):
        matcher.update_allocate(3, _nosched())
