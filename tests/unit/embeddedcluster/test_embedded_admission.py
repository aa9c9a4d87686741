"""New pods of an embedded cluster get what our webhook gives them."""

from __future__ import annotations

from typing import Any

import pytest

from fluence_extender.cluster.decode.pod import decode_pod
from fluence_extender.embeddedcluster.admission import admit, admit_job
from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.kinds.job import Job, decode_job
from fluence_extender.model.names import (
    COMPLETION_INDEX,
    DIRECT_SCHEDULER_NAME,
    GATE,
    KUEUE_QUEUE_LABEL,
    NODES_ANNOTATION,
    PLACED_ANNOTATION,
    SUSPEND_LABEL,
    SUSPENDED_FOR_ANNOTATION,
)
from fluence_extender.whatif.documents import as_json
from tests.core.classes import PODS

NO_RESOURCES = parse_resources("")


@pytest.mark.parametrize("what", PODS)
def test_pod_is_direct_or_filtered(what: str) -> None:
    body, filtered = PODS[what]
    body = {**body, "metadata": {**body["metadata"], "namespace": "default"}}
    others = tuple(one["name"] for one in body["spec"].get("schedulingGates") or () if one["name"] != GATE)
    admitted = admit(body, parse_resources("resources: [{type: annealer, name: dw, count: 1}]"))
    assert (admitted.direct, admitted.gates) == (not filtered, (GATE,) if filtered else others)
    assert body["spec"]["schedulerName"] == "fluence"
    named = {**body, "spec": {**body["spec"], "schedulerName": DIRECT_SCHEDULER_NAME}}
    assert admit(named, NO_RESOURCES).direct is not filtered


def pod_of_a_job(
    nodes: str = "n0,n1",
    index: str = "1",
    kind: str = "Job",
    notes: dict[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    version = "batch/v1" if kind == "Job" else "apps/v1"
    owner = {"apiVersion": version, "kind": kind, "name": "j", "uid": "u1", "controller": True}
    planned = {NODES_ANNOTATION: nodes, COMPLETION_INDEX: index, PLACED_ANNOTATION: "2 job/j"}
    return {
        "metadata": {
            "name": "j-1-x",
            "namespace": "default",
            "annotations": {**planned, **(notes or {})},
            "ownerReferences": [owner],
        },
        "spec": {"schedulerName": "fluence", "containers": [{"name": "main"}], **spec},
    }


def test_pod_of_a_fresh_plan_is_created_with_its_node() -> None:
    pod = pod_of_a_job()
    admitted = admit(pod, NO_RESOURCES, bound=True)
    assert (admitted.node, admitted.gates, admitted.affinity) == ("n1", (), None)
    assert NODES_ANNOTATION not in admitted.annotations
    assert pod == pod_of_a_job()


def test_pod_that_comes_later_is_a_direct_one() -> None:
    admitted = admit(pod_of_a_job(), NO_RESOURCES)
    assert (admitted.node, admitted.direct, admitted.withheld) == ("", True, True)
    assert NODES_ANNOTATION not in admitted.annotations


DEVICE = {"requests": {"fluxion.flux-framework.org/qpu": "1"}}
WITHOUT_RECORD = pod_of_a_job()
del WITHOUT_RECORD["metadata"]["annotations"][PLACED_ANNOTATION]


@pytest.mark.parametrize(
    "pod",
    [
        pod_of_a_job(nodes=""),
        pod_of_a_job(nodes="n0"),
        pod_of_a_job(nodes="n0,"),
        pod_of_a_job(nodes="n0,No/Node"),
        pod_of_a_job(index="x"),
        pod_of_a_job(kind="StatefulSet"),
        WITHOUT_RECORD,
        pod_of_a_job(notes={"fluence.flux-framework.org/attr-vendor": "ibm"}),
        pod_of_a_job(containers=[{"name": "main", "resources": DEVICE}]),
        pod_of_a_job(schedulingGates=[{"name": "theirs"}]),
    ],
)
def test_pod_that_the_plan_alone_can_not_bind_is_a_direct_one(pod: dict[str, Any]) -> None:
    admitted = admit(pod, parse_resources("resources: [{type: qpu, name: fez, count: 1}]"), bound=True)
    assert (admitted.node, admitted.direct) == ("", True)
    assert NODES_ANNOTATION not in admitted.annotations


def test_filtered_pod_of_a_fresh_plan_waits_at_the_gate() -> None:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    admitted = admit(pod_of_a_job(volumes=volumes), NO_RESOURCES, bound=True)
    assert (admitted.node, admitted.direct, admitted.gates) == ("", False, (GATE,))


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


def test_gang_is_held() -> None:
    manifest = {"metadata": {"name": "j"}, "spec": GANG}
    stored = admit_job(manifest)
    assert decode_job(as_json(stored)).held_for_placement
    assert "metadata" not in stored["spec"]["template"]
    assert manifest == {"metadata": {"name": "j"}, "spec": GANG}


def test_held_job_whose_pods_are_not_restarted_does_not_count_evictions() -> None:
    never = {"spec": {**GANG["template"]["spec"], "restartPolicy": "Never"}}
    spec = admit_job({"metadata": {"name": "j"}, "spec": {**GANG, "template": never}})["spec"]
    (rule,) = spec["podFailurePolicy"]["rules"]
    assert rule == {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    assert spec["podReplacementPolicy"] == "Failed"
    own: dict[str, Any] = {"rules": [{"action": "FailJob"}]}
    kept = admit_job({"metadata": {}, "spec": {**GANG, "template": never, "podFailurePolicy": own}})["spec"]
    assert (kept["podFailurePolicy"], "podReplacementPolicy" in kept) == (own, False)
    assert "podFailurePolicy" not in admit_job({"metadata": {}, "spec": GANG})["spec"]


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
