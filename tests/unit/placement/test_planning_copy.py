"""A planning copy: pods that are removed and restored are counted once, and the ledger doesn't change."""

from __future__ import annotations

import pytest

from fluence_extender.placement.demand import Demand
from fluence_extender.placement.errors import GangRefused
from fluence_extender.placement.plan import Planner
from fluence_extender.placement.planning_copy import PlanningCopy
from fluence_extender.room.ledger import Ledger
from fluence_extender.whatif.snapshot import LedgerCopy, snapshot
from tests.core.values import node, pod
from tests.unit.placement.conftest import MakeBench

QPUS = "resources: [{type: qpu, name: fez, count: 2}]"


def held(copy: PlanningCopy) -> object:
    """Return all that is counted: the capacity, and the units of devices by pod."""
    shares = {uid: sum(one.amount for one in use.assignment.devices) for uid, use in copy.allocations.items()}
    table = copy.free.now()
    return {name: table.of_node(name) for name in table.rows}, shares


@pytest.fixture
def copied(bench: MakeBench) -> tuple[Ledger, PlanningCopy, Planner]:
    """Two nodes of 4 cores; a pod with one of the two devices runs on the first node."""
    planner, ledger, index = bench([node("n0"), node("n1")], QPUS)
    planner.plan([Demand(pod("running", 3000, uid="running", devices={"qpu": 1}))], "running")
    copy = LedgerCopy(snapshot(ledger, index.nodes.values(), ["running"]))
    return ledger, copy, copy.planner


def test_removing_and_restoring_a_pod_leaves_the_copy_as_it_was(
    copied: tuple[Ledger, PlanningCopy, Planner],
) -> None:
    ledger, copy, planner = copied
    before = held(copy)
    use = ledger.use_of("running")
    assert use is not None
    copy.remove(use)
    assert held(copy) != before
    planner.plan(
        [Demand(pod("a", 4000, uid="a", devices={"qpu": 2})), Demand(pod("b", 4000, uid="b"))], "wide"
    )
    copy.undo(["a", "b"])
    copy.restore(use)
    assert held(copy) == before
    with pytest.raises(GangRefused):
        planner.plan([Demand(pod("a", 4000, uid="a", devices={"qpu": 2}))], "wide")


def test_pod_placed_on_the_copy_can_be_removed_and_restored_and_is_counted_once(
    copied: tuple[Ledger, PlanningCopy, Planner],
) -> None:
    _, copy, planner = copied
    planner.plan([Demand(pod("promised", 1000, uid="promised", devices={"qpu": 1}))], "promised")
    before = held(copy)
    use = copy.allocations["promised"]
    copy.remove(use)
    assert "promised" not in copy.allocations
    copy.restore(use)
    assert held(copy) == before


def test_planning_on_a_copy_does_not_change_the_ledger(copied: tuple[Ledger, PlanningCopy, Planner]) -> None:
    ledger, copy, planner = copied
    before = (
        {name: one.free for name, one in ledger.accounts.items()},
        dict(ledger.allocations),
        ledger.version,
    )
    use = ledger.use_of("running")
    assert use is not None
    copy.remove(use)
    planner.plan([Demand(pod("a", 4000, uid="a", devices={"qpu": 2}))], "wide")
    assert (
        {name: one.free for name, one in ledger.accounts.items()},
        dict(ledger.allocations),
        ledger.version,
    ) == before


def test_undo_of_a_pod_that_was_not_placed_on_the_copy_does_nothing(
    copied: tuple[Ledger, PlanningCopy, Planner],
) -> None:
    _, copy, _ = copied
    before = held(copy)
    copy.undo(["running", "nobody"])
    assert held(copy) == before
