"""Ledger and cluster agree while nodes, requests and claims change and other schedulers race with ours."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import pytest

from fluence_extender.room.audit import DriftKind
from tests.e2e.harness import Cluster, Namespace, node_of, phase_of, pod, wait_for
from tests.e2e.history import History
from tests.e2e.installation import Installation
from tests.e2e.nodes import NodeFactory
from tests.e2e.service import Fluence
from tests.e2e.workloads import gang, ours
from tests.localcluster import Component

RACERS = int(os.environ.get("FLUENCE_RACERS", "200"))
"""Pods of each of two schedulers that race for the same nodes; FLUENCE_RACERS=1000 for a long run."""


def core_of(fluence: Fluence, namespace: Namespace) -> dict[str, float]:
    """The cores that each pod holds."""
    return {one["pod"]: one["core"] for one in fluence.allocations(namespace.name)}


def change_allocatable(namespace: Namespace, node: str, **amounts: str | None) -> None:
    """Change what a node offers, as its kubelet would."""
    body = {"status": {"allocatable": amounts}}
    namespace.api.patch(f"/api/v1/nodes/{node}/status", body)


def test_allocatable_cut_below_what_runs_evicts_nobody_and_takes_nothing_new(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, history: History
) -> None:
    (node,) = own_nodes(1, cpu="4")
    namespace.create(*gang("runs", 3, cpu="1"))
    namespace.wait_until_bound(3)
    change_allocatable(namespace, node, cpu="2")
    wait_for(lambda: fluence.get(f"/v1/nodes/{node}")["allocatable"]["cpu"] == 2, what="the cut to be known")
    namespace.create(ours("waits", cpu="100m"))
    fluence.wait_for_reason(namespace.name, "waits", "busy: 0 of 1 fit now")
    assert len(core_of(fluence, namespace)) == 3
    change_allocatable(namespace, node, cpu="4")
    namespace.wait_until_bound(4)
    history.wait(4)
    assert len(history.names()) == 4


@pytest.mark.parametrize(
    "amounts", [{"cpu": "0"}, {"cpu": None, "memory": None}, {"memory": "8E", "cpu": "9E"}]
)
def test_node_with_absurd_allocatable_spoils_nothing(
    amounts: dict[str, str | None], fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    mad, good = own_nodes(2, cpu="4")
    change_allocatable(namespace, mad, **amounts)
    labels = {f"example.com/label-{number}": "x" for number in range(10_000)}
    namespace.api.patch(
        f"/api/v1/nodes/{mad}", {"metadata": {"labels": labels}, "spec": {"unschedulable": True}}
    )
    fluence.wait_for_problem(mad, "cordoned")
    namespace.create(*gang("g", 4, cpu="1"))
    assert {node_of(one) for one in namespace.wait_until_bound(4)} == {good}


def test_node_that_moves_to_another_zone_keeps_what_runs_there(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    zone = "topology.kubernetes.io/zone"
    (node,) = own_nodes(1, cpu="4", labels={zone: "a"})
    namespace.create(*gang("g", 2, cpu="1"))
    fluence.wait_for_state(namespace.name, "g", "bound")
    before = fluence.allocations(namespace.name)
    namespace.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {zone: "b"}}})

    def moved() -> bool:
        vertices = fluence.get("/v1/graph")["graph"]["nodes"]
        return any(one["metadata"]["paths"]["containment"] == f"/cluster/zone=b/{node}" for one in vertices)

    wait_for(moved, what="the node to be in zone b")
    assert fluence.allocations(namespace.name) == before
    namespace.create(ours("two", cpu="2"))
    namespace.wait_until_bound(3)
    namespace.create(ours("three", cpu="1"))
    fluence.wait_for_reason(namespace.name, "three", "busy")


def test_resize_in_place_is_counted_when_it_is_asked_for(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="4")
    namespace.create(ours("grows", cpu="1"))
    path = f"/api/v1/namespaces/{namespace.name}/pods/grows"
    status = namespace.wait_for_phase("grows", "Running")["status"]["containerStatuses"]
    given = {"resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "1"}}
    namespace.api.patch(f"{path}/status", {"status": {"containerStatuses": [{**status[0], **given}]}})
    wanted: list[dict[str, Any]] = [{"name": "main", "resources": {"requests": {"cpu": "3"}}}]
    grown = namespace.pod("grows")["spec"]["containers"][0]
    wanted = [{**grown, "resources": {"requests": {"cpu": "3"}}}]
    namespace.api.patch(f"{path}/resize", {"spec": {"containers": wanted}})
    wait_for(lambda: core_of(fluence, namespace) == {"grows": 3.0}, what="the resize to be counted")
    namespace.create(ours("waits", cpu="2"))
    fluence.wait_for_reason(namespace.name, "waits", "busy: 0 of 1 fit now, short of cpu")
    shrunk = [{**grown, "resources": {"requests": {"cpu": "1"}}}]
    namespace.api.patch(f"{path}/resize", {"spec": {"containers": shrunk}})
    namespace.wait_until_bound(2)


def test_gang_with_a_member_that_lacks_its_claim_gives_its_share_back(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="2")
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}
    namespace.create(
        *gang("lacks", 1, size=2, cpu="1"), *gang("lacks", 1, first=1, size=2, cpu="1", volumes=[volume])
    )
    fluence.wait_for_state(namespace.name, "lacks", "committed")
    namespace.create(*gang("rival", 2, cpu="1"))
    bound = namespace.wait_until_bound(2, 300)
    assert {one["metadata"]["name"].partition("-")[0] for one in bound if node_of(one)} == {"rival"}


def test_two_schedulers_race_for_the_same_nodes(
    fluence: Fluence,
    namespace: Namespace,
    own_nodes: NodeFactory,
    default_scheduler: Component | None,
    cluster: Cluster,
    request: pytest.FixtureRequest,
) -> None:
    count = RACERS // 20
    nodes = own_nodes(count, cpu="50", pods="110")
    before = len(cluster.judge.violations)
    for number in range(RACERS // 4):
        members = [pod(f"theirs-{number}-{one}", cpu="1") for one in range(4)]
        namespace.create(*members, *gang(f"ours{number}", 4, cpu="1"))

    def settled() -> bool:
        return all(phase_of(one) in ("Running", "Failed") for one in namespace.pods())

    wait_for(
        settled, 120 + RACERS, "all racers to be bound", lambda: Counter(map(phase_of, namespace.pods()))
    )
    assert cluster.judge.settle()
    lost = len(cluster.judge.violations) - before
    if lost:
        # Two Bindings in the same instant: kubelet refuses the second pod, and says so.
        request.node.add_marker("overcommits")
    failed = [one for one in namespace.pods() if phase_of(one) == "Failed"]
    assert len(failed) == lost
    used = Counter(node_of(one) for one in namespace.pods() if phase_of(one) == "Running")
    assert set(used) <= set(nodes)
    assert max(used.values()) <= 50


def test_audit_finds_nothing_after_a_restart_in_the_midst_of_all_this(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, installation: Installation
) -> None:
    own_nodes(2, cpu="4")
    with installation.other("--audit-every", "1"):
        namespace.create(*gang("first", 4, cpu="1"), pod("foreign", cpu="1"))
        namespace.wait_until_bound(4)
        installation.crash()
        namespace.delete_pod("first-0")
        namespace.create(*gang("second", 2, cpu="1"))
        installation.revive()
        namespace.wait_until_bound(5)
        audits = [fluence.metric("fluence_audits_total")]
        wait_for(lambda: fluence.metric("fluence_audits_total") >= audits[0] + 3, what="three more audits")
        for kind in DriftKind:
            assert fluence.metric("fluence_drift_total", kind=str(kind)) == 0, kind
