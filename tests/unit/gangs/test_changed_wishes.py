"""What a planned pod asks for, and the devices it was given, may change before it is bound."""

from __future__ import annotations

import pytest

from fluence_extender.cluster.errors import ClusterError, Denied
from fluence_extender.cluster.port import ResourcesFile
from fluence_extender.gangs.execution.binder import BIND_PAUSE
from fluence_extender.http.scheduler.port import BindRefused
from fluence_extender.model.assignment import binding_annotations
from fluence_extender.model.names import BACKEND_ANNOTATION, REQUIRE_PREFIX
from fluence_extender.model.node import Node
from tests.core.values import asks, node
from tests.core.world import World
from tests.unit.gangs.conftest import MakeWorld, gang

TWO = "resources: [{type: qpu, name: a, attributes: {vendor: x}}, {type: qpu, name: b, attributes: {vendor: y}}]"
ONE = "resources: [{type: qpu, name: b, attributes: {vendor: y}}]"
OTHER = "resources: [{type: qpu, name: b, attributes: {vendor: z}}]"


def file(text: str) -> ResourcesFile:
    return ResourcesFile("test", text)


def held_backend(w: World, uid: str) -> str:
    held = w.ledger.holdings.get(uid)
    return held.assignment.backend if held is not None else ""


def test_planned_member_leaves_a_device_that_was_removed(world: MakeWorld) -> None:
    w = world(node("n0"), file(TWO), scheduling=False)
    (pod,) = gang(w, "g", 1000, devices={"qpu": 1})
    w.advance(1)
    assert held_backend(w, pod.uid) == "a"
    w.cluster.put(file(ONE))
    w.advance(1)
    assert held_backend(w, pod.uid) == "b"


def test_planned_member_waits_when_no_device_is_left(world: MakeWorld) -> None:
    w = world(node("n0"), file(TWO), scheduling=False)
    (pod,) = gang(w, "g", 1000, devices={"qpu": 1})
    w.advance(1)
    w.cluster.put(ResourcesFile("test", None))
    w.advance(3)
    assert pod.uid not in w.ledger.holdings
    reason = w.gang("g").reason
    assert reason is not None
    assert reason.text.startswith("no backend: no resource of type qpu is configured")


def test_bound_member_keeps_a_device_that_was_removed_and_no_other_gets_it(world: MakeWorld) -> None:
    w = world(node("n0"), file(TWO))
    (first,) = gang(w, "first", 1000, devices={"qpu": 1})
    w.advance(3)
    assert held_backend(w, first.uid) == "a"
    w.cluster.put(file(ONE))
    second, third = gang(w, "second", 1000, devices={"qpu": 1}) + gang(w, "third", 1000, devices={"qpu": 1})
    w.advance(5)
    assert held_backend(w, first.uid) == "a"
    assert held_backend(w, second.uid) == "b"
    assert w.now(third).node == ""
    # The device comes back while it is held: it is still held.
    w.cluster.put(file(TWO))
    w.advance(5)
    assert w.now(third).node == ""
    w.cluster.remove(w.now(first))
    w.advance(5)
    assert held_backend(w, third.uid) == "a"


def test_member_that_is_just_being_bound_keeps_a_device_that_is_removed_before_it_is_seen_bound(
    world: MakeWorld,
) -> None:
    w = world(node("n0"), file(TWO), scheduling=False)
    (pod,) = gang(w, "g", 1000, devices={"qpu": 1})
    w.advance(1)
    assignment = w.ledger.holdings[pod.uid].assignment
    assert assignment.backend == "a"
    w.controller.lifecycle.binding(w.gang("g"), w.member(pod.uid))
    w.cluster.put(file(ONE))
    w.advance(1)
    stamp = binding_annotations(w.gang("g").key, assignment)
    w.change(pod, node="n0", gates=(), annotations=stamp)
    w.advance(1)
    assert w.ledger.holdings[pod.uid].assignment == assignment
    # The device comes back while it is held, and is given to nobody else.
    w.cluster.put(file(TWO))
    second, third = gang(w, "second", 1000, devices={"qpu": 1}) + gang(w, "third", 1000, devices={"qpu": 1})
    w.advance(2)
    assert held_backend(w, second.uid) + held_backend(w, third.uid) == "b"


def test_planned_member_is_stamped_with_the_attributes_of_the_newest_edit(world: MakeWorld) -> None:
    w = world(node("n0"), file(ONE), scheduling=False)
    (pod,) = gang(w, "g", 1000, devices={"qpu": 1})
    w.advance(1)
    w.cluster.put(file(OTHER))
    w.advance(1)
    assert w.ledger.holdings[pod.uid].assignment.devices[0].attributes == {"vendor": "z"}


def test_planned_members_leave_a_pool_that_became_too_small(world: MakeWorld) -> None:
    pool = "resources: [{{type: simulator, name: sv1, count: {}}}]"
    w = world(node("n0"), file(pool.format(4)), scheduling=False)
    pods = gang(w, "a", 1000, devices={"simulator": 2}) + gang(w, "b", 1000, devices={"simulator": 2})
    w.advance(1)
    assert len(w.ledger.holdings) == 2
    w.cluster.put(file(pool.format(3)))
    w.advance(3)
    assert sum(pod.uid in w.ledger.holdings for pod in pods) == 1


def test_bad_edit_changes_nothing(world: MakeWorld) -> None:
    w = world(node("n0"), file(TWO), scheduling=False)
    (pod,) = gang(w, "g", 1000, devices={"qpu": 1})
    w.advance(1)
    before = dict(w.ledger.holdings)
    w.cluster.put(file("resources: [{type: qpu, name: a, count: -1}]"))
    w.advance(3)
    assert w.ledger.holdings == before
    assert len(w.rejected) == 1
    assert held_backend(w, pod.uid) == "a"


def test_requirement_edited_while_planned_is_met_anew(world: MakeWorld) -> None:
    w = world(node("n0"), file(TWO), scheduling=False)
    (pod,) = gang(w, "g", 1000, devices={"qpu": 1})
    w.advance(1)
    w.change(pod, annotations={**w.now(pod).annotations, f"{REQUIRE_PREFIX}vendor": "y"})
    w.advance(1)
    assert held_backend(w, pod.uid) == "b"


def test_requests_edited_while_planned_are_placed_anew(world: MakeWorld) -> None:
    w = world(node("n0", cpu=2000), node("n1", cpu=4000), scheduling=False)
    (pod,) = gang(w, "g", 1000)
    w.advance(1)
    assert w.ledger.holds(pod.uid, "n0")
    w.change(pod, requests=asks(3000))
    w.advance(1)
    assert w.ledger.holds(pod.uid, "n1")
    assert w.ledger.accounts["n1"].free["cpu"] == 1000


def test_node_selector_narrowed_while_gated_is_followed(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1", labels={"disk": "fast"}), scheduling=False)
    (pod,) = gang(w, "g", 1000)
    w.advance(1)
    w.change(pod, node_selector={"disk": "fast"})
    w.advance(1)
    assert w.ledger.holds(pod.uid, "n1")


def test_resize_of_a_bound_pod_is_counted_at_once_and_drives_planned_ones_away(world: MakeWorld) -> None:
    w = world(node("n0", cpu=3000), node("n1", cpu=3000), scheduling=False)
    bound = w.pod("bound", node="n0", requests=asks(1000))
    (planned,) = gang(w, "g", 2000)
    w.advance(1)
    assert w.ledger.holds(planned.uid, "n0")
    w.change(bound, requests=asks(2000))
    w.advance(1)
    assert w.ledger.holds(planned.uid, "n1")
    assert w.ledger.accounts["n0"].free["cpu"] == 1000
    w.change(bound, requests=asks(500))
    w.advance(1)
    assert w.ledger.accounts["n0"].free["cpu"] == 2500


def test_resize_beyond_the_node_is_reported_and_evicts_no_pod(world: MakeWorld) -> None:
    w = world(node("n0", cpu=3000))
    bound = w.pod("bound", node="n0", requests=asks(1000))
    w.change(bound, requests=asks(5000))
    (pod,) = gang(w, "g", 100)
    w.advance(5)
    assert w.ledger.accounts["n0"].free["cpu"] == -2000
    assert w.ledger.overcommitted == {"n0"}
    assert not w.now(pod).node
    assert w.now(bound).node == "n0"
    assert not [call for call in w.cluster.calls if call[0] == "evict"]


def test_replacement_under_the_same_name_is_another_pod(world: MakeWorld) -> None:
    w = world(node("n0", cpu=1000))
    (first,) = gang(w, "g", 1000)
    w.advance(3)
    w.cluster.delete(w.now(first))
    assert w.ledger.holds(first.uid, "n0")
    w.cluster.reap()
    (second,) = gang(w, "g", 1000)
    w.advance(3)
    assert second.key == first.key
    assert first.uid not in w.ledger.holdings
    assert w.ledger.holds(second.uid, "n0")


def test_pod_on_a_node_that_is_gone_counts_until_it_is_gone_itself(world: MakeWorld) -> None:
    w = world(node("n0", cpu=1000))
    (pod,) = gang(w, "g", 1000)
    w.advance(3)
    w.cluster.remove(Node("n0"))
    w.advance(1)
    assert w.ledger.holds(pod.uid, "n0")
    w.cluster.put(node("n0", cpu=1000))
    w.advance(1)
    assert w.ledger.accounts["n0"].free["cpu"] == 0
    w.cluster.remove(w.now(pod))
    w.advance(1)
    assert w.ledger.accounts["n0"].free["cpu"] == 1000


def test_denied_steer_is_reported_and_the_reason_ends_with_it(world: MakeWorld) -> None:
    w = world(node("n0"), direct=False)
    w.cluster.fail("ungate", Denied("pods is forbidden", 403), times=6)
    (pod,) = gang(w, "g", 1000)
    w.advance(3)
    reason = w.gang("g").reason
    assert reason is not None
    assert reason.text == "placed, but g-0 can't be told its node: pods is forbidden"
    told = [event for event in w.cluster.events if event.reason == "CannotSteer"]
    assert [(event.regarding.name, event.count) for event in told] == [("g-0", 1)]
    w.advance(20)
    assert w.now(pod).node == "n0"
    assert w.gang("g").reason is None


def test_node_that_goes_between_two_tries_to_bind_is_not_bound_to(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"), scheduling=False)
    (pod,) = gang(w, "g", 1000)
    w.advance(1)
    w.cluster.fail("bind", ClusterError("no answer"), times=1)
    w.loop.call_later(BIND_PAUSE / 2, w.cluster.remove, Node("n0"))
    with pytest.raises(BindRefused, match="node n0 has gone"):
        w.run(w.placements.bind(w.asked(pod), "n0"))
    w.advance(2)
    assert w.ledger.holds(pod.uid, "n1")
    assert not w.now(pod).node


def test_backends_of_two_types_are_both_named(world: MakeWorld) -> None:
    qpu = "{type: qpu, name: fez, attributes: {vendor: ibm, site: x}}"
    text = f"resources: [{qpu}, {{type: simulator, name: sv1, attributes: {{vendor: aws, site: x}}}}]"
    w = world(node("n0"), file(text))
    (pod,) = gang(w, "g", 1000, devices={"qpu": 1, "simulator": 1})
    w.advance(3)
    notes = w.now(pod).annotations
    assert notes[BACKEND_ANNOTATION] == "fez,sv1"
    assert notes["fluence.flux-framework.org/attr-vendor"] == "ibm,aws"
    assert notes["fluence.flux-framework.org/attr-site"] == "x"


def test_parent_node_that_goes_and_comes_back_keeps_what_is_held_of_its_devices(world: MakeWorld) -> None:
    text = "resources: [{type: qpu, name: chip, parent: n0}]"
    w = world(node("n0"), node("n1"), file(text))
    (first,) = gang(w, "first", 1000, devices={"qpu": 1})
    w.advance(3)
    assert w.now(first).node == "n0"
    w.cluster.remove(Node("n0"))
    (second,) = gang(w, "second", 1000, devices={"qpu": 1})
    w.advance(3)
    assert not w.now(second).node
    w.cluster.put(node("n0", labels={"topology.kubernetes.io/zone": "elsewhere"}))
    w.cluster.relist(Node)
    w.advance(3)
    assert not w.now(second).node
    w.cluster.remove(w.now(first))
    w.advance(5)
    assert w.now(second).node == "n0"
