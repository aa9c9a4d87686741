"""Gangs that were created in the same second are served in the order of their creation, whatever their names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fluence_extender.gangs.membership.gang import first_seen
from fluence_extender.model.names import FIRST_SEEN_ANNOTATION
from fluence_extender.model.pod import Pod
from tests.core.values import asks, node, pod
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


def test_order_within_a_second_survives_a_restart_though_pods_were_written_since(world: MakeWorld) -> None:
    w, members = queued(world)
    for name in ("zeta", "mid"):
        now = w.cluster.pod(members[name])
        w.change(members[name], annotations={**now.annotations, "example.com/by": "another"})
    w.restart()
    assert started(w, members) == list(NAMES)


def test_gang_that_was_released_keeps_its_turn_through_a_restart(world: MakeWorld) -> None:
    """The write that released it made its resourceVersion larger than that of a gang of the same second.

    kube-scheduler clears the nomination when it can't reach us.
    """
    w = world(node("n0", cpu=4000))
    w.scheduler.refusing["n0"] = 10_000
    (released,) = gang(w, "zeta", 4000, created=SECOND)
    (rival,) = gang(w, "alpha", 4000, created=SECOND)
    w.advance(0.5)
    assert (bool(w.now(released).gates), bool(w.now(rival).gates)) == (False, True)
    w.kill()
    w.change(released, nominated="")
    w.scheduler.refusing.clear()
    w.start()
    w.advance(20)
    assert w.nodes_of(released, rival) == ["n0", ""]


def test_older_gangs_are_served_first_whatever_was_written_since(world: MakeWorld) -> None:
    w = world(node("n0", cpu=4000))
    w.foreign("n0", "filler", requests=asks(4000))
    members = {
        name: gang(w, name, 4000, created=SECOND + number)[0] for number, name in enumerate(reversed(NAMES))
    }
    w.advance(5)
    assert started(w, members) == list(reversed(NAMES))


@pytest.mark.parametrize(
    ("noted", "believed"),
    [("7", 7), ("12", 12), ("13", 12), ("-1", 12), ("", 12), ("soon", 12), ("9" * 5000, 12), ("٣", 12)],
)
def test_noted_resource_version_is_believed_if_it_is_not_larger_than_the_pods(
    noted: str, believed: int
) -> None:
    one = replace(pod(annotations={FIRST_SEEN_ANNOTATION: noted}), resource_version="12")
    assert first_seen(one) == believed
