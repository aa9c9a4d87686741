"""The queue shows the gangs that wait, in the order in which they are served."""

from __future__ import annotations

from tests.core.values import node
from tests.unit.gangs.conftest import MakeWorld, gang


def test_line_has_the_waiting_gangs_in_their_order(world: MakeWorld) -> None:
    w = world(node("n0", cpu=2000), scheduling=False)
    gang(w, "runs", 2000, gates=())
    w.advance(1)
    gang(w, "older", 2000, gates=())
    gang(w, "higher", 2000, gates=(), priority=5, preempts=False)
    w.advance(1)
    line = w.controller.queue.line()
    assert [(one.position, one.gang.name, one.reason is not None) for one in line] == [
        (1, "higher", True),
        (2, "older", True),
    ]
    assert all(one.reserved_nodes == () and not one.held for one in line)
