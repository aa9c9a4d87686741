"""The graph follows the live cluster: nodes come and go, are cordoned and tainted, and others use them too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fluence_extender.cluster.events import CONTROLLER
from tests.e2e.harness import NODE_READY, Manifest, Namespace, node_of, pod, wait_for
from tests.e2e.history import History
from tests.e2e.installation import Installation
from tests.e2e.nodes import NodeFactory
from tests.e2e.service import Fluence
from tests.e2e.workloads import gang, ours
from tests.localcluster import Api, Component

TAINT = {"key": "example.com/maintenance", "effect": "NoSchedule"}


def change_node(api: Api, name: str, **spec: Any) -> None:
    """Merge ``spec`` into a node's."""
    api.patch(f"/api/v1/nodes/{name}", {"spec": spec})


def group_of(pods: Sequence[Manifest]) -> set[str]:
    """The first words of the names of the bound pods."""
    return {one["metadata"]["name"].partition("-")[0] for one in pods if node_of(one)}


def test_node_that_joins_gives_room_to_a_waiting_gang(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="2")
    namespace.create(*gang("wide", 4, cpu="1"))
    reason = "unsatisfiable: 2 of 4 members would fit if nothing else ran, short of cpu"
    fluence.wait_for_reason(namespace.name, "wide", reason)
    (joined,) = own_nodes(1, cpu="2", prefix="joined")
    assert joined in {node_of(one) for one in namespace.wait_until_bound(4)}
    paths = {one["metadata"]["name"] for one in fluence.get("/v1/graph")["graph"]["nodes"]}
    assert joined in paths


def test_node_that_grows_is_used_to_its_new_size(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    (node,) = own_nodes(1, cpu="1")
    namespace.create(ours("first", cpu="1"))
    namespace.wait_for_phase("first", "Running")
    namespace.create(ours("large", cpu="3"))
    fluence.wait_for_reason(namespace.name, "large", "unsatisfiable: no node has 3 cpu")
    grown = {"status": {"allocatable": {"cpu": "4"}, "capacity": {"cpu": "4"}}}
    namespace.api.patch(f"/api/v1/nodes/{node}/status", grown)
    namespace.wait_for_phase("large", "Running")


def test_nothing_lands_on_a_cordoned_node(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, history: History
) -> None:
    cordoned, other = own_nodes(2, cpu="2")
    change_node(namespace.api, cordoned, unschedulable=True)
    fluence.wait_for_problem(cordoned, "cordoned")
    namespace.create(*gang("pair", 2, cpu="1"))
    assert {node_of(one) for one in namespace.wait_until_bound(2)} == {other}
    namespace.create(*gang("waits", 2, cpu="1"))
    # A cordoned node may come back, so the gang isn't called impossible.
    fluence.wait_for_reason(namespace.name, "waits", "busy: 0 of 2 fit now")
    history.wait(2)
    assert group_of(history.first_states()) == {"pair"}
    change_node(namespace.api, cordoned, unschedulable=False)
    namespace.wait_until_bound(4)
    assert {node_of(one) for one in namespace.pods() if one["metadata"]["name"].startswith("waits")} == {
        cordoned
    }


def test_pod_goes_elsewhere_when_a_node_is_tainted_after_the_start(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    tainted, other = own_nodes(2, cpu="2")
    change_node(namespace.api, tainted, taints=[TAINT])
    fluence.wait_for_problem(tainted, "taint example.com/maintenance:NoSchedule")
    namespace.create(ours("alone", cpu="1"), *gang("pair", 1, cpu="1"))
    assert {node_of(one) for one in namespace.wait_until_bound(2)} == {other}
    tolerant = ours("tolerant", cpu="1", tolerations=[{**TAINT, "operator": "Exists"}])
    namespace.create(tolerant, ours("strict", cpu="1"))
    assert node_of(namespace.wait_for_phase("tolerant", "Running")) == tainted
    fluence.wait_for_reason(namespace.name, "strict", "busy")


def test_planned_members_move_when_their_node_is_tainted(
    fluence: Fluence,
    namespace: Namespace,
    own_nodes: NodeFactory,
    installation: Installation,
    history: History,
) -> None:
    first, second, third = own_nodes(3, cpu="2")
    with installation.scheduler_stopped():
        namespace.create(*gang("moves", 4, cpu="1", filtered=True))
        fluence.wait_for_state(namespace.name, "moves", "committed")
        assert {one["node"] for one in fluence.allocations(namespace.name)} == {first, second}
        change_node(namespace.api, first, taints=[TAINT])

        def moved() -> bool:
            held = fluence.allocations(namespace.name)
            return len(held) == 4 and {one["node"] for one in held} == {second, third}

        wait_for(moved, what="the members to move", seen=lambda: fluence.gangs(namespace.name))
    assert {node_of(one) for one in namespace.wait_until_bound(4)} == {second, third}


def test_planned_members_move_when_their_node_is_removed(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, installation: Installation
) -> None:
    first, second = own_nodes(2, cpu="4")
    with installation.scheduler_stopped():
        namespace.create(*gang("moves", 4, cpu="1", filtered=True))
        fluence.wait_for_state(namespace.name, "moves", "committed")
        assert {one["node"] for one in fluence.allocations(namespace.name)} == {first}
        installation.plane.delete_node(first)

        def moved() -> bool:
            held = fluence.allocations(namespace.name)
            return len(held) == 4 and {one["node"] for one in held} == {second}

        wait_for(moved, what="the members to move", seen=lambda: fluence.gangs(namespace.name))
    assert {node_of(one) for one in namespace.wait_until_bound(4)} == {second}


def test_node_that_is_not_ready_is_not_used(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    (broken,) = own_nodes(1, cpu="4", prefix="broken")
    path = f"/api/v1/nodes/{broken}"

    def ready() -> str:
        conditions = namespace.api.get(path)["status"]["conditions"]
        return str(next(one["status"] for one in conditions if one["type"] == "Ready"))

    namespace.api.patch(path, {"metadata": {"annotations": {NODE_READY: "false"}}})
    wait_for(lambda: ready() == "False", what="the node to be NotReady")
    fluence.wait_for_problem(broken, "not ready")
    namespace.create(ours("alone", cpu="1"))
    fluence.wait_for_reason(namespace.name, "alone", "busy")
    namespace.api.patch(path, {"metadata": {"annotations": {NODE_READY: None}}})
    assert node_of(namespace.wait_for_phase("alone", "Running")) == broken


def test_node_selector_and_affinity_of_members_hold(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="8", prefix="plain")
    (fast,) = own_nodes(1, cpu="4", labels={"disk": "fast"}, prefix="fast")
    (slow,) = own_nodes(1, cpu="4", labels={"disk": "slow"}, prefix="slow")
    expression = {"key": "disk", "operator": "In", "values": ["slow"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    namespace.create(
        *gang("pinned", 1, size=2, cpu="1", nodeSelector={"disk": "fast"}),
        *gang("pinned", 1, first=1, size=2, cpu="1", affinity=affinity),
        ours("nowhere", cpu="1", nodeSelector={"disk": "none"}),
    )
    assert [node_of(one) for one in namespace.wait_until_bound(2)] == ["", fast, slow]
    fluence.wait_for_reason(namespace.name, "nowhere", "unsatisfiable: no node may be used")


def test_pods_of_another_scheduler_are_counted_and_their_end_frees_their_room(
    fluence: Fluence,
    namespace: Namespace,
    own_nodes: NodeFactory,
    default_scheduler: Component | None,
    history: History,
) -> None:
    (taken,) = own_nodes(1, cpu="4", prefix="taken")
    namespace.create(pod("foreign", cpu="3"))
    assert node_of(namespace.wait_for_phase("foreign", "Running")) == taken
    namespace.create(ours("waits", cpu="2"))
    fluence.wait_for_reason(namespace.name, "waits", "busy: 0 of 1 fit now, short of cpu")
    (free,) = own_nodes(1, cpu="1", prefix="free")
    namespace.create(ours("small", cpu="1", nodeSelector={"kubernetes.io/hostname": free}))
    assert node_of(namespace.wait_for_phase("small", "Running")) == free
    assert "waits" not in history.names()
    assert {one["pod"] for one in fluence.allocations(namespace.name)} == {"small"}
    namespace.delete_pod("foreign")
    assert node_of(namespace.wait_for_phase("waits", "Running")) == taken


def test_pod_bound_past_every_scheduler_drives_planned_members_away(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, installation: Installation
) -> None:
    first, second = own_nodes(2, cpu="2")
    with installation.scheduler_stopped():
        namespace.create(*gang("moves", 2, cpu="1", filtered=True))
        fluence.wait_for_state(namespace.name, "moves", "committed")
        assert {one["node"] for one in fluence.allocations(namespace.name)} == {first}
        namespace.create(pod("foreign", cpu="2"))
        namespace.bind("foreign", first)

        def moved() -> bool:
            held = fluence.allocations(namespace.name)
            return len(held) == 2 and {one["node"] for one in held} == {second}

        wait_for(moved, what="the members to move", seen=lambda: fluence.gangs(namespace.name))
    bound = namespace.wait_until_bound(3)
    assert [node_of(one) for one in bound] == [first, second, second]


def test_both_schedulers_fill_the_same_nodes_without_overcommitting_them(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, default_scheduler: Component | None
) -> None:
    own_nodes(2, cpu="4")
    # In turn: neither can know what the other is about to bind.
    for number in range(2):
        namespace.create(*(pod(f"default-{number}-{one}", cpu="1") for one in range(2)))
        namespace.wait_until_bound(4 * number + 2)
        namespace.create(*gang(f"ours-{number}", 2, cpu="1"))
        namespace.wait_until_bound(4 * number + 4)
    for one in namespace.pods():
        namespace.wait_for_phase(one["metadata"]["name"], "Running")

    def reporters() -> dict[str, str]:
        path = f"/apis/events.k8s.io/v1/namespaces/{namespace.name}/events"
        events = namespace.api.get(path)["items"]
        return {
            one["regarding"]["name"]: one["reportingController"]
            for one in events
            if one["reason"] == "Scheduled"
        }

    # kube-scheduler reports each pod, and the service where a gang of direct pods runs.
    wait_for(lambda: len(reporters()) == 6, what="the Scheduled events", seen=reporters)
    for name, reporter in reporters().items():
        assert reporter == ("default-scheduler" if name.startswith("default") else CONTROLLER)


def test_pods_of_other_schedulers_are_left_as_they_are(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="4")
    (created,) = namespace.create(
        pod(
            "foreign",
            cpu="1",
            scheduler="somebody-else",
            labels={"fluence.flux-framework.org/group": "g"},
            annotations={"fluence.flux-framework.org/group-size": "1"},
        )
    )
    assert "schedulingGates" not in created["spec"]
    namespace.create(ours("marker", cpu="1"))
    namespace.wait_for_phase("marker", "Running")
    assert namespace.pod("foreign")["metadata"] == created["metadata"]
    assert namespace.pod("foreign")["spec"] == created["spec"]
    assert [one["name"] for one in fluence.gangs(namespace.name)] == ["marker"]
