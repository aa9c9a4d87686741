"""The API server hangs and is away for more than a minute with a gang in flight, and the kinds are seen out of order.

Meanwhile the verbs answer in time and honestly; afterwards everything goes on without a restart of the service.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness import Manifest, Namespace, node_of, pod, start_api_server, wait_for
from tests.e2e.installation import Installation
from tests.e2e.nodes import NodeFactory
from tests.e2e.service import Fluence
from tests.e2e.test_bad_requests import post
from tests.e2e.workloads import gang
from tests.localcluster import ControlPlane
from tests.network.gateway import ApiRequest, Gateway

# CPython leaves a TLS socket open whose peer resets it between connect and handshake (ssl.SSLSocket._create), as an API
# server does that dies; the clients of the test itself meet that.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <ssl.SSLSocket:pytest.PytestUnraisableExceptionWarning"
)

HTTP_TIMEOUT = 30.0
"""How long kube-scheduler waits for an answer."""

HANGS, AWAY = 35.0, 35.0


def stands_still(process: int) -> bool:
    """Whether no thread of the process runs any more: on a busy machine it takes a while until the signal is heeded."""
    threads = Path(f"/proc/{process}/task").glob("*/stat")
    return all(one.read_text().rpartition(")")[2].split()[0] == "T" for one in threads)


def freeze(plane: ControlPlane, name: str) -> int:
    """Stop a component until it gets SIGCONT, and return its process id once it stands still."""
    process = plane.component(name).pid
    assert process is not None
    os.kill(process, signal.SIGSTOP)
    try:
        wait_for(lambda: stands_still(process), what=f"{name} to stand still")
    except BaseException:
        os.kill(process, signal.SIGCONT)
        raise
    return process


@contextmanager
def api_server_gone(plane: ControlPlane) -> Iterator[None]:
    """The API server hangs; at the end of the block it dies, and is away for as long again before it is started."""
    try:
        freeze(plane, "kube-apiserver")
        yield
    finally:
        plane.component("kube-apiserver").kill()
        try:
            time.sleep(AWAY)
        finally:
            start_api_server(plane)


def asked(installation: Installation, verb: str, body: Manifest) -> tuple[float, dict[str, Any]]:
    """After how many seconds a verb answers, and what."""
    began = time.monotonic()
    status, answer = post(installation, verb, json.dumps(body).encode(), HTTP_TIMEOUT)
    assert status == 200, answer
    return time.monotonic() - began, json.loads(answer)


def bindings(members: Sequence[Manifest], places: dict[str, str]) -> list[Manifest]:
    """The bodies of the bind calls that kube-scheduler would send."""
    return [
        {
            "PodName": one["metadata"]["name"],
            "PodNamespace": one["metadata"]["namespace"],
            "PodUID": one["metadata"]["uid"],
            "Node": places[one["metadata"]["name"]],
        }
        for one in members
    ]


def test_outage_of_more_than_a_minute_with_a_gang_in_flight(
    fluence: Fluence,
    namespace: Namespace,
    own_nodes: NodeFactory,
    installation: Installation,
) -> None:
    nodes = own_nodes(3, cpu="4")
    process = installation.stack.extender.pid
    with installation.scheduler_stopped(), ThreadPoolExecutor() as pool:
        members = namespace.create(*gang("planned", 4, cpu="1", filtered=True))
        fluence.wait_for_state(namespace.name, "planned", "committed")
        places = {one["pod"]: one["node"] for one in fluence.allocations(namespace.name)}
        with api_server_gone(installation.plane):
            began = time.monotonic()
            answers = pool.map(lambda body: asked(installation, "bind", body), bindings(members, places))
            for took, answer in answers:
                assert took < HTTP_TIMEOUT - 1
                assert "no answer" in answer["Error"]
            time.sleep(max(0.0, HANGS - (time.monotonic() - began)))

            def told() -> bool:
                took, answer = asked(installation, "filter", {"Pod": members[0], "NodeNames": nodes})
                assert took < HTTP_TIMEOUT - 1
                return "API server has not been reached" in str(answer["Error"])

            wait_for(told, what="the service to say that the API server isn't reached")
            assert not installation.stack.ready()
    namespace.create(*gang("later", 3, cpu="1"), pod("foreign", cpu="1"))
    namespace.bind("foreign", nodes[2])
    namespace.wait_until_bound(8, timeout=180)
    assert installation.stack.extender.pid == process


def pod_watches(request: ApiRequest) -> bool:
    return request.watch and request.path == "/api/v1/pods"


def node_watches(request: ApiRequest) -> bool:
    return request.watch and request.path == "/api/v1/nodes"


def known_nodes(fluence: Fluence) -> set[str]:
    """The nodes in the service's graph."""
    vertices = fluence.get("/v1/graph")["graph"]["nodes"]
    return {one["metadata"]["name"] for one in vertices if one["metadata"]["type"] == "node"}


def test_pods_that_are_seen_after_their_nodes_went_and_came_again(
    gateway: Gateway,
    fluence: Fluence,
    namespace: Namespace,
    own_nodes: NodeFactory,
    installation: Installation,
) -> None:
    first, second = own_nodes(2, cpu="2")
    namespace.create(*gang("old", 2, cpu="1"))
    assert {node_of(one) for one in namespace.wait_until_bound(2)} == {first}
    with gateway.holding(pod_watches):
        namespace.create(pod("foreign", cpu="2"))
        namespace.bind("foreign", second)
        installation.plane.delete_node(first)
        for name in ("old-0", "old-1"):
            namespace.delete_pod(name)
        namespace.create(*gang("new", 2, cpu="1"))
        wait_for(
            lambda: first not in known_nodes(fluence),
            what="the node to go",
            seen=lambda: known_nodes(fluence),
        )
        installation.plane.add_nodes(names=[first], cpu="2")
        wait_for(
            lambda: first in known_nodes(fluence), what="the node to come", seen=lambda: known_nodes(fluence)
        )
    bound = {one["metadata"]["name"]: node_of(one) for one in namespace.wait_until_bound(3)}
    assert bound == {"foreign": second, "new-0": first, "new-1": first}


def test_pods_that_are_seen_on_a_node_before_the_node(
    gateway: Gateway, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="1")
    namespace.create(*gang("waits", 3, cpu="1"))
    fluence.wait_for_reason(namespace.name, "waits", "unsatisfiable: 1 of 3 members")
    with gateway.holding(node_watches):
        (late,) = own_nodes(1, cpu="3", prefix="late", unseen=True)
        namespace.create(pod("foreign", cpu="2"))
        namespace.bind("foreign", late)
        # Pods are seen in order: who knows this one knows of the one before.
        namespace.create(*gang("marker", 1, size=2, cpu="100m"))
        fluence.wait_for_reason(namespace.name, "marker", "waiting for members (1 of 2")
        assert late not in known_nodes(fluence)
    fluence.wait_for_reason(namespace.name, "waits", "busy: 2 of 3 fit now, short of cpu")
    namespace.delete_pod("foreign")
    namespace.wait_until_bound(3)
