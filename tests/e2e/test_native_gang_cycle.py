"""Beside kube-scheduler's own gang scheduling (GenericWorkload, GangScheduling): both agree, and nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.harness import Namespace, node_of, wait_for
from tests.e2e.history import History
from tests.e2e.installation import Installation
from tests.e2e.nodes import NodeFactory
from tests.e2e.service import Fluence
from tests.e2e.test_gangs import condition
from tests.e2e.workloads import deployment, gang, grouped, indexed_job, ours, pod_group

RACK = "example.com/rack"


@pytest.fixture(scope="module")
def native(installation: Installation) -> Iterator[None]:
    """kube-scheduler schedules PodGroups in cycles of its own."""
    gates = ("GenericWorkload", "GangScheduling", "TopologyAwareWorkloadScheduling")
    with installation.other(feature_gates=dict.fromkeys(gates, True)):
        yield


def test_pod_group_is_bound_and_called_scheduled(
    native: None, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(2, cpu="1")
    namespace.create(pod_group("pair", 2), deployment("pair", grouped(ours("x", cpu="1"), "pair"), 2))
    namespace.wait_until_bound(2)
    wait_for(
        lambda: condition(namespace, "pair").get("status") == "True",
        what="the PodGroup to be Scheduled",
        seen=lambda: condition(namespace, "pair"),
    )
    assert fluence.wait_for_state(namespace.name, "pair", "bound")["size"] == 2


def test_of_two_pod_groups_with_room_for_one_the_loser_has_no_node(
    native: None, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, history: History
) -> None:
    own_nodes(3, cpu="1")
    for name in ("alpha", "beta"):
        namespace.create(pod_group(name, 2), deployment(name, grouped(ours("x", cpu="1"), name), 2))
    bound = [one for one in namespace.wait_until_bound(2) if node_of(one)]
    (winner,) = {one["metadata"]["labels"]["app"] for one in bound}
    loser = {"alpha": "beta", "beta": "alpha"}[winner]
    fluence.wait_for_reason(namespace.name, loser, "busy: 1 of 2 fit now")
    history.wait(2)
    assert len(history.bound) == 2
    path = f"/apis/apps/v1/namespaces/{namespace.name}/deployments/{winner}"
    namespace.api.delete(path, propagationPolicy="Background")
    fluence.wait_for_state(namespace.name, loser, "bound")
    wait_for(lambda: condition(namespace, loser).get("status") == "True", what="it to be Scheduled")


def test_topology_of_a_pod_group_is_kept_by_both(
    native: None, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    racks = {
        own_nodes(1, prefix=f"n{number}", cpu="1", labels={RACK: rack})[0]: rack
        for number, rack in enumerate("abcabba")
    }
    namespace.create(
        pod_group("three", 3, RACK), deployment("three", grouped(ours("x", cpu="1"), "three"), 3)
    )
    bound = namespace.wait_until_bound(3)
    assert len({racks[node_of(one)] for one in bound}) == 1
    namespace.create(pod_group("four", 4, RACK), deployment("four", grouped(ours("x", cpu="1"), "four"), 4))
    why = "unsatisfiable: no example.com/rack holds 4 x 1 cpu (the largest holds 3, short of cpu)"
    fluence.wait_for_reason(namespace.name, "four", why)


def test_large_pod_group_is_bound_where_it_was_planned(
    native: None, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, history: History
) -> None:
    own_nodes(4, cpu="8")
    namespace.create(pod_group("grid", 32))
    namespace.create(*(grouped(ours(f"grid-{number}", cpu="1"), "grid") for number in range(32)))
    pods = namespace.wait_until_bound(32)
    seen = fluence.wait_for_state(namespace.name, "grid", "bound")
    assert {one["uid"]: one["node"] for one in seen["members"]} == {
        one["metadata"]["uid"]: node_of(one) for one in pods
    }


def test_groups_by_label_and_single_pods_work_as_ever(
    native: None, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(2, cpu="3")
    namespace.create(
        *gang("label", 2, cpu="1"), ours("alone", cpu="1"), indexed_job("job", ours("x", cpu="1"), 2)
    )
    namespace.wait_until_bound(5)
