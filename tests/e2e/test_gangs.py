"""A gang is placed and bound as a whole, whatever form it has."""

from __future__ import annotations

import pytest

from fluence_extender.model.names import DIRECT_SCHEDULER_NAME
from tests.e2e.harness import Namespace, node_of, phase_of, wait_for
from tests.e2e.history import History
from tests.e2e.installation import gates_of
from tests.e2e.nodes import NodeFactory
from tests.e2e.service import Fluence
from tests.e2e.workloads import deployment, gang, grouped, indexed_job, labelled, ours, pod_group
from tests.localcluster.recipe import release


def test_pod_alone_is_a_gang_of_one(fluence: Fluence, namespace: Namespace, nodes: NodeFactory) -> None:
    nodes(1, cpu="2")
    (created,) = namespace.create(ours("alone", cpu="1", memory="1Gi"))
    assert (created["spec"]["schedulerName"], gates_of(created)) == (DIRECT_SCHEDULER_NAME, [])
    bound = namespace.wait_for_phase("alone", "Running")
    assert bound["metadata"]["uid"] == created["metadata"]["uid"]
    assert not gates_of(bound)
    assert fluence.wait_for_state(namespace.name, "alone", "bound")["size"] == 1
    (held,) = fluence.allocations(namespace.name)
    assert held == {
        "namespace": namespace.name,
        "pod": "alone",
        "uid": created["metadata"]["uid"],
        "node": node_of(bound),
        "core": 1.0,
        "memory": 2**30,
        "gpu": 0,
        "backend": "",
        "devices": {},
        "claimed": [],
        "gang": "alone",
        "claim": "bound",
    }


def test_deployment_in_a_pod_group_of_one_runs(
    fluence: Fluence, namespace: Namespace, nodes: NodeFactory
) -> None:
    nodes(1, cpu="2")
    template = grouped(ours("x", cpu="1"), "single")
    namespace.create(pod_group("single", 1), deployment("single", template, 1))
    (bound,) = namespace.wait_until_bound(1)
    assert bound["spec"]["schedulerName"] == "fluence-direct"
    namespace.wait_for_phase(bound["metadata"]["name"], "Running")


def condition(namespace: Namespace, group: str) -> dict[str, str]:
    """The condition of a native PodGroup; empty while there is none."""
    path = f"/apis/{release().pod_groups}/namespaces/{namespace.name}/podgroups/{group}"
    conditions = namespace.api.get(path).get("status", {}).get("conditions") or ()
    return next((one for one in conditions if one["type"] == release().pod_group_condition), {})


def test_native_pod_group_of_two_is_bound_and_called_scheduled(
    fluence: Fluence, namespace: Namespace, nodes: NodeFactory
) -> None:
    nodes(2, cpu="2")
    template = grouped(ours("x", cpu="1"), "pair")
    namespace.create(pod_group("pair", 2), deployment("pair", template, 2))
    pods = namespace.wait_until_bound(2)
    for one in pods:
        namespace.wait_for_phase(one["metadata"]["name"], "Running")
    wait_for(
        lambda: condition(namespace, "pair").get("status") == "True",
        what="the PodGroup to be Scheduled",
        seen=lambda: condition(namespace, "pair"),
    )
    seen = fluence.wait_for_state(namespace.name, "pair", "bound")
    assert seen["size"] == 2
    assert {one["uid"] for one in seen["members"]} == {one["metadata"]["uid"] for one in pods}


def test_native_gang_waits_for_its_pod_group_and_its_last_member(
    fluence: Fluence, namespace: Namespace, nodes: NodeFactory, history: History
) -> None:
    nodes(2, cpu="2")
    namespace.create(grouped(ours("first", cpu="1"), "late"))
    fluence.wait_for_reason(namespace.name, "late", f"waiting for PodGroup {namespace.name}/late to exist")
    namespace.create(pod_group("late", 2))
    fluence.wait_for_reason(namespace.name, "late", "waiting for members (1 of 2 exist)")
    wait_for(
        lambda: condition(namespace, "late").get("status") == "False",
        what="the PodGroup to be called unscheduled",
        seen=lambda: condition(namespace, "late"),
    )
    assert not history.bound
    namespace.create(grouped(ours("second", cpu="1"), "late"))
    namespace.wait_until_bound(2)
    wait_for(lambda: condition(namespace, "late").get("status") == "True", what="it to be Scheduled")


def test_gang_by_label_and_size_waits_until_all_members_exist(
    fluence: Fluence, namespace: Namespace, nodes: NodeFactory, history: History
) -> None:
    nodes(1, cpu="4")
    namespace.create(*gang("trio", 2, size=3, cpu="1"))
    waiting = fluence.wait_for_reason(namespace.name, "trio", "waiting for members (2 of 3 exist)")
    assert waiting["state"] == "waiting"
    assert not fluence.allocations(namespace.name)
    assert not history.bound
    namespace.create(*gang("trio", 1, first=2, size=3, cpu="1"))
    pods = namespace.wait_until_bound(3)
    seen = fluence.wait_for_state(namespace.name, "trio", "bound")
    assert {(one["pod"], one["uid"], one["node"]) for one in seen["members"]} == {
        (one["metadata"]["name"], one["metadata"]["uid"], node_of(one)) for one in pods
    }


def test_deployment_by_label_and_size_is_one_gang(
    fluence: Fluence, namespace: Namespace, nodes: NodeFactory
) -> None:
    nodes(1, cpu="4")
    template = labelled(ours("x", cpu="1"), "duo", 2)
    namespace.create(deployment("duo", template, 2))
    pods = namespace.wait_until_bound(2)
    assert len(pods) == 2
    assert fluence.wait_for_state(namespace.name, "duo", "bound")["size"] == 2


@pytest.mark.parametrize("parallelism", [1, 4])
def test_job_by_label_is_a_gang_of_its_parallelism(
    parallelism: int, fluence: Fluence, namespace: Namespace, nodes: NodeFactory
) -> None:
    nodes(1, cpu="4")
    namespace.create(indexed_job("work", ours("x", cpu="500m"), parallelism))
    pods = namespace.wait_until_bound(parallelism)
    assert fluence.wait_for_state(namespace.name, "work", "bound")["size"] == parallelism
    for one in pods:
        assert namespace.wait_for_phase(one["metadata"]["name"], "Running")


def test_replacement_of_a_bound_member_is_placed_beside_the_others(
    fluence: Fluence, namespace: Namespace, nodes: NodeFactory
) -> None:
    nodes(1, cpu="4")
    namespace.create(deployment("duo", labelled(ours("x", cpu="1"), "duo", 2), 2))
    lost, kept = namespace.wait_until_bound(2)
    namespace.delete_pod(lost["metadata"]["name"])
    uid = lost["metadata"]["uid"]

    def replaced() -> bool:
        now = [one for one in namespace.pods() if phase_of(one) == "Running"]
        return len(now) == 2 and uid not in {one["metadata"]["uid"] for one in now}

    wait_for(replaced, what="the replacement to run", seen=lambda: fluence.gangs(namespace.name))
    assert kept["metadata"]["uid"] in {one["metadata"]["uid"] for one in namespace.pods()}
