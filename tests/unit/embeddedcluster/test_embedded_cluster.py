"""What the embedded cluster does for other clients and kubelets, beyond the port."""

from __future__ import annotations

import pytest

from fluence_extender.cluster.errors import ClusterError, Denied, Disrupted, Gone
from fluence_extender.cluster.port import (
    WATCHED,
    Changed,
    Deleted,
    Listed,
    Observation,
    Regarding,
    ResourcesFile,
)
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from tests.core.faulty_cluster import FaultyCluster

POD = Pod("ns", "p", "u1")


def test_sink_is_told_lists_first_and_then_changes() -> None:
    seen: list[Observation] = []
    cluster = FaultyCluster(Node("n1"), POD)
    cluster.watch(seen.append)
    assert [one.kind for one in seen] == list(WATCHED)
    assert all(isinstance(one, Listed) for one in seen)
    cluster.put(Node("n2"))
    cluster.remove(Node("n1"))
    assert seen[-2:] == [Changed(Node("n2")), Deleted(Node("n1"))]


def test_absent_resources_file_is_one_without_text() -> None:
    seen: list[Observation] = []
    cluster = FaultyCluster()
    cluster.watch(seen.append)
    first = seen.copy()
    cluster.put(ResourcesFile("memory", "a: 1"))
    cluster.remove(ResourcesFile("memory", None))
    assert first[-1] == Listed(ResourcesFile, (ResourcesFile("memory", None),))
    assert seen[-1] == Changed(ResourcesFile("memory", None))


async def test_held_observations_are_delivered_when_asked() -> None:
    seen: list[Observation] = []
    cluster = FaultyCluster(POD)
    cluster.watch(seen.append)
    seen.clear()
    cluster.held = True
    await cluster.bind(POD, "n1", {})
    cluster.put(Node("n1"))
    assert seen == []
    cluster.deliver(1)
    assert [one.kind for one in seen] == [Pod]
    cluster.deliver()
    assert [one.kind for one in seen] == [Pod, Node]
    cluster.relist(Node)
    cluster.deliver()
    assert seen[-1] == Listed(Node, (Node("n1"),))


async def test_verbs_fail_on_demand_and_only_as_often() -> None:
    cluster = FaultyCluster(POD)
    cluster.fail("bind")
    cluster.fail("bind", Denied("no right", 403))
    with pytest.raises(ClusterError, match="no answer"):
        await cluster.bind(POD, "n1", {})
    with pytest.raises(Denied):
        await cluster.bind(POD, "n1", {})
    await cluster.bind(POD, "n1", {})
    assert cluster.calls == [("bind", "ns/p")] * 3


async def test_evicted_pod_stays_until_its_kubelet_ended_it() -> None:
    cluster = FaultyCluster(Pod("ns", "p", "u1", node="n1", phase="Running"))
    await cluster.evict(POD, "why")
    assert cluster.pod(POD).deleting
    cluster.reap()
    with pytest.raises(Gone):
        cluster.pod(POD)


async def test_protected_pod_is_not_evicted() -> None:
    cluster = FaultyCluster(POD)
    cluster.protected.add("u1")
    with pytest.raises(Disrupted):
        await cluster.evict(POD, "why")
    assert cluster.pods() != ()


async def test_equal_events_are_counted() -> None:
    cluster = FaultyCluster()
    about = Regarding("v1", "Pod", "ns", "p", "u1")
    for message in ("a", "b", "a"):
        await cluster.event(about, "Waiting", message)
    assert [(event.message, event.count) for event in cluster.events] == [("a", 2), ("b", 1)]


def test_versions_rise_with_each_change() -> None:
    cluster = FaultyCluster(POD)
    first = int(cluster.pod(POD).resource_version)
    cluster.put(POD)
    assert int(cluster.pod(POD).resource_version) > first
