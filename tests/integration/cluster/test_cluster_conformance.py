"""The embedded cluster and a real API server follow the same rules."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import replace

import pytest

from fluence_extender.cluster.errors import AlreadyBound, Conflict, Disrupted, Gone
from fluence_extender.cluster.port import Regarding
from fluence_extender.model.names import GATE
from fluence_extender.model.pod import Pod
from tests.integration.cluster.conftest import NODES
from tests.integration.cluster.lab import LONGEST, Lab

OTHERS = "example.com/quota"
HERE, ELSEWHERE = NODES


@pytest.fixture
def name() -> str:
    return f"p-{uuid.uuid4().hex[:8]}"


async def now(lab: Lab, pod: Pod) -> Pod:
    found = await lab.read(pod)
    assert found is not None
    return found


async def test_nomination_is_set_changed_and_cleared(lab: Lab, name: str) -> None:
    pod = await lab.create(name, [GATE])
    for node in (HERE, ELSEWHERE, ""):
        await lab.cluster.nominate(pod, node)
        assert (await now(lab, pod)).nominated == node


async def test_condition_of_a_gated_pod_says_why_it_waits(lab: Lab, name: str) -> None:
    pod = await now(lab, await lab.create(name, [GATE]))
    await lab.cluster.report_pod(pod, "waiting for members (1 of 2 exist)")
    assert await lab.waiting(pod) == "waiting for members (1 of 2 exist)"


async def test_condition_of_a_gated_pod_asks_for_nodes_until_it_is_written_without(
    lab: Lab, name: str
) -> None:
    pod = await now(lab, await lab.create(name, [GATE]))
    await lab.cluster.report_pod(pod, "busy", asks_since=1_700_000_000.0)
    found = await now(lab, pod)
    assert (found.asks_since, found.refusal, found.gates) == (1_700_000_000.0, "", (GATE,))
    await lab.cluster.report_pod(found, "busy")
    assert (await now(lab, pod)).asks_since == 0


async def test_condition_of_a_bound_pod_does_not_say_that_it_waits(lab: Lab, name: str) -> None:
    pod = await now(lab, await lab.create(name, [GATE]))
    await lab.cluster.ungate(pod, GATE)
    await lab.cluster.bind(pod, HERE, {})
    with pytest.raises(Conflict):
        await lab.cluster.report_pod(pod, "waiting for members (1 of 2 exist)")
    assert await lab.waiting(pod) == ""


async def test_nominating_a_bound_pod_changes_nothing(lab: Lab, name: str) -> None:
    pod = await lab.create(name)
    await lab.cluster.bind(pod, HERE, {})
    await lab.cluster.nominate(pod, ELSEWHERE)
    found = await now(lab, pod)
    assert (found.node, found.nominated) == (HERE, "")


async def test_ungating_removes_one_gate_and_leaves_the_others(lab: Lab, name: str) -> None:
    pod = await lab.create(name, [OTHERS, GATE, "example.com/more"])
    await lab.cluster.ungate(pod, GATE)
    assert (await now(lab, pod)).gates == (OTHERS, "example.com/more")
    await lab.cluster.ungate(pod, GATE)
    await lab.cluster.ungate(await now(lab, pod), GATE)
    assert (await now(lab, pod)).gates == (OTHERS, "example.com/more")


async def test_gate_is_found_at_another_position(lab: Lab, name: str) -> None:
    pod = await lab.create(name, [OTHERS, GATE])
    await lab.cluster.ungate(pod, OTHERS)
    await lab.cluster.ungate(pod, GATE)
    assert (await now(lab, pod)).gates == ()


async def test_binding_sets_node_and_annotations_and_ends_the_nomination(lab: Lab, name: str) -> None:
    pod = await lab.create(name)
    await lab.cluster.nominate(pod, HERE)
    await lab.cluster.bind(pod, HERE, {"example.com/backend": "ibm"})
    found = await now(lab, pod)
    assert (found.node, found.nominated) == (HERE, "")
    assert found.annotations["example.com/backend"] == "ibm"


async def test_second_binding_to_the_same_node_succeeds_and_changes_nothing(lab: Lab, name: str) -> None:
    pod = await lab.create(name)
    await lab.cluster.bind(pod, HERE, {"example.com/a": "1"})
    await lab.cluster.bind(pod, HERE, {"example.com/a": "2"})
    assert (await now(lab, pod)).annotations["example.com/a"] == "1"


async def test_second_binding_to_another_node_names_the_first_node(lab: Lab, name: str) -> None:
    pod = await lab.create(name)
    await lab.cluster.bind(pod, HERE, {})
    with pytest.raises(AlreadyBound) as refused:
        await lab.cluster.bind(pod, ELSEWHERE, {})
    assert refused.value.node == HERE


async def test_one_of_several_simultaneous_bindings_succeeds(lab: Lab, name: str) -> None:
    pod = await lab.create(name)
    results = await asyncio.gather(
        *(lab.cluster.bind(pod, node, {}) for node in (HERE, ELSEWHERE) * 4), return_exceptions=True
    )
    node = (await now(lab, pod)).node
    refused = [one for one in results if one is not None]
    assert len(refused) == 4
    assert all(isinstance(one, AlreadyBound) and one.node == node for one in refused)


async def test_gated_pod_is_not_bound(lab: Lab, name: str) -> None:
    pod = await lab.create(name, [GATE])
    with pytest.raises(Conflict, match=name) as refused:
        await lab.cluster.bind(pod, HERE, {})
    assert not isinstance(refused.value, AlreadyBound)
    assert (await now(lab, pod)).node == ""


async def test_terminating_pod_is_not_bound(lab: Lab, name: str) -> None:
    pod = await lab.create(name)
    await lab.hold(pod)
    with pytest.raises(Conflict, match=name):
        await lab.cluster.bind(pod, HERE, {})


async def test_write_for_one_pod_never_reaches_another_pod_of_its_name(lab: Lab, name: str) -> None:
    pod = await lab.create(name, [GATE])
    other = await lab.replace(pod)
    for attempt in (
        lab.cluster.nominate(pod, HERE),
        lab.cluster.ungate(pod, GATE),
        lab.cluster.bind(pod, HERE, {"example.com/a": "1"}),
        lab.cluster.evict(pod, "why"),
    ):
        with pytest.raises(Gone):
            await attempt
    found = await now(lab, other)
    assert replace(found, resource_version="", annotations={}) == replace(
        other, resource_version="", annotations={}
    )
    assert "example.com/a" not in found.annotations


async def test_write_to_a_deleted_pod_raises_gone(lab: Lab, name: str) -> None:
    pod = replace(await lab.create(name, [GATE]), name=f"{name}-x")
    for attempt in (
        lab.cluster.nominate(pod, HERE),
        lab.cluster.ungate(pod, GATE),
        lab.cluster.bind(pod, HERE, {}),
        lab.cluster.evict(pod, "why"),
    ):
        with pytest.raises(Gone, match=f"{name}-x"):
            await attempt


async def test_evicted_pod_is_deleted_and_the_reason_is_recorded(lab: Lab, name: str) -> None:
    pod = await lab.create(name)
    await lab.cluster.bind(pod, HERE, {})
    await lab.cluster.evict(pod, "its gang can't be completed")
    found = await lab.read(pod)
    assert found is None or found.deleting
    await until_recorded(lab, pod, [("Warning", "Evicted", "its gang can't be completed", 1)])


async def test_waiting_pod_is_evicted_at_once(lab: Lab, name: str) -> None:
    pod = await lab.create(name, [GATE])
    await lab.cluster.evict(pod, "why")
    assert await lab.read(pod) is None


async def test_budget_forbids_an_eviction(lab: Lab, name: str) -> None:
    pod = await lab.create(name)
    await lab.cluster.bind(pod, HERE, {})
    await lab.protect(pod)
    with pytest.raises(Disrupted, match="budget"):
        await lab.cluster.evict(pod, "why")
    assert not (await now(lab, pod)).deleting


async def test_equal_events_become_one_with_a_count(lab: Lab, name: str) -> None:
    pod = await lab.create(name)
    about = Regarding("v1", "Pod", pod.namespace, pod.name, pod.uid)
    for _ in range(3):
        await lab.cluster.event(about, "Waiting", "for 5 of 8 members")
    await lab.cluster.event(about, "Placed", "on node-0", warning=True)
    recorded = [("Normal", "Waiting", "for 5 of 8 members", 3), ("Warning", "Placed", "on node-0", 1)]
    await until_recorded(lab, pod, recorded)


async def until_recorded(lab: Lab, pod: Pod, events: list[tuple[str, str, str, int]]) -> None:
    """Wait until the events about the pod are exactly these; they are written later than they happen."""
    found: list[tuple[str, str, str, int]] = []
    try:
        async with asyncio.timeout(LONGEST):
            while found != events:
                found = await lab.events(pod)
                await asyncio.sleep(0.05)
    except TimeoutError:
        assert found == events
