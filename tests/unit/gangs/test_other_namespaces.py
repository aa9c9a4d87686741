"""Texts on objects of one namespace don't name objects of another. Those who may see everything get the names."""

from __future__ import annotations

from fluence_extender.cluster.errors import Disrupted
from fluence_extender.gangs.preemption.preemptions import PreemptorDemand, devices_held_for
from fluence_extender.gangs.queue.submissions import newcomer
from fluence_extender.http.scheduler.port import Nowhere
from fluence_extender.model.access import EVERYTHING
from fluence_extender.model.gang import Convention, GangKey
from fluence_extender.model.names import GATE, GROUP_LABEL, GROUP_SIZE_ANNOTATION
from fluence_extender.model.pod import Pod
from tests.core.state_api import every
from tests.core.values import asks, node
from tests.core.world import World
from tests.unit.gangs.conftest import MakeWorld, gang


def written(w: World, namespace: str) -> str:
    """Return all that users of the namespace read on their objects, and what filter answers about their pods."""
    texts = [event.message for event in w.cluster.events if event.regarding.namespace == namespace]
    for pod in w.cluster.pods():
        if pod.namespace == namespace:
            texts.append(w.cluster.waiting.get(pod.uid, ""))
            place = w.placements.locate(w.asked(pod))
            texts.append(place.reason if isinstance(place, Nowhere) else "")
    return "\n".join(filter(None, texts))


def shown(w: World, namespace: str) -> str:
    """Return the reasons and histories of the namespace's gangs as the state API shows them to who may see all."""
    found = []
    for one in every(w.state.gangs(True, EVERYTHING)):
        story = w.state.gang(one.namespace, one.name, "", EVERYTHING)
        if one.namespace == namespace and story is not None:
            found += [story.item.reason, *(entry.detail for entry in story.item.history)]
    return "\n".join(found)


def evicting(world: MakeWorld) -> tuple[World, list[Pod]]:
    """A gang of ``bank`` evicts one of ``lab`` from the only node."""
    w = world(node("n0"), direct=False)
    low = gang(w, "low", 1000, 1000, namespace="lab")
    w.advance(2)
    gang(w, "high", 3000, namespace="bank", priority=10)
    w.advance(2)
    assert [w.now(pod).deleting for pod in low] == [True, True]
    return w, low


def test_evicted_gang_learns_the_priority_of_its_preemptor_and_not_its_name(world: MakeWorld) -> None:
    w, _ = evicting(world)
    assert "preempted by a gang of another namespace (priority 10)" in written(w, "lab")
    assert "bank" not in written(w, "lab")
    assert "preempted by gang bank/high (priority 10)" in shown(w, "lab")


def test_new_member_of_an_evicted_gang_does_not_learn_the_name_either(world: MakeWorld) -> None:
    w = world(node("n0"), direct=False)
    gang(w, "low", 1000, 1000, namespace="lab")
    w.advance(2)
    w.cluster.fail("evict", Disrupted("not now", 429), times=20)
    gang(w, "high", 3000, namespace="bank", priority=10)
    w.advance(2)
    labels, size = {GROUP_LABEL: "low"}, {GROUP_SIZE_ANNOTATION: "2"}
    late = w.pod("low-2", "lab", labels=labels, annotations=size, requests=asks(100, 1), gates=(GATE,))
    w.advance(3)
    text = "gang lab/low: preempted by a gang of another namespace (priority 10)"
    assert w.cluster.waiting[late.uid] == text
    assert "bank" not in written(w, "lab")


def test_preemptor_counts_the_gangs_of_other_namespaces_that_it_evicts(world: MakeWorld) -> None:
    w, _ = evicting(world)
    assert "preempting a gang of another namespace: 0 of 2 pods gone" in written(w, "bank")
    assert "lab" not in written(w, "bank")
    assert "preempting lab/low: 0 of 2 pods gone" in shown(w, "bank")


def test_preemptor_names_the_victims_of_its_own_namespace(world: MakeWorld) -> None:
    w = world(node("n0"), direct=False)
    for namespace, name in (("bank", "own"), ("lab", "one"), ("lab", "two")):
        gang(w, name, 1000, namespace=namespace)
    w.advance(2)
    gang(w, "high", 4000, namespace="bank", priority=10)
    w.advance(2)
    assert "preempting bank/own and 2 gangs of other namespaces: 0 of 3 pods gone" in written(w, "bank")
    assert "preempting bank/own, lab/one, lab/two: 0 of 3 pods gone" in shown(w, "bank")


def test_pod_that_does_not_go_is_not_named(world: MakeWorld) -> None:
    w, _ = evicting(world)
    w.advance(w.limits.leaving + 3)
    late = f"has not gone within {w.limits.leaving:g} s"
    assert f"; a pod of another namespace {late}" in written(w, "bank")
    assert "lab" not in written(w, "bank")
    assert f"; lab/low-0 {late}" in shown(w, "bank")


def test_refused_eviction_does_not_show_the_words_of_the_refusal(world: MakeWorld) -> None:
    w = world(node("n0"), direct=False)
    gang(w, "low", 3000, namespace="lab")
    w.advance(2)
    w.cluster.fail("evict", Disrupted("the disruption budget vault needs 3 healthy pods", 429), times=3)
    gang(w, "high", 3000, namespace="bank", priority=10)
    w.advance(4)
    assert "; a pod of another namespace can't be evicted now" in written(w, "bank")
    assert "; lab/low-0 can't be evicted now" in shown(w, "bank")
    assert "vault" not in written(w, "bank") + shown(w, "bank")
    assert "vault" in shown(w, "lab")


def test_budget_of_another_namespace_is_not_named(world: MakeWorld) -> None:
    w = world(node("n0"), direct=False)
    (low,) = gang(w, "low", 3000, namespace="lab")
    w.advance(2)
    w.cluster.protected.add(low.uid)
    gang(w, "high", 3000, namespace="bank", priority=10)
    w.advance(4)
    assert "; PodDisruptionBudgets of other namespaces forbid evictions" in written(w, "bank")
    assert "a disruption budget allows no eviction now" in shown(w, "bank")


def test_gang_behind_a_preemptor_learns_its_priority_alone(world: MakeWorld) -> None:
    w, _ = evicting(world)
    gang(w, "late", 1000, namespace="lab")
    w.advance(3)
    assert "; behind a gang of another namespace (priority 10)" in written(w, "lab")
    assert "bank" not in written(w, "lab")
    assert "; behind bank/high (priority 10)" in shown(w, "lab")


def test_holder_of_devices_is_named_in_its_own_namespace_alone() -> None:
    key = GangKey("bank", "first", Convention.LABEL)
    holders = {
        key: PreemptorDemand(order=newcomer(key, 0, (0.0, 0)), priority=5, device_types=frozenset({"qpu"}))
    }
    there = devices_held_for({"qpu"}, "lab", holders, lambda _: True)
    here = devices_held_for({"qpu"}, "bank", holders, lambda _: True)
    assert there is not None
    assert here is not None
    assert there.text == "busy: qpu held for a gang of another namespace (priority 5)"
    assert here.text == there.full_text == "busy: qpu held for bank/first (priority 5)"
