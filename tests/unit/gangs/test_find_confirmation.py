"""What a search for victims has found is confirmed in pieces, between which the cluster goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from fluence_extender.gangs.preemption.search import Found, Query, Work, confirm, search
from fluence_extender.gangs.preemption.victims import Victim, victims_of
from fluence_extender.model.gang import Convention, GangKey
from fluence_extender.model.names import GROUP_LABEL
from fluence_extender.model.pod import HostPort, Pod
from fluence_extender.placement.eligibility import refusal
from fluence_extender.placement.plan import Demand, Planner
from tests.core.values import asks, node, pod
from tests.core.world import World
from tests.unit.gangs.conftest import MakeWorld, gang

HIGH = GangKey("default", "high", Convention.LABEL)
Disturb = Callable[[World], None]


class Confirming:
    """A confirmation of the victims for a gang of ``pods``, piece by piece."""

    def __init__(self, world: World, pods: Sequence[Pod]) -> None:
        self.world = world
        planner = Planner(world.ledger, world.controller.eligibility)
        demands = [Demand(one) for one in pods]
        self.query = Query(HIGH, demands, (), frozenset(), 10, lambda _: True, None, frozenset())
        looked = search(world.controller.registry, world.ledger, planner, self.query)
        looked.proceed(10**9)
        assert looked.found is not None
        self.before: Found = looked.found
        self._work: Work = confirm(world.controller.registry, world.ledger, planner, self.query, self.before)
        self.found: Found | None = None
        self.over = False

    def pieces(self, count: int) -> None:
        """Go on for so many pieces."""
        for _ in range(count):
            try:
                next(self._work)
            except StopIteration as end:
                self.over, self.found = True, end.value
                return

    def fits(self, found: Found) -> bool:
        """Whether the places have room once the victims have gone, counted pod by pod."""
        ledger, nodes = self.world.ledger, self.world.controller.eligibility.nodes
        left = {name: account.free for name, account in ledger.accounts.items()}
        for uid in (uid for victim in found.victims for uid in victim.uids if uid in ledger.allocations):
            where = ledger.allocations[uid].assignment.node
            left[where] = left[where] + ledger.accounts[where].users[uid]
        there = {one.uid: one.node for one in found.places}
        for demand in self.query.demands:
            name = there[demand.pod.uid]
            if refusal(demand.pod, nodes[name]) is not None or name in ledger.closed(HIGH):
                return False
            left[name] = left[name] - demand.pod.requests
        return all(amount >= 0 for amounts in left.values() for amount in amounts.values())


def cordon(world: World) -> None:
    world.change(world.cluster.nodes()[0], unschedulable=True)


def take_room(world: World) -> None:
    world.foreign("n0", "other", requests=asks(900))


def keep_for_another(world: World) -> None:
    world.ledger.preemptor_holds.hold("another", {"n0"})


def full(world: MakeWorld, nodes: int = 2) -> tuple[World, list[Pod]]:
    """Nodes on each of which a gang of one runs."""
    w = world(*(node(f"n{number}") for number in range(nodes)))
    lows = [gang(w, f"low{number}", 3000)[0] for number in range(nodes)]
    w.advance(3)
    assert all(w.nodes_of(*lows))
    return w, lows


@pytest.mark.parametrize("ports", [(), (HostPort(8080),)])
@pytest.mark.parametrize("disturb", [cordon, take_room, keep_for_another])
def test_what_comes_between_any_two_pieces_is_noticed(
    world: MakeWorld, disturb: Disturb, ports: tuple[HostPort, ...]
) -> None:
    between = 0
    while True:
        w, _ = full(world)
        high = [pod(f"high-{number}", 3500, 1, host_ports=ports) for number in range(2)]
        confirming = Confirming(w, high)
        confirming.pieces(between)
        if confirming.over:
            break
        disturb(w)
        confirming.pieces(1000)
        assert confirming.found is None, f"after {between} pieces"
        between += 1
    assert between > 2


def test_places_move_to_where_there_is_room_again(world: MakeWorld) -> None:
    for between in range(20):
        w, _ = full(world)
        w.cluster.put(node("n9", unschedulable=True))
        w.advance(0.1)
        confirming = Confirming(w, [pod("high-0", 3000), pod("high-1", 3000)])
        confirming.pieces(between)
        if confirming.over:
            break
        w.change(node("n9"), unschedulable=False)
        cordon(w)
        confirming.pieces(1000)
        assert confirming.found is not None
        assert confirming.fits(confirming.found)
        assert {one.node for one in confirming.found.places} == {"n1", "n9"}
        assert [one.gang.name for one in confirming.found.victims] == ["low1"]
    assert between > 2


def test_victim_that_has_ended_by_itself_is_none_any_more_and_the_others_are_found(world: MakeWorld) -> None:
    w, lows = full(world, 3)
    confirming = Confirming(w, [pod(f"high-{number}", 3000) for number in range(3)])
    w.cluster.remove(w.now(lows[0]))
    w.change(lows[2], phase="Succeeded")
    confirming.pieces(1000)
    assert confirming.found is not None
    assert [one.gang.name for one in confirming.found.victims] == ["low1"]
    assert confirming.fits(confirming.found)


def test_victim_that_ends_between_any_two_pieces_does_not_begin_everything_anew(world: MakeWorld) -> None:
    for between in range(20):
        w, lows = full(world)
        confirming = Confirming(w, [pod("high-0", 3000), pod("high-1", 3000)])
        confirming.pieces(between)
        if confirming.over:
            break
        w.cluster.remove(w.now(lows[0]))
        confirming.pieces(1000)
        assert confirming.found is not None, f"after {between} pieces"
        assert confirming.fits(confirming.found)
    assert between > 2


def test_victim_of_which_a_member_has_ended_is_taken_with_those_that_are_left(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    low = gang(w, "low", 3000, 3000)
    w.advance(3)
    confirming = Confirming(w, [pod("high-0", 3000), pod("high-1", 3000)])
    w.change(low[0], phase="Succeeded")
    confirming.pieces(1000)
    assert confirming.found is not None
    (victim,) = confirming.found.victims
    assert victim.uids == {low[1].uid}


def test_victim_whose_room_is_not_needed_for_the_places_is_left_alone(world: MakeWorld) -> None:
    w, lows = full(world, 3)
    confirming = Confirming(w, [pod("high-0", 3000), pod("high-1", 3000)])
    used = {one.node for one in confirming.before.places}
    (spare,) = [one for one in lows if w.now(one).node not in used]
    needless = victims_of(w.gang(spare.labels[GROUP_LABEL]))[0]
    more = Found((*confirming.before.victims, needless), confirming.before.places)
    work = confirm(
        w.controller.registry, w.ledger, Planner(w.ledger, w.controller.eligibility), confirming.query, more
    )
    confirming._work = work
    confirming.pieces(1000)
    assert confirming.found is not None
    assert confirming.found.victims == confirming.before.victims


def test_gang_that_became_as_important_is_no_victim(world: MakeWorld) -> None:
    w, lows = full(world)
    confirming = Confirming(w, [pod("high-0", 3000), pod("high-1", 3000)])
    w.pod("late", labels=lows[0].labels, annotations=lows[0].annotations, priority=10)
    confirming.pieces(1000)
    assert confirming.found is None


def test_gang_that_may_not_be_taken_any_more_is_no_victim(world: MakeWorld) -> None:
    w, _ = full(world)
    confirming = Confirming(w, [pod("high-0", 3000), pod("high-1", 3000)])
    victims: tuple[Victim, ...] = confirming.before.victims
    confirming.query.may_take = lambda one: one.key != victims[0].gang
    confirming.pieces(1000)
    assert confirming.found is None
