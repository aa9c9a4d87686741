"""New pods of an embedded cluster get what our webhook gives them."""

from __future__ import annotations

from typing import Any

import pytest

from fluence_extender.cluster.decode.job import decode_job
from fluence_extender.cluster.decode.pod import decode_pod
from fluence_extender.embeddedcluster.admission import admit, admit_job
from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.model.names import (
    COMPLETION_INDEX,
    GATE,
    KUEUE_QUEUE_LABEL,
    NODE_NAME,
    NODES_ANNOTATION,
    PLACED_ANNOTATION,
    PLACED_LABEL,
    SUSPEND_LABEL,
    SUSPENDED_FOR_ANNOTATION,
)
from fluence_extender.model.node import Node
from fluence_extender.model.pod import NodeTerm, Requirement
from fluence_extender.model.workload import Job
from fluence_extender.placement.eligibility import refusal
from fluence_extender.whatif.documents import as_json

NO_RESOURCES = parse_resources("")


def test_pod_of_ours_gets_its_gate_and_its_mark() -> None:
    resources = parse_resources("resources: [{type: qpu, name: fez, count: 1}]")
    requests = {"cpu": "1", "fluxion.flux-framework.org/qpu": "1"}
    pod: dict[str, Any] = {
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {
            "schedulerName": "fluence",
            "containers": [{"name": "main", "resources": {"requests": requests}}],
        },
    }
    admitted = admit(pod, resources)
    assert admitted.gates == (GATE,)
    assert admitted.marked
    assert "schedulingGates" not in pod["spec"]


def pod_of_a_job(nodes: str = "n0,n1", index: str = "1", kind: str = "Job", **spec: Any) -> dict[str, Any]:
    version = "batch/v1" if kind == "Job" else "apps/v1"
    owner = {"apiVersion": version, "kind": kind, "name": "j", "uid": "u1", "controller": True}
    return {
        "metadata": {
            "name": "j-1-x",
            "namespace": "default",
            "labels": {PLACED_LABEL: "at-birth"},
            "annotations": {NODES_ANNOTATION: nodes, COMPLETION_INDEX: index},
            "ownerReferences": [owner],
        },
        "spec": {"schedulerName": "fluence", "containers": [{"name": "main"}], **spec},
    }


def test_pod_whose_job_names_its_node_gets_that_node_instead_of_the_gate() -> None:
    pod = pod_of_a_job()
    admitted = admit(pod, NO_RESOURCES)
    assert (admitted.gates, admitted.confined_to, admitted.pinned_to) == ((), ("n1",), "n1")
    assert NODES_ANNOTATION not in admitted.annotations
    assert refusal(admitted, Node("n0")) == "node affinity"
    assert refusal(admitted, Node("n1")) is None
    assert pod == pod_of_a_job()


def test_node_narrows_each_term_that_the_user_wrote_and_adds_none() -> None:
    zone = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    required = {"nodeSelectorTerms": [zone, {}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    admitted = admit(pod_of_a_job(affinity=affinity), NO_RESOURCES)
    here = Requirement(NODE_NAME, "In", ("n1",))
    assert admitted.affinity == (NodeTerm((Requirement("zone", "In", ("a",)),), (here,)), NodeTerm())


@pytest.mark.parametrize(
    "pod",
    [
        pod_of_a_job(nodes=""),
        pod_of_a_job(nodes="n0"),
        pod_of_a_job(nodes="n0,"),
        pod_of_a_job(index="x"),
        pod_of_a_job(kind="StatefulSet"),
        pod_of_a_job(nodeSelector={"a": "b"}, schedulingGates=[{"name": GATE}]),
    ],
)
def test_pod_for_which_no_job_names_a_node_is_gated(pod: dict[str, Any]) -> None:
    admitted = admit(pod, NO_RESOURCES)
    assert (admitted.gates, admitted.affinity) == ((GATE,), None)
    assert NODES_ANNOTATION not in admitted.annotations


def test_pod_with_gates_of_others_or_without_the_label_is_gated() -> None:
    assert admit(pod_of_a_job(schedulingGates=[{"name": "theirs"}]), NO_RESOURCES).gates == ("theirs", GATE)
    unlabelled = pod_of_a_job()
    del unlabelled["metadata"]["labels"]
    assert admit(unlabelled, NO_RESOURCES).gates == (GATE,)


def test_pod_that_fits_no_node_is_gated() -> None:
    required: dict[str, Any] = {"nodeSelectorTerms": [{}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    admitted = admit(pod_of_a_job(affinity=affinity), NO_RESOURCES)
    assert (admitted.gates, admitted.affinity) == ((GATE,), (NodeTerm(),))


def test_pod_of_a_gated_job_is_gated() -> None:
    admitted = admit(pod_of_a_job(), NO_RESOURCES, {"u1": "its node is gone"})
    assert (admitted.gates, admitted.affinity) == ((GATE,), None)


def test_pod_with_devices_has_its_node_and_its_mark() -> None:
    containers = [{"name": "main", "resources": {"requests": {"fluxion.flux-framework.org/qpu": "1"}}}]
    resources = parse_resources("resources: [{type: qpu, name: fez, count: 1}]")
    admitted = admit(pod_of_a_job(containers=containers), resources)
    assert (admitted.gates, admitted.confined_to, admitted.marked) == ((), ("n1",), True)


def test_pod_of_another_scheduler_stays_as_it_is() -> None:
    pod = {"metadata": {"name": "p", "namespace": "default"}, "spec": {"containers": [{"name": "main"}]}}
    assert admit(pod, parse_resources("")) == decode_pod(as_json(pod))


GANG: dict[str, Any] = {
    "completionMode": "Indexed",
    "completions": 2,
    "parallelism": 2,
    "template": {"spec": {"schedulerName": "fluence", "containers": [{"name": "main"}]}},
}


def job(meta: dict[str, Any] | None = None, template: dict[str, Any] | None = None, **spec: Any) -> Job:
    pod = {"spec": {**GANG["template"]["spec"], **(template or {}).pop("spec", {})}, **(template or {})}
    manifest = {"metadata": {"name": "j", **(meta or {})}, "spec": {**GANG, **spec, "template": pod}}
    return decode_job(as_json(admit_job(manifest)))


def test_gang_is_held_with_a_label_for_its_pods() -> None:
    manifest = {"metadata": {"name": "j"}, "spec": GANG}
    stored = admit_job(manifest)
    assert decode_job(as_json(stored)).held_for_placement
    assert stored["spec"]["template"]["metadata"]["labels"] == {PLACED_LABEL: "at-birth"}
    assert manifest == {"metadata": {"name": "j"}, "spec": GANG}


CRON_JOB = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": "u", "controller": True}
JOB_SET = {**CRON_JOB, "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"}


def test_job_of_a_cron_job_is_held() -> None:
    assert job({"ownerReferences": [CRON_JOB]}).held_for_placement


@pytest.mark.parametrize("suspend", [False, True])
def test_job_for_kueue_is_held_as_its_users_write_it(suspend: bool) -> None:
    assert job(
        {"labels": {KUEUE_QUEUE_LABEL: "q"}}, completionMode="NonIndexed", suspend=suspend
    ).held_for_placement


@pytest.mark.parametrize("pods", [1, 2])
def test_job_of_a_job_set_is_held_even_with_one_pod(pods: int) -> None:
    assert job({"ownerReferences": [JOB_SET]}, completions=pods, parallelism=pods).held_for_placement


@pytest.mark.parametrize(
    "unheld",
    [
        job(suspend=True),
        job(completionMode="NonIndexed"),
        job(completions=4),
        job(completions=1, parallelism=1),
        job(completions=None, parallelism=2),
        job(managedBy="example.com/other"),
        job({"ownerReferences": [{**CRON_JOB, "kind": "JobSet"}]}),
        job({"ownerReferences": [{**CRON_JOB, "apiVersion": "ray.io/v1", "kind": "RayJob"}]}),
        job({"ownerReferences": [JOB_SET]}, suspend=True),
        job(template={"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "q"}}}),
        job({"labels": {SUSPEND_LABEL: "never"}}),
        job(template={"spec": {"schedulingGates": [{"name": "theirs"}]}}),
        job(template={"spec": {"nodeName": "n1"}}),
        job(template={"spec": {"schedulerName": "theirs"}}),
    ],
)
def test_job_that_is_not_a_gang_of_ours_alone_is_not_held(unheld: Job) -> None:
    assert not unheld.held_for_placement


@pytest.mark.parametrize("suspend", [True, False])
def test_copies_of_what_the_service_writes_are_taken_off(suspend: bool) -> None:
    copied = job(
        {"annotations": {SUSPENDED_FOR_ANNOTATION: "placement"}},
        {"metadata": {"annotations": {NODES_ANNOTATION: "n1,n2", PLACED_ANNOTATION: "2 job/j"}}},
        suspend=suspend,
    )
    assert (copied.held_for_placement, copied.nodes, copied.placed_with) == (not suspend, (), "")
