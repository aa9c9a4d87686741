"""What-if without the service: the cluster is read from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fluence_extender.apps.cli.offline import ClusterObjects, cluster_objects, simulate_offline
from fluence_extender.apps.cli.simulate import simulate
from fluence_extender.kinds.pod_sets import BadManifest
from fluence_extender.whatif.documents import as_json
from tests.unit.whatif.conftest import job

GROUP = "fluence.flux-framework.org/group"
SIZE = "fluence.flux-framework.org/group-size"
HIGH = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}


def node(name: str, cpu: str = "4") -> dict[str, Any]:
    allocatable = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
    return {"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": allocatable}}


def running(name: str, where: str, group: str, cpu: str = "3", **meta: Any) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {GROUP: group},
            "annotations": {SIZE: "2"},
            **meta,
        },
        "spec": {
            "schedulerName": "fluence",
            "nodeName": where,
            "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}],
        },
        "status": {"phase": "Running"},
    }


def there(*some: dict[str, Any]) -> ClusterObjects:
    return cluster_objects((one["kind"], as_json(one)) for one in some)


def asked(cluster: ClusterObjects, *manifests: dict[str, Any], policy: str = "lonode") -> dict[str, Any]:
    return simulate_offline(as_json({"kind": "List", "items": manifests}), cluster, "", {}, policy)


def urgent(name: str, count: int, cpu: str) -> dict[str, Any]:
    made = job(name, count, cpu)
    made["spec"]["template"]["spec"]["priorityClassName"] = "high"
    return made


FULL = [node("n0"), node("n1"), running("low-0", "n0", "low"), running("low-1", "n1", "low")]


def test_running_gangs_are_recognized_by_their_labels() -> None:
    (gang,) = asked(there(*FULL, HIGH), urgent("train", 2, "4"))["gangs"]
    assert gang["preemption"]["text"] == "would preempt 1 gang (2 pods): default/low (2)"
    assert sorted(one["node"] for one in gang["preemption"]["placement"]) == ["n0", "n1"]


def test_pod_groups_in_the_file_count() -> None:
    group = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "pair", "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    }
    made = job("train", 2, "1")
    made["spec"]["template"]["metadata"]["labels"] = {}
    made["spec"]["template"]["spec"]["schedulingGroup"] = {"podGroupName": "pair"}
    (gang,) = asked(there(node("n0"), group), made)["gangs"]
    assert (gang["gang"], gang["fits"]) == ("default/pair", True)
    (gang,) = asked(there(node("n0")), made)["gangs"]
    assert gang["reason"] == "waiting for PodGroup default/pair to exist"


def test_objects_that_are_not_in_the_file_are_unknown() -> None:
    document = asked(there(*FULL), urgent("train", 2, "4"))
    refused = (
        "the API server refuses the pods of Job default/train: no PriorityClass with name high was found"
    )
    assert document["gangs"][0]["reason"] == refused
    document = asked(there(*FULL), urgent("train", 2, "4"), HIGH)
    assert document["notes"] == ["PodDisruptionBudgets are not known here: they may forbid the preemptions"]


def test_budgets_in_the_file_are_respected() -> None:
    budget = {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "keep", "namespace": "default"},
        "spec": {"selector": {}},
        "status": {"disruptionsAllowed": 1},
    }
    document = asked(there(*FULL, HIGH, budget), urgent("train", 2, "4"))
    assert document["gangs"][0]["preemption"]["text"].endswith(
        "PodDisruptionBudget default/keep allows 1 of 2 evictions"
    )
    assert document["notes"] == []


def test_terminating_pods_count_as_departing() -> None:
    leaving = running("low-0", "n0", "low", deletionTimestamp="2026-01-01T00:00:00Z")
    (gang,) = asked(there(node("n0"), leaving, HIGH), urgent("train", 1, "4"))["gangs"]
    assert gang["preemption"]["outcome"] == "WaitsForThoseGoing"


def test_under_a_node_exclusive_policy_no_node_is_shared() -> None:
    cluster = there(node("n0"), running("low-0", "n0", "low", "1"), HIGH)
    (gang,) = asked(cluster, urgent("train", 1, "1"), policy="lonodex")["gangs"]
    assert not gang["fits"]
    assert gang["preemption"]["text"] == "would preempt 1 gang (1 pod): default/low (1)"
    first, second = asked(there(node("n0")), job("a", 1, "1"), job("b", 1, "1"), policy="lonodex")["gangs"]
    assert (first["fits"], second["fits"]) == (True, False)


def test_unreadable_objects_are_named() -> None:
    with pytest.raises(BadManifest, match="there is no Node"):
        there(HIGH)
    with pytest.raises(BadManifest, match="Node n0: "):
        there({"kind": "Node", "metadata": {"name": "n0", "labels": 3}})


def test_manifests_without_pods_are_refused_with_the_words_of_the_service() -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}
    with pytest.raises(BadManifest, match=r"^nothing to simulate: the pods that Service default/web makes"):
        asked(there(node("n0")), service)


@pytest.mark.parametrize("manifests", [["job", "service"], ["service"]], ids=["job", "no pods"])
def test_command_ends_with_one_line_for_what_it_cannot_answer(manifests: list[str], tmp_path: Path) -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}
    broken = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"parallelism": -1}}
    files = {"nodes": node("n0"), "job": broken, "service": service}
    for name, content in files.items():
        (tmp_path / f"{name}.json").write_bytes(as_json(content))
    asks = [option for name in manifests for option in ("-f", str(tmp_path / f"{name}.json"))]
    answer = CliRunner().invoke(simulate, [*asks, "--nodes", str(tmp_path / "nodes.json")])
    assert answer.exit_code == 1
    assert answer.output.startswith("Error: ")
    assert len(answer.output.splitlines()) == 1
