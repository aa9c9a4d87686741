"""Reservations close the nodes that they name or select."""

from __future__ import annotations

import pytest
from msgspec import structs

from fluence_extender.gangs.queue.settings import ClosedNodes, Queues
from fluence_extender.model.pod import Requirement
from fluence_extender.objects.queues import NodeReservation
from fluence_extender.placement.eligibility import EligibilityIndex
from fluence_extender.queueing.entry import OperatorReservation
from tests.core.values import node

NODES = {
    "n0": node("n0", labels={"rack": "7"}),
    "n1": node("n1", labels={"rack": "8"}),
    "n2": node("n2"),
}
ROWS = {"n0": 0, "n1": 1, "n2": 2}
RACK = (Requirement("rack", "In", ("7",)),)
ALL_DAY = NodeReservation("r", 100.0, 50.0, queues=frozenset({"physics"}))


def on_rows(rows: dict[str, int], *reservations: NodeReservation) -> list[OperatorReservation]:
    """Return the reservations on these rows."""
    settings, eligibility = Queues(), EligibilityIndex()
    for one in reservations:
        settings.put(one)
    for machine in NODES.values():
        eligibility.put(machine)
    return list(ClosedNodes(settings, eligibility, lambda: 0.0).on_rows(rows))


@pytest.mark.parametrize(
    ("one", "rows"),
    [
        (ALL_DAY, [0, 1, 2]),
        (structs.replace(ALL_DAY, names=frozenset({"n1"})), [1]),
        (structs.replace(ALL_DAY, labels=RACK), [0]),
        (structs.replace(ALL_DAY, labels=RACK, names=frozenset({"n2", "gone"})), [0, 2]),
    ],
)
def test_nodes_by_name_and_by_label(one: NodeReservation, rows: list[int]) -> None:
    (found,) = on_rows(ROWS, one)
    assert found.rows.tolist() == rows
    assert (found.name, found.start, found.end, found.queues) == ("r", 100.0, 150.0, frozenset({"physics"}))


def test_one_that_closes_nothing_is_left_out() -> None:
    unread = structs.replace(ALL_DAY, duration=0.0)
    elsewhere = structs.replace(ALL_DAY, name="elsewhere", names=frozenset({"gone"}))
    assert on_rows(ROWS, unread, elsewhere) == []


def test_node_that_has_no_row_yet_is_left_out() -> None:
    (found,) = on_rows({"n1": 0}, ALL_DAY)
    assert found.rows.tolist() == [0]
