"""What is known to lack room has no place, and its reason is the one that a plan gives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.model.resources import Resources
from fluence_extender.placement.demand import Demand
from fluence_extender.placement.eligibility import EligibilityIndex
from fluence_extender.placement.errors import GangRefused
from fluence_extender.placement.lacks import Lack, Lacks
from fluence_extender.room.ledger import Ledger
from tests.core.engine import EMBEDDED, CoreEngine
from tests.core.planning import LedgerPlanner
from tests.core.values import node

NODES = 4
CORES, GIB = 4, 8
amounts = st.builds(
    lambda cores, gib: Resources({"cpu": cores * 500, "memory": gib * 2**29, "pods": 1}),
    st.integers(0, 2 * CORES),
    st.integers(0, 2 * GIB),
)
steps = st.one_of(
    st.tuples(st.just("comes"), st.integers(0, 5), st.integers(0, NODES - 1), amounts),
    st.tuples(st.just("goes"), st.integers(0, 5)),
    st.tuples(st.just("cordoned"), st.integers(0, NODES - 1), st.booleans()),
)
gangs = st.lists(st.tuples(amounts, st.integers(1, 5)), min_size=1, max_size=3)


def lack_of(lacks: Lacks, demands: list[Demand]) -> Lack:
    found = lacks.of(demands)
    assert found is not None
    return found


def refusal_of(planner: LedgerPlanner, ledger: Ledger, demands: list[Demand]) -> Reason | None:
    """Return why a gang has no place, None where it has one, which it doesn't keep."""
    try:
        found = planner.plan(demands, "gang")
    except GangRefused as refused:
        return refused.reason
    version = ledger.version
    planner.release([one.uid for one in found])
    ledger.version = version
    return None


@settings(max_examples=settings().max_examples // 2)
@given(st.sampled_from([EMBEDDED]), gangs, st.lists(steps, min_size=4, max_size=12))
def test_what_lacks_room_is_refused_with_the_same_reason(
    engine: CoreEngine, asked: list[tuple[Resources, int]], history: list[tuple[object, ...]]
) -> None:
    ledger, index = engine.ledger(), EligibilityIndex()
    nodes = [node(f"n{number}", cpu=1000 * CORES, gib=GIB) for number in range(NODES)]
    for one in nodes:
        index.put(one)
    ledger.load(nodes)
    planner, lacks = LedgerPlanner(ledger, index), Lacks(ledger, index)
    waiting = [
        [Demand(Pod("a", f"{at}-{one}", f"{at}-{one}", requests=requests)) for one in range(count)]
        for at, (requests, count) in enumerate(asked)
    ]
    known = [lack_of(lacks, demands) for demands in waiting]
    for step in history:
        match step:
            case "comes", int() as key, int() as at, Resources() as requests:
                ledger.put_foreign(
                    Pod("o", str(key), str(key), scheduler="other", node=f"n{at}", requests=requests)
                )
            case "goes", int() as key:
                ledger.drop_foreign(str(key))
            case "cordoned", int() as at, bool() as cordoned:
                nodes[at] = replace(nodes[at], unschedulable=cordoned)
                index.put(nodes[at])
                ledger.put_node(nodes[at])
        for at, demands in enumerate(waiting):
            reason, planned = lacks.reason(known[at]), refusal_of(planner, ledger, demands)
            if planned is None or planned.code is not ReasonCode.BUSY:
                assert reason is None or planned is not None
                continue
            assert reason in (None, planned)
            if reason is None:
                known[at] = lack_of(lacks, demands)
                assert lacks.reason(known[at]) in (None, planned)


def test_only_nodes_that_have_changed_are_counted_again() -> None:
    ledger, index = EMBEDDED.ledger(), EligibilityIndex()
    nodes = [node(f"n{number}", cpu=4000) for number in range(3)]
    for one in nodes:
        index.put(one)
    ledger.load(nodes)
    lacks = Lacks(ledger, index)
    requests = Resources({"cpu": 3000, "pods": 1})
    lack = lack_of(lacks, [Demand(Pod("a", name, name, requests=requests)) for name in "abcd"])
    first = lacks.reason(lack)
    assert first is not None
    assert first.text == "busy: 3 of 4 fit now, short of cpu"
    half = Resources({"cpu": 2000, "pods": 1})
    ledger.put_foreign(Pod("o", "f", "f", scheduler="other", node="n1", requests=half))
    second = lacks.reason(lack)
    assert second is not None
    assert second.text == "busy: 2 of 4 fit now, short of cpu"
    ledger.drop_foreign("f")
    assert lacks.reason(lack) is first


def test_what_is_kept_for_others_is_no_room() -> None:
    ledger, index = EMBEDDED.ledger(), EligibilityIndex()
    nodes = [node(f"n{number}", cpu=4000) for number in range(3)]
    for one in nodes:
        index.put(one)
    ledger.load(nodes)
    lacks, requests = Lacks(ledger, index), Resources({"cpu": 3000, "pods": 1})
    lack = lack_of(lacks, [Demand(Pod("a", name, name, requests=requests)) for name in "abc"])
    table = ledger.free.now()
    rows = np.array([table.rows["n1"]], dtype=np.intp)
    kept = np.zeros((1, table.free.shape[1]), dtype=np.int64)
    kept[0, table.column("cpu")] = 1000
    assert lacks.has_room_beside(lack, rows, kept)
    kept[0, table.column("cpu")] = 1001
    assert not lacks.has_room_beside(lack, rows, kept)
