"""A world with several replicas of {kube-scheduler, extender} of which one leads, in virtual time."""

from __future__ import annotations

from typing import Any

from fluence_extender.apps.extender.adapters import LivePlacements
from fluence_extender.cluster import port
from fluence_extender.gangs.controller import Controller
from fluence_extender.gangs.execution.driver import Driver
from fluence_extender.http.state.service import ServiceState
from fluence_extender.model.pod import Pod
from fluence_extender.model.resources import Resources
from fluence_extender.room.ledger import Ledger
from tests.core.invariants import (
    accounts_equal_the_cluster,
    check,
    no_device_is_held_twice,
)
from tests.core.replica import LeaseBoard, Replica
from tests.core.world import World

LAGS = (0.0, 0.1, 0.25)
"""Seconds that a question for the Lease takes each way, replica by replica."""


class Pair(World):
    """A `World` whose controller, ledger and so on are those of the replica that leads, or led last.

    ``together`` are the replicas that were found to lead at the same time.
    """

    def __init__(self, *objects: port.Watched, **options: Any) -> None:
        self.board = LeaseBoard()
        self.replicas: list[Replica] = []
        self._last: Replica | None = None
        self._made = 0
        self._bound: set[str] = set()
        self.together: list[str] = []
        super().__init__(*objects, scheduling=False, **options)

    def start(self) -> None:
        """Start two replicas, and wait until one of them leads."""
        self.cluster.watch(self._judge)
        self.add()
        self.add()
        self.advance(8)
        assert self.leading is not None

    def _judge(self, seen: port.Observation) -> None:
        """Note pods of ours bound beyond their node's room, however late their Binding arrived."""
        if not isinstance(seen, port.Changed) or not isinstance(seen.object, Pod):
            return
        pod = seen.object
        if not pod.ours or not pod.node or pod.uid in self._bound:
            return
        self._bound.add(pod.uid)
        node = next((one for one in self.cluster.nodes() if one.name == pod.node), None)
        there = [one for one in self.cluster.pods() if one.node == pod.node and not one.finished]
        used = Resources.total(one.requests for one in there)
        if node is not None and pod.node not in self.scheduler.disturbed and not used.fits(node.allocatable):
            self.scheduler.overcommitted.append(f"{pod.key} on {pod.node}")

    def add(self) -> Replica:
        """Start another replica."""

        async def make() -> Replica:
            offset = 0.7 * (self._made % 3)
            lag = LAGS[self._made % len(LAGS)]
            return Replica(
                name,
                self.cluster,
                self.board,
                self.engine.ledger(self.policy),
                self.limits,
                offset,
                lag,
                self._beside,
                self._note_together,
            )

        self._made += 1
        name = f"fluence-{self._made}"
        made: Replica = self.run(make())
        made.share(self.scheduler)
        self._watch_for_crashes(made.controller)
        self.replicas.append(made)
        return made

    def _note_together(self) -> None:
        """Note who lead at the moment at which one of them has begun to."""
        leaders = [one.name for one in self.replicas if one.leading]
        if len(leaders) > 1:
            self.together.append(" and ".join(leaders))

    def remove(self, replica: Replica) -> None:
        """Kill both processes of a replica."""
        self.replicas.remove(replica)
        replica.kill()
        self.advance(0.0)

    def kill(self) -> None:
        """End everything."""
        for replica in list(self.replicas):
            self.remove(replica)

    @property
    def leading(self) -> Replica | None:
        """The replica whose extender leads now; there is never more than one."""
        leaders = [one for one in self.replicas if one.leading]
        assert len(leaders) <= 1, [one.name for one in leaders]
        if leaders:
            self._last = leaders[0]
        return leaders[0] if leaders else None

    @property
    def foremost(self) -> Replica:
        """The replica that leads, or the last one that did and still lives, or any."""
        if self.leading is None and self._last not in self.replicas:
            self._last = self.replicas[0]
        assert self._last is not None
        return self._last

    @property
    def controller(self) -> Controller:  # type: ignore[override]
        return self.foremost.controller

    @property
    def ledger(self) -> Ledger:  # type: ignore[override]
        return self.foremost.ledger

    @property
    def driver(self) -> Driver:  # type: ignore[override]
        return self.foremost.driver

    @property
    def placements(self) -> LivePlacements:  # type: ignore[override]
        return self.foremost.placements

    @property
    def state(self) -> ServiceState:  # type: ignore[override]
        return self.foremost.state

    @property
    def binding(self) -> bool:
        """Whether a bind call is under way anywhere, or pods may be bound by their creation."""
        return self.jobs.behind or any(one.scheduler.binding for one in self.replicas)


class Seen:
    """A world as one replica sees it."""

    def __init__(self, world: Pair, replica: Replica) -> None:
        self._world = world
        self.ledger = replica.ledger
        self.controller = replica.controller
        self.placements = replica.placements
        self.state = replica.state
        self.shown = replica.shown

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world, name)


def check_pair(world: Pair) -> None:
    """What holds after every step: of the leader all that holds of a lonely one, of the others the facts."""
    leader = world.leading
    for replica in world.replicas:
        if replica.link.cut:
            continue
        seen: Any = Seen(world, replica)
        if replica is leader:
            check(seen)
            replica.shown = seen.shown
        elif not replica.controller.leading:
            only_bound_pods_hold(seen)
            accounts_equal_the_cluster(seen)
            no_device_is_held_twice(seen)
    assert not world.scheduler.overcommitted, world.scheduler.overcommitted
    assert not world.together, world.together


def only_bound_pods_hold(seen: Seen) -> None:
    """Who stands by follows facts alone."""
    bound = {pod.uid: pod.node for pod in seen.cluster.pods() if pod.ours and pod.node and not pod.finished}
    assert {uid: held.assignment.node for uid, held in seen.ledger.holdings.items()} == bound
