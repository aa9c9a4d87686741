"""What the state API says is what the cluster is."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.e2e.harness import Cluster, Manifest, Namespace, node_of, pod, start_api_server, wait_for
from tests.e2e.installation import ENGINE, Installation
from tests.e2e.nodes import NodeFactory
from tests.e2e.service import Fluence, discrepancies, over_http
from tests.e2e.workloads import QPU, RESOURCES, gang, ours
from tests.localcluster import ControlPlane
from tests.localcluster.stack import Stack
from tests.unit.http.openapi_check import problems


def children(document: Manifest) -> dict[str, list[Manifest]]:
    """The metadata of each vertex's children, by the containment path of their parent."""
    vertices = {one["id"]: one["metadata"] for one in document["graph"]["nodes"]}
    found: dict[str, list[Manifest]] = {}
    for edge in document["graph"]["edges"]:
        parent = vertices[edge["source"]]["paths"]["containment"]
        found.setdefault(parent, []).append(vertices[edge["target"]])
    return found


def leaves(below: dict[str, list[Manifest]], path: str) -> dict[str, int]:
    """How much of each leaf type hangs on a vertex."""
    counts: Counter[str] = Counter()
    for one in below[path]:
        counts[one["type"]] += one.get("size", 1)
    return dict(counts)


def test_graph_shows_each_node_once_with_what_it_has(
    fluence: Fluence, cluster: Cluster, own_nodes: NodeFactory
) -> None:
    (large,) = own_nodes(
        1, cpu="4", memory="8Gi", prefix="large", labels={"topology.kubernetes.io/zone": "z1"}
    )
    (gpus,) = own_nodes(1, cpu="2", memory="3Gi", prefix="gpus", extended={"nvidia.com/gpu": 2})

    def joined() -> dict[str, list[Manifest]] | None:
        below = children(fluence.get("/v1/graph"))
        names = [one["name"] for found in below.values() for one in found if one["type"] == "node"]
        return below if sorted(names) == sorted(cluster.nodes()) else None

    below = wait_for(joined, what="the nodes to be in the graph")
    assert below is not None
    assert leaves(below, f"/cluster/zone=z1/{large}") == {"core": 4, "memory": 8}
    assert leaves(below, f"/cluster/{gpus}") == {"core": 2, "memory": 3, "gpu": 2}


def test_gang_is_found_by_its_name(fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory) -> None:
    own_nodes(1, cpu="2")
    namespace.create(*gang("pair", 2, cpu="1"))
    pods = namespace.wait_until_bound(2)
    fluence.wait_for_state(namespace.name, "pair", "bound")
    found = fluence.get(f"/v1/gangs/{namespace.name}/pair")
    assert (found["state"], found["reason"], found["size"]) == ("bound", "", 2)
    assert found["members"] == [
        {
            "pod": one["metadata"]["name"],
            "uid": one["metadata"]["uid"],
            "node": node_of(one),
            "backend": "",
            "run": "",
            "ended": False,
            "failed": False,
        }
        for one in pods
    ]
    assert found["created"] == min(one["metadata"]["creationTimestamp"] for one in pods)
    assert found["asks"] == [{"members": 2, "requests": {"cpu": 1, "pods": 1}, "devices": {}, "requires": {}}]
    with pytest.raises(urllib.error.HTTPError) as missing:
        fluence.get(f"/v1/gangs/{namespace.name}/nobody")
    with missing.value as answer:
        assert answer.code == 404


def test_life_of_a_gang_is_told_with_its_times(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    (node,) = own_nodes(1, cpu="2")
    began = datetime.now(UTC) - timedelta(seconds=2)
    namespace.create(*gang("pair", 1, size=2, cpu="1", filtered=True))
    fluence.wait_for_reason(namespace.name, "pair", "waiting for members (1 of 2 exist)")
    namespace.create(*gang("pair", 1, first=1, size=2, cpu="1", filtered=True))
    fluence.wait_for_state(namespace.name, "pair", "bound")
    history = fluence.get(f"/v1/gangs/{namespace.name}/pair")["history"]
    times = [datetime.fromisoformat(one["at"]) for one in history]
    assert times == sorted(times)
    assert began < times[0] <= times[-1] < datetime.now(UTC) + timedelta(seconds=2)
    told = [(one["what"], one["pod"]) for one in history]
    for what in ("seen", "steered", "filtered", "bound"):
        assert {pod for happened, pod in told if happened == what} == {"pair-0", "pair-1"}, (what, told)
    turns = [what for what, pod in told if not pod]
    assert turns == ["waiting", "whole", "planned", "committed", "complete"]
    assert {one["detail"] for one in history if one["what"] == "bound"} == {f"to {node}"}
    for number in range(2):
        namespace.delete_pod(f"pair-{number}")
    wait_for(lambda: not fluence.gangs(namespace.name), what="the gang to go")
    gone = fluence.get(f"/v1/gangs/{namespace.name}/pair")
    assert gone["state"] == "gone"
    ends = [one["what"] for one in gone["history"]][len(history) :]
    assert (ends.count("released"), ends[-1]) == (2, "gone")
    assert [one["name"] for one in fluence.items(f"/v1/gangs?namespace={namespace.name}&gone=true")] == [
        "pair"
    ]


def test_nodes_say_who_uses_them_and_why_they_are_closed(
    fluence: Fluence, cluster: Cluster, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    (name,) = own_nodes(1, cpu="4", memory="8Gi", labels={"topology.kubernetes.io/zone": "z1"})
    namespace.create(ours("mine", cpu="1500m", memory="1Gi"), pod("theirs", cpu="250m", memory="2Gi"))
    namespace.bind("theirs", name)
    namespace.wait_until_bound(2)
    fluence.wait_for_state(namespace.name, "mine", "bound")

    def shown() -> Manifest | None:
        found: Manifest = fluence.get(f"/v1/nodes/{name}")
        return found if len(found["pods"]) == 2 else None

    found = wait_for(shown, what="the node to be used by two pods")
    assert found is not None
    gib = 2**30
    assert (found["schedulable"], found["problems"], found["levels"]) == (True, [], {"zone": "z1"})
    assert (found["held"]["cpu"], found["others"]["cpu"], found["free"]["cpu"]) == (1.5, 0.25, 2.25)
    assert (found["held"]["memory"], found["others"]["memory"]) == (gib, 2 * gib)
    assert found["free"]["memory"] == found["allocatable"]["memory"] - 3 * gib
    assert [(one["pod"], one["claim"]) for one in found["pods"]] == [("mine", "bound"), ("theirs", "other")]
    (listed,) = fluence.items("/v1/nodes")
    assert {key: found[key] for key in listed} == listed
    cluster.api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}})
    closed = wait_for(lambda: fluence.items("/v1/nodes?schedulable=false"), what="the node to be cordoned")
    assert closed[0]["problems"] == ["cordoned"]


def test_devices_say_what_they_are_and_who_holds_them(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, resources: Callable[[str], None]
) -> None:
    own_nodes(1, cpu="4")
    resources(RESOURCES)
    wait_for(lambda: len(fluence.items("/v1/backends?usable=true")) == 2, what="the devices to be there")
    namespace.create(ours("task", cpu="1", requests={QPU: 1}))
    namespace.wait_until_bound(1)
    found = {one["backend"]: one for one in fluence.items("/v1/backends")}
    assert found["ibm_fez"]["attributes"] == {"vendor": "ibm", "region": "us-east"}
    assert found["rigetti_ankaa"]["attributes"] == {"vendor": "rigetti", "region": "us-west-1"}
    (taken,) = [one for one in found.values() if one["held"]]
    assert (taken["total"], taken["free"], taken["type"]) == (1, 0, "qpu")
    assert [(one["namespace"], one["pod"]) for one in taken["holders"]] == [(namespace.name, "task")]
    (allocation,) = fluence.allocations(namespace.name)
    assert allocation["backend"] == taken["backend"]


def test_lists_and_tags_work_over_the_wire(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, installation: Installation
) -> None:
    own_nodes(1, cpu="8")
    namespace.create(*(ours(f"p{number}", cpu="500m") for number in range(5)))
    namespace.wait_until_bound(5)
    for number in range(5):
        fluence.wait_for_state(namespace.name, f"p{number}", "bound")
    listed = fluence.get(f"/v1/gangs?namespace={namespace.name}")
    assert [one["name"] for one in listed["items"]] == [f"p{number}" for number in range(5)]
    assert listed["metadata"] == {"leading": True}

    def unchanged() -> bool:
        url = f"{installation.stack.api_url}/v1/gangs"
        with urllib.request.urlopen(url, timeout=60) as answer:
            tag, leading = answer.headers["ETag"], answer.headers["Fluence-Leading"]
            answer.read()
        assert leading == "true"
        try:
            again = urllib.request.Request(url, headers={"If-None-Match": tag})
            with urllib.request.urlopen(again, timeout=60) as answer:
                return not answer.read()
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code == 304

    # Something may have changed between the two.
    wait_for(unchanged, what="nothing to have changed since")


def test_replica_that_stands_by_answers_from_what_it_sees_and_says_so(
    fluence: Fluence,
    namespace: Namespace,
    own_nodes: NodeFactory,
    installation: Installation,
    control_plane: ControlPlane,
) -> None:
    (name,) = own_nodes(1, cpu="4")
    namespace.create(*gang("pair", 2, cpu="1"))
    fluence.wait_for_state(namespace.name, "pair", "bound")
    beside = Stack(
        control_plane,
        kubeconfig=installation.kubeconfig,
        arguments=("--engine", ENGINE),
        hostname="standby",
        lease="fluence-system/fluence",
    )
    beside.extender.start()
    try:
        standby = Fluence(over_http(lambda: beside.api_url))
        assert standby.get("/v1/gangs")["metadata"]["leading"] is False
        (seen,) = standby.gangs(namespace.name)
        assert (seen["state"], {member["node"] for member in seen["members"]}) == ("bound", {name})
        assert standby.items("/v1/nodes") == fluence.items("/v1/nodes")
        assert sorted(map(str, standby.allocations())) == sorted(map(str, fluence.allocations()))
        story = standby.get(f"/v1/gangs/{namespace.name}/pair")
        assert story["leading"] is False
        assert "taken-over" in [one["what"] for one in story["history"]]
        with urllib.request.urlopen(f"{beside.api_url}/v1/graph", timeout=60) as answer:
            assert answer.headers["Fluence-Leading"] == "false"
            assert len(children(json.load(answer))[f"/cluster/{name}"]) == 2
        namespace.delete_pod("pair-1")
        wait_for(lambda: len(standby.allocations(namespace.name)) == 1, what="the standby to follow")
    finally:
        beside.extender.stop()


def test_answers_are_as_the_openapi_document_says(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, resources: Callable[[str], None]
) -> None:
    (name,) = own_nodes(1, cpu="4")
    resources(RESOURCES)
    wait_for(lambda: len(fluence.items("/v1/backends")) == 2, what="the devices to be there")
    namespace.create(
        *gang("pair", 2, cpu="1"), ours("task", cpu="1", requests={QPU: 1}), ours("huge", cpu="64")
    )
    namespace.wait_until_bound(3)
    fluence.wait_for_reason(namespace.name, "huge", "unsatisfiable")
    document = fluence.get("/openapi.json")
    for path in (
        "/v1/gangs",
        "/v1/allocations",
        "/v1/nodes",
        "/v1/backends",
        "/v1/graph",
        f"/v1/nodes/{name}",
        *(f"/v1/gangs/{namespace.name}/{one}" for one in ("pair", "task", "huge")),
    ):
        assert problems(document, path, 200, fluence.get(path)) == []


def test_metrics_count_what_the_documents_show(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="2")
    bound_before = fluence.metric("fluence_extender_answers_total", verb="bind", outcome="bound")
    namespace.create(*gang("pair", 2, cpu="1", filtered=True), *gang("waits", 1, size=2, cpu="1"))
    fluence.wait_for_state(namespace.name, "pair", "bound")
    fluence.wait_for_reason(namespace.name, "waits", "waiting for members")

    def counted() -> bool:
        states = Counter(one["state"] for one in fluence.gangs())
        return all(
            fluence.metric("fluence_extender_gangs", state=state) == states[state]
            for state in ("waiting", "planned", "committed", "bound", "finished")
        )

    wait_for(counted, what="the gangs to be counted")
    assert fluence.metric("fluence_extender_allocations") == len(fluence.allocations()) == 2
    assert fluence.metric("fluence_extender_ready") == 1
    assert fluence.metric("fluence_extender_answers_total", verb="bind", outcome="bound") == bound_before + 2


def test_probes_and_openapi_answer(fluence: Fluence) -> None:
    assert fluence.text("/healthz") == "ok\n"
    assert fluence.text("/readyz") == "ok\n"
    document: dict[str, Any] = fluence.get("/openapi.json")
    assert {"/v1/gangs", "/v1/allocations", "/v1/graph"} <= set(document["paths"])


def test_service_goes_on_after_a_restart_of_the_api_server(
    fluence: Fluence,
    cluster: Cluster,
    namespace: Namespace,
    own_nodes: NodeFactory,
    installation: Installation,
) -> None:
    own_nodes(1, cpu="4")
    namespace.create(*gang("before", 2, cpu="1"), ours("gone", cpu="2"))
    namespace.wait_until_bound(3)
    plane = installation.plane
    plane.component("kube-apiserver").stop()
    start_api_server(plane)
    namespace.delete_pod("gone")
    namespace.create_in_the_end(*gang("after", 2, cpu="1"))
    namespace.wait_until_bound(4)
    wait_for(lambda: not discrepancies(cluster, fluence), what="the ledger to agree with the cluster")
