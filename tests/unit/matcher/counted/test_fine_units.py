"""Millicores and KiB are matched by counting, exactly, however many there are."""

from __future__ import annotations

import json

import pytest

from fluence_extender.matcher import (
    NO_JOB,
    Busy,
    InvalidJobspec,
    Jgf,
    JobExists,
    Match,
    Matcher,
    MatcherError,
    MatcherOptions,
    MatchOp,
    NothingToAllocate,
    UnknownJob,
    create_matcher,
)
from fluence_extender.matcher.engine import EmbeddedEngine
from tests.unit.matcher.counted.compact_documents import (
    CORES,
    MEMORY,
    QUBITS,
    Document,
    around,
    jobspec,
    two_nodes_and_a_device,
)

GIB = 2**20
ALPHA, BETA, FEZ = "/cluster/alpha", "/cluster/beta", "/cluster/fez"


def matcher(policy: str = "lonode", document: Document | None = None) -> EmbeddedEngine:
    return EmbeddedEngine((document or two_nodes_and_a_device()).graph(), MatcherOptions(policy=policy))


def allocate(engine: Matcher, spec: Jgf, jobid: int | None = None) -> Match:
    return engine.match(MatchOp.ALLOCATE, spec, jobid)


def test_a_document_with_counts_is_matched_by_counting() -> None:
    engine = create_matcher("embedded", json.dumps(two_nodes_and_a_device().graph()))
    assert isinstance(engine, EmbeddedEngine)


@pytest.mark.parametrize(("policy", "first"), [("lonode", ALPHA), ("hinode", BETA), ("first", BETA)])
def test_millicores_and_kib_fill_one_node_before_the_next(policy: str, first: str) -> None:
    match = allocate(matcher(policy), jobspec(20, core=1500, memory=4 * GIB))
    assert match.placement[first] == {"core": 30_000, "memory": 80 * GIB}
    assert len(match.placement) == 2


def test_slots_overflow_to_the_next_node() -> None:
    match = allocate(matcher(), jobspec(30, core=1500, memory=4 * GIB))
    assert match.placement[ALPHA]["core"] == 21 * 1500
    assert match.placement[BETA]["core"] == 9 * 1500


def test_the_last_kib_counts() -> None:
    engine = matcher()
    allocate(engine, jobspec(1, memory=MEMORY - 1))
    assert allocate(engine, jobspec(1, {"ranks": ["0"]}, memory=1)).placement[ALPHA] == {"memory": 1}
    with pytest.raises(Busy):
        allocate(engine, jobspec(1, {"ranks": ["0"]}, memory=1))


def test_the_last_millicore_counts() -> None:
    engine = matcher()
    allocate(engine, jobspec(2, core=CORES))
    with pytest.raises(Busy):
        allocate(engine, jobspec(1, core=1))
    engine.cancel(1)
    assert allocate(engine, jobspec(1, core=CORES)).jobid == 3


def test_r_lists_runs_of_units_and_never_one_twice() -> None:
    engine = matcher()
    for _ in range(3):
        allocate(engine, jobspec(1, core=10_000))
    engine.cancel(2)
    spread = allocate(engine, jobspec(1, core=11_000))
    assert isinstance(spread.R, dict)
    leaves = [entry for entry in spread.R["graph"]["nodes"] if entry["metadata"]["type"] == "core"]
    assert [(leaf["metadata"]["id"], leaf["metadata"]["count"]) for leaf in leaves] == [
        (10_000, 10_000),
        (30_000, 1000),
    ]
    assert leaves[1]["metadata"]["paths"]["containment"] == f"{ALPHA}/core30000"


SMALL = 12


def small(policy: str = "lonode") -> EmbeddedEngine:
    document = Document()
    for name in ("alpha", "beta"):
        document.node(name, core=SMALL, gpu=4)
    document.node("fez", virtual=True, qubit=5)
    return matcher(policy, document)


@pytest.mark.parametrize("policy", ["lonode", "first", "hinodex", "low"])
def test_a_replay_frees_and_holds_as_the_original_did(policy: str) -> None:
    original, fresh = small(policy), small(policy)
    matches = [allocate(original, jobspec(2, core=7, gpu=1)), allocate(original, jobspec(1, qubit=3))]
    for match in matches:
        replayed = fresh.update_allocate(match.jobid, json.dumps(match.R))
        assert replayed.placement == match.placement
        assert replayed.R == match.R
    with pytest.raises(JobExists):
        fresh.update_allocate(1, json.dumps(matches[0].R))
    with pytest.raises(InvalidJobspec):
        fresh.update_allocate(9, json.dumps(matches[0].R))
    fresh.cancel(1)
    fresh.cancel(2)
    assert allocate(fresh, jobspec(2, core=SMALL, gpu=4)).placement.keys() >= {ALPHA, BETA}


def test_a_replay_of_rfc_20_brings_the_times() -> None:
    engine = small()
    match = allocate(engine, jobspec(1, core=1))
    engine.cancel(match.jobid)
    assert match.R is not None
    execution = {"starttime": 10, "expiration": 30}
    later = engine.update_allocate(5, {"version": 1, "execution": execution, "scheduling": match.R})
    assert (later.at, engine.info(5).mode) == (10, "ALLOCATED")
    assert allocate(engine, jobspec(1, duration=5, core=SMALL)).placement[BETA] == {"core": SMALL}


@pytest.mark.parametrize("damage", ["edges", "rank", "beyond", "type", "path"])
def test_a_damaged_r_is_refused_and_nothing_is_held(damage: str) -> None:
    engine = small()
    match = allocate(engine, jobspec(1, core=5))
    engine.cancel(match.jobid)
    assert match.R is not None
    listed = json.loads(json.dumps(match.R))
    leaf = listed["graph"]["nodes"][0]["metadata"]
    if damage == "edges":
        listed["graph"]["edges"] = []
    elif damage == "rank":
        leaf["rank"] = 7
    elif damage == "beyond":
        leaf["count"] = SMALL + 1
    elif damage == "type":
        leaf["type"] = "fpga"
    else:
        leaf["paths"]["containment"] = "/cluster/gamma/core0"
    with pytest.raises(MatcherError):
        engine.update_allocate(4, listed)
    assert allocate(engine, jobspec(2, core=SMALL)).jobid == 2


def test_a_replay_on_a_graph_too_large_to_be_walked_is_refused() -> None:
    engine = matcher()
    match = allocate(engine, jobspec(1, core=1))
    assert match.R is not None
    with pytest.raises(InvalidJobspec, match="one by one"):
        engine.update_allocate(9, match.R)
    engine.cancel(match.jobid)


def test_devices_share_the_job_ids_and_are_compact_too() -> None:
    engine = matcher("first")
    assert allocate(engine, jobspec(1, core=1)).jobid == 1
    device = allocate(engine, jobspec(1, qubit=100))
    assert device.jobid == 2
    assert device.placement == {FEZ: {"qubit": 100}, "/cluster": {}}
    assert isinstance(device.R, dict)
    assert [entry["metadata"].get("count") for entry in device.R["graph"]["nodes"]] == [100, None, None]
    with pytest.raises(Busy):
        allocate(engine, jobspec(1, qubit=QUBITS - 99))
    assert allocate(engine, jobspec(1, core=1)).jobid == 4
    engine.cancel(2)
    assert engine.info(2).mode == "CANCELED"
    with pytest.raises(UnknownJob):
        engine.cancel(2)


def test_one_jobspec_for_both_kinds_says_so() -> None:
    with pytest.raises(InvalidJobspec, match="one jobspec can't ask for both"):
        allocate(matcher(), jobspec(1, core=1, qubit=1))
    bare = around([{"type": "slot", "count": 1, "label": "s", "with": [{"type": "node", "count": 1}]}])
    with pytest.raises(InvalidJobspec, match="physical or a virtual"):
        allocate(matcher(), bare)


def test_a_bare_node_is_whichever_kind_the_constraint_allows() -> None:
    shape = [{"type": "slot", "count": 1, "label": "s", "with": [{"type": "node", "count": 1}]}]
    assert FEZ in allocate(matcher(), around(shape, {"properties": ["virtual=true"]})).placement
    engine = small()
    assert ALPHA in allocate(engine, around(shape, {"properties": ["virtual=false"]})).placement
    assert BETA in allocate(engine, around(shape, {"ranks": ["1"]})).placement


def test_a_reservation_starts_when_the_first_job_ends() -> None:
    engine = small()
    allocate(engine, jobspec(2, duration=50, core=SMALL))
    match = engine.match(MatchOp.ALLOCATE_ORELSE_RESERVE, jobspec(2, duration=10, core=SMALL))
    assert (match.at, match.reserved, engine.info(match.jobid).mode) == (50, True, "RESERVED")
    after = engine.match(MatchOp.WITHOUT_ALLOCATING_FUTURE, jobspec(1, core=1))
    assert (after.at, after.jobid) == (60, NO_JOB)


def test_holds_without_an_end_never_end() -> None:
    engine = small()
    allocate(engine, jobspec(2, core=SMALL))
    with pytest.raises(Busy):
        engine.match(MatchOp.ALLOCATE_ORELSE_RESERVE, jobspec(1, core=1))


def test_an_r_of_shared_vertices_alone_holds_nothing() -> None:
    engine = small()
    match = allocate(engine, jobspec(1, core=1))
    engine.cancel(match.jobid)
    assert match.R is not None
    nodes = [entry for entry in match.R["graph"]["nodes"] if not entry["metadata"].get("exclusive")]
    kept = {entry["id"] for entry in nodes}
    edges = [edge for edge in match.R["graph"]["edges"] if edge["target"] in kept]
    with pytest.raises(NothingToAllocate):
        engine.update_allocate(1, {"graph": {"nodes": nodes, "edges": edges}})
