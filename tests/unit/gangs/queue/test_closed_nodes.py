"""Reservations close the nodes that they name or select."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fluence_extender.gangs.queue.operators import operator_reservations
from fluence_extender.model.pod import Requirement
from fluence_extender.model.queue import NodeReservation
from tests.core.values import node

NODES = {
    "n0": node("n0", labels={"rack": "7"}),
    "n1": node("n1", labels={"rack": "8"}),
    "n2": node("n2"),
}
ROWS = {"n0": 0, "n1": 1, "n2": 2}
RACK = (Requirement("rack", "In", ("7",)),)
ALL_DAY = NodeReservation("r", 100.0, 50.0, queues=frozenset({"physics"}))


@pytest.mark.parametrize(
    ("one", "rows"),
    [
        (ALL_DAY, [0, 1, 2]),
        (replace(ALL_DAY, names=frozenset({"n1"})), [1]),
        (replace(ALL_DAY, labels=RACK), [0]),
        (replace(ALL_DAY, labels=RACK, names=frozenset({"n2", "gone"})), [0, 2]),
    ],
)
def test_nodes_by_name_and_by_label(one: NodeReservation, rows: list[int]) -> None:
    (found,) = operator_reservations([one], NODES, ROWS)
    assert found.rows.tolist() == rows
    assert (found.name, found.start, found.end, found.queues) == ("r", 100.0, 150.0, frozenset({"physics"}))


def test_one_that_closes_nothing_is_left_out() -> None:
    unread, elsewhere = replace(ALL_DAY, duration=0.0), replace(ALL_DAY, names=frozenset({"gone"}))
    assert operator_reservations([unread, elsewhere], NODES, ROWS) == []


def test_node_that_has_no_row_yet_is_left_out() -> None:
    (found,) = operator_reservations([ALL_DAY], NODES, {"n1": 0})
    assert found.rows.tolist() == [0]
