"""What changes while a pass decides counts as if the pass had begun after it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fluence_extender.cluster.port import Changed, Deleted, Kind, Listed
from fluence_extender.gangs.controller import Controller
from fluence_extender.gangs.planning.view import Plan
from fluence_extender.graph.virtual import VirtualResource, VirtualResources
from fluence_extender.kinds.podgroups import PodGroup
from fluence_extender.model.names import GATE, GROUP_LABEL, GROUP_SIZE_ANNOTATION
from fluence_extender.model.node import Node
from fluence_extender.model.pod import HostPort, Pod, PodTerm, Requirement
from fluence_extender.model.reason import ReasonCode
from fluence_extender.objects.queues import DEFAULT_QUEUE, Queue, Stop
from fluence_extender.room.ledger import Ledger
from tests.core.values import asks, node

RACK, HOST = "example.com/rack", "kubernetes.io/hostname"
HTTP = (HostPort(80, "TCP", "0.0.0.0"),)


class Core:
    """A controller whose passes are begun, made and carried out one after the other. ``now`` is its clock."""

    def __init__(self, *nodes: Node) -> None:
        self.now = 0.0
        self.controller = Controller(Ledger(), clock=lambda: self.now, calendar=lambda: 1_000_000 + self.now)
        self.controller.observe(Listed(Node, nodes))
        self.controller.observe(Listed(Queue, (Queue(DEFAULT_QUEUE, uid="default"),)))
        self.controller.start()
        self.rest()

    def see(self, kind: Kind, *objects: object) -> None:
        for one in objects:
            self.controller.observe(Changed(one))  # type: ignore[arg-type]

    def waits(self, name: str, cpu: int = 3000, **fields: object) -> Pod:
        """Show a pod that waits for its place."""
        pod = Pod("default", name, name, gates=(GATE,), requests=asks(cpu, 1), created=1.0)
        pod = replace(pod, **fields)  # type: ignore[arg-type]
        self.see(Pod, pod)
        return pod

    def runs(self, name: str, where: str, cpu: int = 3000, **fields: object) -> Pod:
        """Show a pod of another scheduler that runs on a node."""
        pod = Pod(
            "default", name, name, node=where, phase="Running", scheduler="other", requests=asks(cpu, 1)
        )
        pod = replace(pod, **fields)  # type: ignore[arg-type]
        self.see(Pod, pod)
        return pod

    def decided(self) -> Plan:
        """Begin a pass and return what it decides, which isn't carried out yet."""
        while (view := self.controller.begin()) is None:
            self.controller.finish(None)
        self.controller.finish(None)
        return self.controller.plan(view)

    def carry_out(self, plan: Plan) -> None:
        """Take in what has changed meanwhile, carry out a pass, and go on until nothing is left to do."""
        self.controller.begin()
        self.controller.finish(plan)
        self.rest()

    def rest(self) -> None:
        """Go on until nothing is left to do."""
        for _ in range(20):
            self.controller.step()
            if not self.controller.restless:
                return
        raise AssertionError("it never comes to rest")

    def node_of(self, name: str) -> str:
        found = self.controller.member(name)
        assert found is not None
        return found[1].assignment.node if found[1].assignment is not None else ""

    def code(self, name: str) -> ReasonCode | None:
        found = self.controller.member(name)
        assert found is not None
        return found[0].reason.code if found[0].reason is not None else None

    def reserved(self) -> list[tuple[str, ...]]:
        return [tuple(one.nodes) for one in self.controller.queue.reservations()]


def racks() -> Core:
    """Two nodes, each in a rack of its own."""
    return Core(*(node(f"n{at}", cpu=4000, labels={RACK: f"r{at}"}) for at in (0, 1)))


def group(name: str, *levels: str) -> PodGroup:
    return PodGroup("default", name, f"uid-{name}", 2, levels)


def test_gang_whose_group_comes_to_require_one_rack_is_not_spread() -> None:
    core = racks()
    core.see(PodGroup, group("g"))
    core.waits("a", group="g")
    core.waits("b", group="g")
    plan = core.decided()
    core.see(PodGroup, group("g", RACK))
    core.carry_out(plan)
    assert (core.node_of("a"), core.node_of("b")) == ("", "")
    assert core.code("a") is ReasonCode.UNSATISFIABLE


def test_gang_whose_group_requires_one_rack_no_more_is_placed() -> None:
    core = racks()
    core.see(PodGroup, group("before", RACK), group("g", RACK))
    for name in ("before", "g"):
        core.waits(f"{name}-0", group=name)
        core.waits(f"{name}-1", group=name)
    core.rest()
    assert core.code("g-0") is ReasonCode.UNSATISFIABLE
    core.see(Node, node("n0", cpu=4000, labels={RACK: "r0", "x": "1"}))
    plan = core.decided()
    core.see(PodGroup, group("g"))
    core.carry_out(plan)
    assert {core.node_of("g-0"), core.node_of("g-1")} == {"n0", "n1"}


def test_room_of_a_pod_that_is_deleted_goes_to_the_next_after_a_pass_over_all() -> None:
    core = Core(node("n0", cpu=4000))
    core.see(Node, node("n0", cpu=4000, labels={"x": "1"}))
    first = core.waits("a")
    core.waits("b", created=2.0)
    plan = core.decided()
    assert plan.view.grew
    core.controller.observe(Deleted(first))
    core.carry_out(plan)
    assert core.node_of("b") == "n0"


def test_queue_that_is_stopped_places_none_of_its_many_gangs() -> None:
    core = Core(node("n0", cpu=400_000))
    core.rest()
    for number in range(40):
        core.waits(f"a{number:02}", 10)
    plan = core.decided()
    # So little time is left for looking at changed gangs that only some are looked at in a step.
    core.controller.lifecycle._evaluation._clock = iter(range(10**6)).__next__
    core.see(Queue, Queue(DEFAULT_QUEUE, stop=Stop.HOLD, uid="default"))
    core.controller.begin()
    assert core.controller.registry.dirty
    core.controller.finish(plan)
    assert not any(core.node_of(f"a{number:02}") for number in range(40))


@pytest.mark.parametrize("warm", [False, True])
def test_pod_keeps_away_from_a_pod_that_gets_the_label_of_its_rule(warm: bool) -> None:
    core = Core(*(node(f"n{at}", cpu=4000, labels={HOST: f"n{at}"}) for at in (0, 1)))
    term = PodTerm(key=HOST, namespaces=("default",), selector=(Requirement("x", "In", ("1",)),))
    core.runs("other", "n0", 100)
    if warm:
        core.waits("earlier", 500, apart=(term,), interdependent=True)
        core.rest()
    core.waits("a", apart=(term,), interdependent=True)
    plan = core.decided()
    core.runs("other", "n0", 100, labels={"x": "1"})
    core.carry_out(plan)
    assert core.node_of("a") == "n1"


def test_host_port_is_given_once_when_a_gang_changes_its_nodes() -> None:
    core = Core(node("n1", cpu=4000), node("n2", cpu=4000))
    labels, size = {GROUP_LABEL: "gang"}, {GROUP_SIZE_ANNOTATION: "2"}
    core.waits("with-port", host_ports=HTTP, labels=labels, annotations=size)
    core.waits("without", labels=labels, annotations=size)
    core.waits("b", 500, host_ports=HTTP, created=5.0)
    plan = core.decided()
    taken = plan.decided[0].placed[0].assignment
    assert taken is not None
    core.runs("other", taken.node, 10, host_ports=HTTP)
    core.carry_out(plan)
    assert core.node_of("with-port") not in ("", taken.node)
    assert core.node_of("b") == ""


def test_reservation_moves_to_another_node_when_a_pod_without_an_end_takes_its_room() -> None:
    core = Core(node("n0", cpu=4000), node("n1", cpu=4000))
    for where, seconds in (("n0", 1000.0), ("n1", 2000.0)):
        core.runs(f"on-{where}", where, duration=seconds, started=1_000_000.0)
    core.waits("a", 3500, duration=100.0)
    core.rest()
    assert core.reserved() == [("n0",)]
    core.waits("z", 100, created=9.0)
    plan = core.decided()
    core.runs("other", "n0", 900)
    core.carry_out(plan)
    assert core.reserved() == [("n1",)]


def test_devices_that_are_declared_later_are_kept_for_a_gang_with_a_reservation() -> None:
    def declared(*some: tuple[str, int]) -> VirtualResources:
        return VirtualResources(
            "f", tuple(VirtualResource(kind, kind, (kind,), n, path=f"/cluster0/{kind}") for kind, n in some)
        )

    core = Core(node("n0", cpu=4000), node("n1", cpu=4000))
    core.controller.replace_resources(declared(("qpu", 1)))
    for where, seconds in (("n0", 1000.0), ("n1", 2000.0)):
        core.runs(f"on-{where}", where, duration=seconds, started=1_000_000.0)
    core.waits("first", 3600, duration=100.0, priority=10)
    core.rest()
    core.waits("a", 3500, devices={"laser": 4}, duration=100.0, priority=20)
    core.rest()
    core.controller.replace_resources(declared(("qpu", 1), ("laser", 4)))
    core.rest()
    core.waits("z", 100, devices={"laser": 4}, duration=5000.0, created=9.0)
    core.rest()
    assert core.code("z") is ReasonCode.BEHIND_RESERVATION


def test_gang_is_tried_on_a_node_that_has_changed_since_it_refused() -> None:
    core = Core(node("n0", cpu=4000))
    core.waits("a")
    core.rest()
    for core.now in (1.0, 3.0, 5.0):
        core.controller.lifecycle.refused("a", "n0")
        core.rest()
    assert core.node_of("a") == ""
    core.waits("z", 9000, created=5.0)
    core.rest()
    core.now = 7.0
    core.see(Node, node("n0", cpu=4000, labels={"x": "1"}))
    core.rest()
    core.now = 20.0
    core.rest()
    assert core.node_of("a") == "n0"


def test_no_pass_is_begun_for_a_gang_that_rests_although_its_time_has_come() -> None:
    core = Core(node("n0", cpu=4000))
    core.waits("a", 9000)
    core.rest()
    found = core.controller.member("a")
    assert found is not None
    gang = found[0]
    gang.remember(again_at=5.0, back_off=replace(gang.back_off, until=60.0))
    core.controller.lifecycle._gang_index.update(gang, 0.0)
    core.now = 6.0
    assert core.controller.begin() is None
    core.controller.finish(None)


def test_pod_that_gets_a_second_place_ends_as_long_after_that_as_it_runs() -> None:
    core = Core(node("n0", cpu=4000))
    core.waits("a", duration=100.0)
    core.rest()
    core.waits("too-large", 9000)
    core.rest()
    found = core.controller.member("a")
    assert found is not None
    core.controller.lifecycle._places.withdraw(found[0])
    core.now = 500.0
    core.controller.registry.dirty.add(found[0].key)
    core.rest()
    assert core.node_of("a") == "n0"
    core.waits("b", 3500, created=2.0)
    core.rest()
    (reservation,) = core.controller.queue.reservations()
    assert reservation.start == 1_000_600.0
