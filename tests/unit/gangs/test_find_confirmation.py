"""A find of the victim search is confirmed in pieces, between which the cluster changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from fluence_extender.gangs.preemption.search import Found, VictimQuery, Work, confirm, search
from fluence_extender.gangs.preemption.victims import Victim, victims_of
from fluence_extender.model.gang import Convention, GangKey
from fluence_extender.model.names import GROUP_LABEL
from fluence_extender.model.pod import HostPort, Pod
from fluence_extender.placement.demand import Demand
from fluence_extender.placement.eligibility import refusal
from fluence_extender.room.holds import HoldKind
from tests.core.planning import planner_for
from tests.core.values import asks, node, pod
from tests.core.world import World
from tests.unit.gangs.conftest import MakeWorld, gang

HIGH = GangKey("default", "high", Convention.LABEL)
Disturb = Callable[[World], None]


class Confirmation:
    """Confirms the victims for a gang of ``pods``, piece by piece."""

    def __init__(self, world: World, pods: Sequence[Pod]) -> None:
        self.world = world
        planner = planner_for(world.ledger, world.controller.eligibility)
        demands = [Demand(one) for one in pods]
        self.query = VictimQuery(HIGH, demands, (), frozenset(), 10, lambda _: True, None, frozenset())
        looked = search(world.controller.registry, world.ledger.room(), planner, self.query)
        looked.proceed(10**9)
        assert looked.found is not None
        self.before: Found = looked.found
        self._work: Work = confirm(world.controller.registry, world.ledger, planner, self.query, self.before)
        self.found: Found | None = None
        self.over = False

    def pieces(self, count: int) -> None:
        """Do that many pieces of work."""
        for _ in range(count):
            try:
                next(self._work)
            except StopIteration as end:
                self.over, self.found = True, end.value
                return

    def fits(self, found: Found) -> bool:
        """Return whether the places have enough capacity once the victims are gone, counted pod by pod."""
        ledger, nodes = self.world.ledger, self.world.controller.eligibility.nodes
        left = {name: account.free for name, account in ledger.accounts.items()}
        for uid in (uid for victim in found.victims for uid in victim.uids if uid in ledger.holdings):
            where = ledger.holdings[uid].assignment.node
            left[where] = left[where] + ledger.accounts[where].users[uid]
        there = {one.uid: one.node for one in found.places}
        for demand in self.query.demands:
            name = there[demand.pod.uid]
            if refusal(demand.pod, nodes[name]) is not None or name in ledger.room().open_to(HIGH).closed:
                return False
            left[name] = left[name] - demand.pod.requests
        return all(amount >= 0 for amounts in left.values() for amount in amounts.values())


def cordon(world: World) -> None:
    world.change(world.cluster.nodes()[0], unschedulable=True)


def take_capacity(world: World) -> None:
    world.foreign("n0", "other", requests=asks(900))


def hold_for_another(world: World) -> None:
    world.ledger.held_nodes.hold(HoldKind.PREEMPTION, "another", {"n0"})


def full(world: MakeWorld, nodes: int = 2) -> tuple[World, list[Pod]]:
    """Return nodes on each of which a gang of one pod runs."""
    w = world(*(node(f"n{number}") for number in range(nodes)))
    lows = [gang(w, f"low{number}", 3000)[0] for number in range(nodes)]
    w.advance(3)
    assert all(w.nodes_of(*lows))
    return w, lows


@pytest.mark.parametrize("ports", [(), (HostPort(8080),)])
@pytest.mark.parametrize("disturb", [cordon, take_capacity, hold_for_another])
def test_change_between_any_two_pieces_is_noticed(
    world: MakeWorld, disturb: Disturb, ports: tuple[HostPort, ...]
) -> None:
    between = 0
    while True:
        w, _ = full(world)
        high = [pod(f"high-{number}", 3500, 1, host_ports=ports) for number in range(2)]
        confirmation = Confirmation(w, high)
        confirmation.pieces(between)
        if confirmation.over:
            break
        disturb(w)
        confirmation.pieces(1000)
        assert confirmation.found is None, f"after {between} pieces"
        between += 1
    assert between > 2


def test_places_move_to_nodes_with_new_capacity(world: MakeWorld) -> None:
    for between in range(20):
        w, _ = full(world)
        w.cluster.put(node("n9", unschedulable=True))
        w.advance(0.1)
        confirmation = Confirmation(w, [pod("high-0", 3000), pod("high-1", 3000)])
        confirmation.pieces(between)
        if confirmation.over:
            break
        w.change(node("n9"), unschedulable=False)
        cordon(w)
        confirmation.pieces(1000)
        assert confirmation.found is not None
        assert confirmation.fits(confirmation.found)
        assert {one.node for one in confirmation.found.places} == {"n1", "n9"}
        assert [one.gang.name for one in confirmation.found.victims] == ["low1"]
    assert between > 2


def test_victim_that_ended_by_itself_is_dropped(world: MakeWorld) -> None:
    w, lows = full(world, 3)
    confirmation = Confirmation(w, [pod(f"high-{number}", 3000) for number in range(3)])
    w.cluster.remove(w.now(lows[0]))
    w.change(lows[2], phase="Succeeded")
    confirmation.pieces(1000)
    assert confirmation.found is not None
    assert [one.gang.name for one in confirmation.found.victims] == ["low1"]
    assert confirmation.fits(confirmation.found)


def test_victim_that_ends_between_any_two_pieces_does_not_spoil_the_find(world: MakeWorld) -> None:
    for between in range(20):
        w, lows = full(world)
        confirmation = Confirmation(w, [pod("high-0", 3000), pod("high-1", 3000)])
        confirmation.pieces(between)
        if confirmation.over:
            break
        w.cluster.remove(w.now(lows[0]))
        confirmation.pieces(1000)
        assert confirmation.found is not None, f"after {between} pieces"
        assert confirmation.fits(confirmation.found)
    assert between > 2


def test_victim_with_an_ended_member_is_taken_with_the_remaining_ones(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    low = gang(w, "low", 3000, 3000)
    w.advance(3)
    confirmation = Confirmation(w, [pod("high-0", 3000), pod("high-1", 3000)])
    w.change(low[0], phase="Succeeded")
    confirmation.pieces(1000)
    assert confirmation.found is not None
    (victim,) = confirmation.found.victims
    assert victim.uids == {low[1].uid}


def test_victim_that_holds_nothing_on_the_places_is_dropped(world: MakeWorld) -> None:
    w, lows = full(world, 3)
    confirmation = Confirmation(w, [pod("high-0", 3000), pod("high-1", 3000)])
    used = {one.node for one in confirmation.before.places}
    (spare,) = [one for one in lows if w.now(one).node not in used]
    needless = victims_of(w.gang(spare.labels[GROUP_LABEL]))[0]
    more = Found((*confirmation.before.victims, needless), confirmation.before.places)
    work = confirm(
        w.controller.registry,
        w.ledger,
        planner_for(w.ledger, w.controller.eligibility),
        confirmation.query,
        more,
    )
    confirmation._work = work
    confirmation.pieces(1000)
    assert confirmation.found is not None
    assert confirmation.found.victims == confirmation.before.victims


def test_gang_whose_priority_rises_is_no_victim(world: MakeWorld) -> None:
    w, lows = full(world)
    confirmation = Confirmation(w, [pod("high-0", 3000), pod("high-1", 3000)])
    w.pod("late", labels=lows[0].labels, annotations=lows[0].annotations, priority=10)
    confirmation.pieces(1000)
    assert confirmation.found is None


def test_gang_that_may_no_longer_be_taken_is_no_victim(world: MakeWorld) -> None:
    w, _ = full(world)
    confirmation = Confirmation(w, [pod("high-0", 3000), pod("high-1", 3000)])
    victims: tuple[Victim, ...] = confirmation.before.victims
    confirmation.query.may_take = lambda one: one.key != victims[0].gang
    confirmation.pieces(1000)
    assert confirmation.found is None
