"""The service finds exactly those nodes for a pod that a node alone decides which kube-scheduler's filters pass."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from fluence_extender.cluster.decode.node import decode_node
from fluence_extender.cluster.decode.pod import decode_pod
from fluence_extender.cluster.port import Listed
from fluence_extender.gangs.controller import Controller
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.objects.queues import Namespace, read_namespace
from fluence_extender.placement.chooser import FirstFit
from fluence_extender.placement.demand import Demand
from fluence_extender.placement.matching import Matching
from fluence_extender.placement.search import capacity
from tests.core.engine import EMBEDDED
from tests.e2e.conftest import empty
from tests.e2e.harness import Manifest
from tests.e2e.verdicts import REFUSALS, Draw, stock_filters, wait_until_judged
from tests.localcluster import ControlPlane
from tests.localcluster.nodes import create_nodes

NODES, PODS, OLD = 100, 150, 2
ENOUGH = 10_000


def fits_beside(pod: Pod, node: Node, there: list[Pod]) -> bool:
    """Return whether a node takes one more of the pods that are there from the beginning."""
    used = Counter[str]()
    for one in (*there, pod):
        used.update(one.requests)
    ports = [(port.port, port.protocol) for one in (*there, pod) for port in one.host_ports if port.port]
    return len(ports) == len(set(ports)) and all(
        amount <= node.allocatable[key] for key, amount in used.items()
    )


def populate(plane: ControlPlane, draw: Draw) -> None:
    """Create nodes, and pods that have nodes, some of which have ended."""
    api = plane.api
    for name in draw.namespaces:
        api.create(draw.namespace(name))
    manifests = [draw.node(number) for number in range(NODES)]
    create_nodes(api, manifests, 120)
    old: list[Manifest] = []
    there: dict[str, list[Pod]] = {}
    for number in range(OLD * NODES):
        where = manifests[number % NODES]
        name = where["metadata"]["name"]
        made = draw.existing(number, name)
        pod = decode_pod(json.dumps(made).encode())
        if fits_beside(pod, decode_node(json.dumps(where).encode()), there.setdefault(name, [])):
            there[name].append(pod)
            old.append(made)
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(api.create, old))
    for made in old[:: NODES // 10]:
        api.patch(f"{api.path_of(made)}/status", {"status": {"phase": "Succeeded"}})


def own_verdicts(plane: ControlPlane, uids: Mapping[str, object]) -> dict[str, frozenset[str]]:
    """Return by uid the nodes on which the service would place each pod by itself."""

    def listed(path: str) -> list[bytes]:
        return [json.dumps(one).encode() for one in plane.api.get(path)["items"]]

    pods = [decode_pod(raw) for raw in listed("/api/v1/pods")]
    controller = Controller(EMBEDDED.ledger())
    controller.observe(Listed(Namespace, tuple(map(read_namespace, listed("/api/v1/namespaces")))))
    controller.observe(Listed(Node, tuple(map(decode_node, listed("/api/v1/nodes")))))
    controller.observe(Listed(Pod, tuple(pod for pod in pods if pod.uid not in uids)))
    controller.start()
    ledger = controller.ledger
    matching = Matching(controller.eligibility, lambda name: (name,), FirstFit())
    everything = ledger.room()
    found = {}
    for pod in pods:
        if pod.uid in uids:
            ((shape, _),) = matching.groups(everything, (Demand(pod),))
            room = capacity(shape, everything.free)
            found[pod.uid] = frozenset(name for name, count in zip(shape.nodes, room, strict=True) if count)
    return found


@pytest.fixture
def drawn(control_plane: ControlPlane) -> Iterator[Draw]:
    """Random nodes and pods in a cluster without others."""
    seed = time.time_ns() % 10**6
    print(f"seed {seed}")
    draw = Draw(seed, f"v{seed}")
    try:
        populate(control_plane, draw)
        yield draw
    finally:
        for name in draw.namespaces:
            empty(control_plane.api, name)
        control_plane.delete_node(*(f"{draw.prefix}-{number}" for number in range(NODES)))


def test_service_and_kube_scheduler_pass_the_same_nodes(control_plane: ControlPlane, drawn: Draw) -> None:
    api = control_plane.api
    with stock_filters(control_plane) as offered:
        new = [drawn.new(number) for number in range(PODS)]
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(api.create, new))
        told = wait_until_judged(api, drawn.namespaces)
        theirs = {uid: offered.nodes.get(uid, frozenset()) for uid in told}
    ours = own_verdicts(control_plane, theirs)
    assert len(theirs) * NODES >= ENOUGH
    only_theirs = {uid: (nodes - ours[uid], told[uid]) for uid, nodes in theirs.items() if nodes - ours[uid]}
    only_ours = {uid: (ours[uid] - nodes, told[uid]) for uid, nodes in theirs.items() if ours[uid] - nodes}
    assert (only_theirs, only_ours) == ({}, {})
    assert [one for one in REFUSALS if not any(one in text for text in told.values())] == []
    passed = sum(map(len, theirs.values()))
    assert 0.05 < passed / (len(theirs) * NODES) < 0.95
