"""Gangs of the same second are served in the order of their creation, and after a restart in that of their names."""

from __future__ import annotations

from fluence_extender.model.pod import Pod
from tests.core.values import asks, node
from tests.core.world import World
from tests.unit.gangs.conftest import MakeWorld, gang

NAMES = ("zeta", "mid", "alpha")
SECOND = 1000.0


def queued(world: MakeWorld) -> tuple[World, dict[str, Pod]]:
    """A full node, and three gangs of one second that need all of it; each has been told why it waits."""
    w = world(node("n0", cpu=4000))
    w.foreign("n0", "filler", requests=asks(4000))
    members = {name: gang(w, name, 4000, created=SECOND)[0] for name in NAMES}
    w.advance(5)
    assert set(w.cluster.waiting) == {one.uid for one in members.values()}
    return w, members


def started(w: World, members: dict[str, Pod]) -> list[str]:
    """The gangs in the order in which they get the node, each of which ends the one before it."""
    w.cluster.remove(next(one for one in w.cluster.pods() if one.name == "filler"))
    order: list[str] = []
    for _ in NAMES:
        w.advance(10)
        (bound,) = (name for name, one in members.items() if w.cluster.pod(one).node and name not in order)
        order.append(bound)
        w.change(members[bound], phase="Succeeded")
    return order


def test_gangs_of_one_second_start_in_the_order_of_their_creation(world: MakeWorld) -> None:
    assert started(*queued(world)) == list(NAMES)


def test_after_a_restart_gangs_of_one_second_start_in_the_order_of_their_names(world: MakeWorld) -> None:
    w, members = queued(world)
    for name in ("alpha", "mid"):
        now = w.cluster.pod(members[name])
        w.change(members[name], annotations={**now.annotations, "example.com/by": "another"})
    w.restart()
    assert started(w, members) == sorted(NAMES)


def test_older_gangs_are_served_first_whatever_was_written_since(world: MakeWorld) -> None:
    w = world(node("n0", cpu=4000))
    w.foreign("n0", "filler", requests=asks(4000))
    members = {
        name: gang(w, name, 4000, created=SECOND + number)[0] for number, name in enumerate(reversed(NAMES))
    }
    w.advance(5)
    assert started(w, members) == list(reversed(NAMES))
