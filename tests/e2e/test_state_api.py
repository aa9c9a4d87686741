"""What the state API says is what the cluster is."""

from __future__ import annotations

import urllib.error
from collections import Counter
from typing import Any

import pytest

from tests.e2e.harness import Cluster, Manifest, Namespace, node_of, wait_for
from tests.e2e.installation import Installation
from tests.e2e.nodes import NodeFactory
from tests.e2e.service import Fluence, discrepancies
from tests.e2e.workloads import gang, ours


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


@pytest.mark.parametrize("expand", [False, True])
def test_graph_shows_each_node_once_with_what_it_has(
    expand: bool, fluence: Fluence, cluster: Cluster, own_nodes: NodeFactory
) -> None:
    (large,) = own_nodes(
        1, cpu="4", memory="8Gi", prefix="large", labels={"topology.kubernetes.io/zone": "z1"}
    )
    (gpus,) = own_nodes(1, cpu="2", memory="3Gi", prefix="gpus", extended={"nvidia.com/gpu": 2})

    def joined() -> dict[str, list[Manifest]] | None:
        below = children(fluence.get(f"/v1/graph?expand={str(expand).lower()}"))
        names = [one["name"] for found in below.values() for one in found if one["type"] == "node"]
        return below if sorted(names) == sorted(cluster.nodes()) else None

    below = wait_for(joined, 10, "the nodes to be in the graph")
    assert below is not None
    assert leaves(below, f"/cluster/zone=z1/{large}") == {"core": 4, "memory": 8}
    assert leaves(below, f"/cluster/{gpus}") == {"core": 2, "memory": 3, "gpu": 2}
    assert all("size" not in one for found in below.values() for one in found) or not expand


def test_gang_is_found_by_its_name(fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory) -> None:
    own_nodes(1, cpu="2")
    namespace.create(*gang("pair", 2, cpu="1"))
    pods = namespace.wait_until_bound(2)
    fluence.wait_for_state(namespace.name, "pair", "bound")
    assert fluence.get(f"/v1/gangs/{namespace.name}/pair") == {
        "namespace": namespace.name,
        "name": "pair",
        "state": "bound",
        "reason": "",
        "size": 2,
        "members": [
            {
                "pod": one["metadata"]["name"],
                "uid": one["metadata"]["uid"],
                "node": node_of(one),
                "backend": "",
            }
            for one in pods
        ],
    }
    with pytest.raises(urllib.error.HTTPError) as missing:
        fluence.get(f"/v1/gangs/{namespace.name}/nobody")
    with missing.value as answer:
        assert answer.code == 404


def test_metrics_count_what_the_documents_show(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="2")
    bound_before = fluence.metric("fluence_extender_answers_total", verb="bind", outcome="bound")
    namespace.create(*gang("pair", 2, cpu="1"), *gang("waits", 1, size=2, cpu="1"))
    fluence.wait_for_state(namespace.name, "pair", "bound")
    fluence.wait_for_reason(namespace.name, "waits", "waiting for members")
    states = Counter(one["state"] for one in fluence.gangs())
    for state in ("waiting", "planned", "committed", "bound", "finished"):
        assert fluence.metric("fluence_extender_gangs", state=state) == states[state]
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
    plane.stop_apiserver()
    plane.start_apiserver()
    wait_for(lambda: namespace.delete_pod("gone") is None, 20, "the API server to take writes")
    wait_for(lambda: namespace.create(*gang("after", 2, cpu="1")), 20, "the API server to take writes")
    namespace.wait_until_bound(4, timeout=60)
    wait_for(lambda: not discrepancies(cluster, fluence), 30, "the books to agree with the cluster")
