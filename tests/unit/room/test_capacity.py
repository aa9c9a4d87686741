"""The capacity of nodes as arrays: counting pods one by one equals counting many at once."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from fluence_extender.model.pod import HostPort
from fluence_extender.model.resources import Resources
from fluence_extender.queueing.timeline import slots_by_row
from fluence_extender.room.capacity import CapacityTable, LiveCapacity, NodeCapacity, Use
from fluence_extender.room.holdings import Journal, NodeAccount
from tests.core.values import asks

NODES = tuple(f"n{number}" for number in range(4))
PORT = (HostPort(80),)


def table() -> CapacityTable:
    return CapacityTable.of({name: NodeCapacity(asks(4000, 8, pods=10)) for name in NODES})


def uses(dice: random.Random) -> list[Use]:
    return [
        (
            dice.choice((*NODES, "elsewhere")),
            Resources(
                {"cpu": dice.choice((0, 500, 1000)), "pods": 1, "example.com/fpga": dice.randint(0, 1)}
            ),
            PORT if dice.random() < 0.2 else (),
        )
        for _ in range(dice.randint(1, 12))
    ]


def shown(counted: CapacityTable) -> object:
    return {name: counted.of_node(name) for name in NODES}, counted.ports


@given(st.integers(0, 2**20))
def test_counting_many_pods_at_once_equals_counting_them_one_by_one(seed: int) -> None:
    dice = random.Random(seed)
    taken = uses(dice)
    before = table()
    many, single = before.changed(taken, ()), before
    for use in taken:
        single = single.changed((use,), ())
    assert shown(many) == shown(single)
    assert shown(many.changed((), taken)) == shown(before) == shown(table())


def test_ports_are_counted_as_often_as_they_are_taken() -> None:
    counted, use = table(), ("n1", asks(0, 0), PORT)
    for taken, given_back, left in (
        ((use,), (), PORT),
        ((use,), (), PORT * 2),
        ((), (use,), PORT),
        ((), (use,), ()),
    ):
        counted = counted.changed(taken, given_back)
        assert counted.ports.get(1, ()) == left


def test_copy_is_independent_of_the_original() -> None:
    first = table()
    second = first.copy()
    second.put("n9", NodeCapacity(asks(1)))
    second.free[0] = 0
    assert "n9" not in first.rows
    assert first.of_node("n0")["cpu"] == 4000


def test_revision_grows_only_when_a_capacity_changes() -> None:
    journal = Journal()
    accounts = {name: NodeAccount(name, asks(4000, 8), journal.note) for name in NODES}
    whole = LiveCapacity(accounts, journal, lambda account: NodeCapacity(account.allocatable))
    whole.now()
    before = whole.revision
    accounts["n0"].add("pod", asks(1000), foreign=False)
    assert whole.now().of_node("n0")["cpu"] == 4000
    assert whole.revision == before
    accounts["n0"].resize(asks(8000, 8))
    assert whole.now().of_node("n0")["cpu"] == 8000
    assert whole.revision > before


def test_remembered_rows_of_a_tuple_stay_right_when_nodes_join() -> None:
    there = table()
    assert there.at(NODES).tolist() == [0, 1, 2, 3]
    there.put("m0", NodeCapacity(asks(1)))
    assert there.at(NODES).tolist() == [0, 1, 2, 3]
    assert there.at(("m0", "n0")).tolist() == [4, 0]


def test_resources_that_only_pods_name_do_not_make_the_table_wider() -> None:
    journal = Journal()
    account = NodeAccount("n0", asks(4000, 8), journal.note)
    live = LiveCapacity({"n0": account}, journal, lambda one: NodeCapacity(one.free, (), one.allocatable))
    width = live.now().free.shape[1]
    for number in range(100):
        strange = Resources({"cpu": 10, f"example.com/r{number}": 1})
        account.add(f"u{number}", strange, foreign=True)
        assert not slots_by_row(live.now().row_of(strange).tolist(), live.now().free).any()
        changed = live.now().changed((), [("n0", strange, ())])
        assert not slots_by_row(changed.row_of(strange).tolist(), changed.free).any()
    assert live.now().free.shape[1] == width
    assert live.now().of_node("n0")["cpu"] == 3000


def test_resource_that_is_all_in_use_is_free_in_a_copy_without_its_pods() -> None:
    journal = Journal()
    account = NodeAccount("n0", Resources({"cpu": 8, "example.com/fpga": 2}), journal.note)
    live = LiveCapacity({"n0": account}, journal, lambda one: NodeCapacity(one.free, (), one.allocatable))
    live.now()
    both = Resources({"example.com/fpga": 2})
    account.add("u", both, foreign=False)
    changed = live.now().changed((), [("n0", both, ())])
    assert changed.of_node("n0")["example.com/fpga"] == 2


def test_what_pods_use_beyond_a_node_counts_once_a_node_has_that_resource() -> None:
    journal = Journal()
    accounts = {name: NodeAccount(name, asks(4000, 8), journal.note) for name in NODES}
    live = LiveCapacity(accounts, journal, lambda one: NodeCapacity(one.free, (), one.allocatable))
    accounts["n0"].add("u", Resources({"example.com/fpga": 2}), foreign=True)
    assert "example.com/fpga" not in live.now().of_node("n0")
    accounts["n1"].resize(Resources({**asks(4000, 8), "example.com/fpga": 4}))
    assert [live.now().of_node(name)["example.com/fpga"] for name in NODES] == [-2, 4, 0, 0]
