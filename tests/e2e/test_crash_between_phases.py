"""A crash after any number of writes of a gang's way to its nodes, and starts in a cluster that lacks something.

The service reaches the API server through a gateway that lets so many changes of pods through and then none; so the
crash falls between planning and binding, and into the middle of the Bindings of direct pods. Filtered pods are
nominated, ungated and bound, and the crash falls between these writes and into the middle of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from fluence_extender.model.names import GATE
from tests.e2e.harness import Manifest, Namespace, node_of, phase_of, wait_for
from tests.e2e.history import History
from tests.e2e.installation import Installation
from tests.e2e.nodes import NodeFactory
from tests.e2e.service import Fluence
from tests.e2e.workloads import ONE_DEVICE, QPU, gang, ours
from tests.localcluster import ControlPlane
from tests.network.gateway import Gateway

MEMBERS = 3
WAYS: dict[str, tuple[int, Manifest]] = {
    "direct": (MEMBERS, {}),
    "filtered": (3 * MEMBERS, {"schedulingGates": [{"name": GATE}]}),
}
"""How many writes it takes to bind a gang in each way, and what the pods have in their specs.

A direct pod needs a Binding, a filtered one a nomination, an ungating and a Binding.
"""


@pytest.mark.parametrize(("way", "writes"), [(way, count) for way in WAYS for count in range(WAYS[way][0])])
def test_crash_after_so_many_writes_completes_the_gang_and_books_nothing_twice(
    way: str,
    writes: int,
    gateway: Gateway,
    fluence: Fluence,
    namespace: Namespace,
    own_nodes: NodeFactory,
    installation: Installation,
    history: History,
) -> None:
    own_nodes(2, cpu="2")
    gateway.allow_pod_writes(writes)
    try:
        namespace.create(*gang("first", MEMBERS, cpu="1", **WAYS[way][1]))

        def stopped() -> bool:
            return gateway.waiting > 0 or sum(1 for pod in namespace.pods() if node_of(pod)) == MEMBERS

        wait_for(stopped, what=f"the gang to come to write number {writes + 1}")
        installation.crash()
        wait_for(lambda: gateway.waiting == 0, what="the writes of the dead to be dropped")
        namespace.create(*gang("rival", MEMBERS, cpu="1"))
    finally:
        gateway.allow_pod_writes(None)
        installation.revive()
    namespace.wait_until_bound(MEMBERS)
    fluence.wait_for_reason(namespace.name, "rival", "busy: 1 of 3 fit now")
    assert fluence.wait_for_state(namespace.name, "first", "bound")["size"] == MEMBERS
    history.wait(MEMBERS)
    assert {name.partition("-")[0] for name in history.names()} == {"first"}


@contextmanager
def nothing_collected(plane: ControlPlane) -> Iterator[None]:
    """While this lasts, pods of nodes that are gone stay: the controller manager collects them after 40 s."""
    plane.component("kube-controller-manager").stop()
    try:
        yield
    finally:
        plane.component("kube-controller-manager").start()


def test_node_that_is_away_at_the_start_comes_back_with_what_runs_there(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, installation: Installation
) -> None:
    first, second = own_nodes(2, cpu="2")
    namespace.create(*gang("stays", 3, cpu="1"))
    places = {pod["metadata"]["name"]: node_of(pod) for pod in namespace.wait_until_bound(3)}
    assert set(places.values()) == {first, second}
    installation.crash()
    with nothing_collected(installation.plane):
        installation.plane.delete_node(first)
        installation.revive()
        namespace.create(*gang("rival", 3, cpu="1"))
        # Not while the node is away, and not when it is back with its pods.
        fluence.wait_for_reason(namespace.name, "rival", "unsatisfiable: 2 of 3 members would fit")
        installation.plane.add_nodes(names=[first], cpu="2")
    fluence.wait_for_reason(namespace.name, "rival", "busy: 1 of 3 fit now, short of cpu")
    held = {one["pod"]: one["node"] for one in fluence.allocations(namespace.name)}
    assert held == places
    assert {pod["metadata"]["name"] for pod in namespace.pods() if node_of(pod)} == set(places)
    for name in ("stays-0", "stays-1"):
        namespace.delete_pod(name)
    namespace.wait_until_bound(4)


def test_device_that_is_away_at_the_start_is_its_holders_when_it_is_back(
    fluence: Fluence,
    namespace: Namespace,
    own_nodes: NodeFactory,
    resources: Callable[[str], None],
    installation: Installation,
) -> None:
    own_nodes(1, cpu="8")
    resources(ONE_DEVICE)
    namespace.create(ours("first", cpu="1", requests={QPU: 1}))
    namespace.wait_for_phase("first", "Running")
    installation.crash()
    resources("")
    installation.revive()
    namespace.create(ours("second", cpu="1", requests={QPU: 1}))
    fluence.wait_for_reason(namespace.name, "second", "no backend: no resource of type qpu")
    resources(ONE_DEVICE)
    fluence.wait_for_reason(namespace.name, "second", "busy: 1 qpu not free")
    namespace.delete_pod("first")
    assert phase_of(namespace.wait_for_phase("second", "Running")) == "Running"


def test_lists_of_the_service_are_quorum_reads(
    gateway: Gateway,
    fluence: Fluence,
    namespace: Namespace,
    own_nodes: NodeFactory,
    installation: Installation,
) -> None:
    own_nodes(1, cpu="1")
    before = len(gateway.requests)
    installation.crash()
    installation.revive()
    lists = [seen for seen in gateway.requests[before:] if seen.method == "GET" and "limit" in seen.query]
    assert {seen.path.rpartition("/")[2] for seen in lists} >= {"nodes", "pods", "jobs", "configmaps"}
    assert not [seen for seen in lists if {"resourceVersion", "resourceVersionMatch"} & seen.query.keys()]
