"""The queue on a real control plane: gangs start in their order, and a wide one isn't delayed by those behind it."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest

from fluence_extender.model.names import DURATION_ANNOTATION, QUEUE_LABEL
from tests.core import manifests
from tests.e2e.harness import Manifest, Namespace, node_of, wait_for
from tests.e2e.installation import Installation
from tests.e2e.nodes import NodeFactory
from tests.e2e.operators import written
from tests.e2e.service import Fluence
from tests.e2e.test_conventions import member
from tests.e2e.test_owner_sizes import replicated
from tests.e2e.workloads import gang

BEHIND = "behind a reservation"


def timed(name: str, count: int, duration: str) -> list[Manifest]:
    """A gang of pods that fill a node each, and declare how long they run."""
    members = gang(name, count, cpu="2")
    for one in members:
        one["metadata"]["annotations"][DURATION_ANNOTATION] = duration
    return members


def test_equal_gangs_start_in_the_order_of_their_creation(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="2")
    names = ["full", "a", "b", "c"]
    for name in names:
        namespace.create(*gang(name, 1, cpu="2"))
        if name == "full":
            namespace.wait_for_phase("full-0", "Running")
        else:
            fluence.wait_for_reason(namespace.name, name, "busy")
    for ended, following in pairwise(names):
        namespace.delete_pod(f"{ended}-0")
        namespace.wait_for_phase(f"{following}-0", "Running")
        later = names[names.index(following) + 1 :]
        assert [node_of(namespace.pod(f"{name}-0")) for name in later] == [""] * len(later)


def waits_its_turn(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, *work: Manifest, pods: int
) -> None:
    """Assert that work of the default queue waits with pods for its room, and starts before what is later."""
    own_nodes(1, cpu=str(pods))
    namespace.create(*gang("full", 1, cpu=str(pods)))
    namespace.wait_for_phase("full-0", "Running")
    namespace.create(*work)

    def line() -> list[Manifest]:
        return [one for one in fluence.items("/v1/queue") if one["namespace"] == namespace.name]

    wait_for(lambda: [one["queue"] for one in line()] == ["default"], what="it to be in line", seen=line)
    namespace.create(*gang("later", 1, cpu="1"))
    wait_for(lambda: len(line()) == 2, what="the later gang to be in line", seen=line)
    assert line()[1]["name"] == "later"
    mine = [one for one in namespace.pods() if not one["metadata"]["name"].startswith(("full", "later"))]
    assert [node_of(one) for one in mine] == [""] * pods
    namespace.delete_pod("full-0")
    for one in mine:
        namespace.wait_for_phase(one["metadata"]["name"], "Running")
    assert not node_of(namespace.pod("later-0"))


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet"])
def test_workload_of_a_queue_that_has_pods_waits_at_the_gate(
    kind: str, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    made = replicated(kind, "web", 2)
    made["spec"]["template"]["metadata"]["labels"][QUEUE_LABEL] = "default"
    waits_its_turn(fluence, namespace, own_nodes, made, pods=2)


def test_group_of_a_leader_worker_set_of_a_queue_waits_at_the_gate(
    operators: None, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    made = written("LeaderWorkerSet", "vllm", labels={QUEUE_LABEL: "default"}, startupPolicy="LeaderCreated")
    pods = (member(manifests.leader_worker_pod("vllm", 0, worker, 2)) for worker in range(2))
    waits_its_turn(fluence, namespace, own_nodes, made, *pods, pods=2)


def test_short_gang_overtakes_a_wide_one_and_a_long_one_waits_also_after_a_restart(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, installation: Installation
) -> None:
    own_nodes(2, cpu="2")
    namespace.create(*timed("runs", 1, "60m"))
    namespace.wait_for_phase("runs-0", "Running")
    namespace.create(*timed("wide", 2, "10m"))
    fluence.wait_for_reason(namespace.name, "wide", "busy")
    # After a restart, names order what was submitted in the same second.
    time.sleep(1.1)
    namespace.create(*timed("long", 1, "3h"))
    fluence.wait_for_reason(namespace.name, "long", BEHIND)
    before = fluence.gang(namespace.name, "wide")
    assert before is not None
    assert before["expected_start"]

    installation.crash()
    installation.revive()
    fluence.wait_for_reason(namespace.name, "long", BEHIND)
    after = fluence.gang(namespace.name, "wide")
    assert after is not None
    assert after["expected_start"] == before["expected_start"]

    namespace.create(*timed("short", 1, "5m"))
    namespace.wait_for_phase("short-0", "Running")
    assert node_of(namespace.pod("long-0")) == ""
    namespace.delete_pod("short-0")
    namespace.delete_pod("runs-0")
    for name in ("wide-0", "wide-1"):
        namespace.wait_for_phase(name, "Running")
    assert node_of(namespace.pod("long-0")) == ""
