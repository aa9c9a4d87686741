"""Manifests become the pods that their controllers would make, and these become gangs by the usual conventions."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from fluence_extender.cluster.errors import Gone
from fluence_extender.cluster.port import TriedPod
from fluence_extender.kinds.pod_sets import BadManifest
from fluence_extender.model.names import (
    DURATION_ANNOTATION,
    GROUP_LABEL,
    GROUP_SIZE_ANNOTATION,
    KUEUE_LONGEST_LABEL,
    QUEUE_LABEL,
)
from fluence_extender.whatif.documents import NothingToSimulate, read_manifests
from fluence_extender.whatif.manifests import LONGEST_REFUSAL, read_question, requested_gangs
from fluence_extender.whatif.trials import try_templates
from tests.unit.whatif.conftest import request_of, sent

SPEC = {
    "schedulerName": "fluence",
    "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}],
}


def template(**labels: str) -> dict[str, Any]:
    return {"metadata": {"labels": labels}, "spec": SPEC}


def run_once() -> dict[str, Any]:
    return {"spec": {**SPEC, "restartPolicy": "Never"}}


CASES: list[tuple[dict[str, Any], dict[str, int]]] = [
    ({"kind": "Pod", "metadata": {"name": "one"}, "spec": SPEC}, {"default/one": 1}),
    (
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "sim", "namespace": "lab"},
            "spec": {"parallelism": 4, "completions": 3, "template": template(**{GROUP_LABEL: "sim"})},
        },
        {"lab/sim": 3},
    ),
    (
        {
            "kind": "Deployment",
            "metadata": {"name": "web"},
            "spec": {"replicas": 2, "template": template()},
        },
        {"default/web-0": 1, "default/web-1": 1},
    ),
    (
        {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": "train"},
            "spec": {
                "replicatedJobs": [
                    {"name": "driver", "replicas": 1, "template": {"spec": {"template": template()}}},
                    {
                        "name": "workers",
                        "replicas": 2,
                        "template": {"spec": {"parallelism": 3, "completions": 3, "template": template()}},
                    },
                ]
            },
        },
        {"default/train": 7},
    ),
    (
        {
            "apiVersion": "leaderworkerset.x-k8s.io/v1",
            "kind": "LeaderWorkerSet",
            "metadata": {"name": "serve"},
            "spec": {"replicas": 2, "leaderWorkerTemplate": {"size": 3, "workerTemplate": template()}},
        },
        {"default/serve-0": 3, "default/serve-1": 3},
    ),
]


@pytest.mark.parametrize(("manifest", "gangs"), CASES, ids=[case[0]["kind"] for case in CASES])
def test_each_kind_makes_its_pods(manifest: dict[str, Any], gangs: dict[str, int]) -> None:
    found = request_of([manifest])
    assert sorted(len(one.pods) for one in found.gangs) == sorted(gangs.values())
    assert sum(len(one.pods) for one in found.gangs) == sum(gangs.values())
    assert all(isinstance(one.size, int) and one.size <= len(one.pods) for one in found.gangs)
    assert not found.ignored


def test_lists_and_several_documents_are_split_and_other_objects_named() -> None:
    text = """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: m}]}}
- {apiVersion: v1, kind: Service, metadata: {name: s}}
---
{apiVersion: v1, kind: Pod, metadata: {name: b}, spec: {schedulerName: fluence, containers: [{name: m}]}}
"""
    found = request_of(read_manifests(sent(text)))
    assert [one.pods[0].name for one in found.gangs] == ["a", "b"]
    assert found.ignored == ["Service default/s"]
    assert found.notes == [
        "simulated as if schedulerName were fluence, not default-scheduler: as it is, fluence won't place these pods; "
        "did you mean schedulerName: fluence?"
    ]


def test_cluster_wide_objects_are_named_without_a_namespace_and_priority_classes_are_read() -> None:
    spec = {**SPEC, "priorityClassName": "urgent"}
    found = request_of(
        [
            {"kind": "Namespace", "metadata": {"name": "lab"}},
            {"kind": "Pod", "metadata": {"name": "p"}, "spec": spec},
            {"kind": "Pod", "metadata": {"name": "q"}, "spec": SPEC},
            {"kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 1000},
            {"kind": "PriorityClass", "metadata": {"name": "usual"}, "value": 10, "globalDefault": True},
        ]
    )
    assert found.ignored == ["Namespace lab"]
    assert [one.pods[0].priority for one in found.gangs] == [1000, 10]


def test_keys_of_ours_without_effect_are_noted_once() -> None:
    def sized(name: str, **outer: str) -> dict[str, Any]:
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "labels": outer, "annotations": None},
            "spec": {"parallelism": 3, "template": template(**{GROUP_SIZE_ANNOTATION: "3"})},
        }

    found = request_of([sized("a", **{GROUP_LABEL: "a"}), sized("b"), sized("c")])
    assert found.notes == [
        f"Job default/a and 2 more: label {GROUP_SIZE_ANNOTATION} does nothing: write it under metadata.annotations",
        f"Job default/a: {GROUP_LABEL} does nothing on a Job itself: write it under the metadata of its pod template",
    ]
    well = {**CASES[1][0], "metadata": {"name": "sim", "labels": {GROUP_LABEL: "sim"}}}
    assert request_of([well]).notes == []


def test_group_size_without_a_group_is_noted() -> None:
    def sized(size: str) -> dict[str, Any]:
        notes = {GROUP_SIZE_ANNOTATION: size}
        return {"kind": "Pod", "metadata": {"name": f"p{size}", "annotations": notes}, "spec": SPEC}

    (note,) = request_of([sized("2"), sized("3"), sized("1")]).notes
    assert note.startswith(
        f"Pod default/p2 and 1 more: annotation {GROUP_SIZE_ANNOTATION} does nothing on a pod"
    )


@pytest.mark.parametrize("labels", [3, ["a"], "word", {3: 4}])
def test_labels_of_a_wrong_type_do_no_harm(labels: object) -> None:
    found = request_of([{**CASES[2][0], "metadata": {"name": "web", "labels": labels}}])
    assert found.notes == []


def test_pods_that_name_the_same_group_are_one_gang() -> None:
    pods = [
        {
            "kind": "Pod",
            "metadata": {
                "name": f"p{number}",
                "labels": {GROUP_LABEL: "pair"},
                "annotations": {GROUP_SIZE_ANNOTATION: "2"},
            },
            "spec": SPEC,
        }
        for number in range(2)
    ]
    (gang,) = request_of(pods).gangs
    assert (len(gang.pods), gang.size) == (2, 2)


@pytest.mark.parametrize(
    "text",
    [
        "just words",
        "[1, 2]",
        "a: &a [x, x]\nkind: Pod\nb: [*a, *a]\nmetadata: 3",
        "kind: Job\nmetadata: {name: x}\nspec: 3",
        "kind: Job\nmetadata: {name: x}\nspec: {parallelism: many, template: {spec: {containers: []}}}",
        "kind: Deployment\nmetadata: {name: x}\nspec: {replicas: 100000, template: {spec: {containers: []}}}",
        "kind: Pod\nmetadata: {name: x}",
        "kind: Pod\nmetadata: {name: [x]}\nspec: {containers: 3}",
    ],
)
def test_unreadable_manifests_are_refused(text: str) -> None:
    with pytest.raises(BadManifest):
        request_of(read_manifests(sent(text)))


@pytest.mark.parametrize(
    ("manifest", "why"),
    [
        ({"kind": "Pod", "metadata": {"name": "p"}}, "Pod default/p: spec is missing"),
        ({"kind": "Pod", "metadata": {"name": "p"}, "spec": None}, "Pod default/p: spec is missing"),
        (
            {"kind": "Job", "metadata": {"name": "j"}, "spec": {"template": {"spec": None}}},
            "the API server refuses Job default/j: spec.template.spec.restartPolicy isn't set; "
            "a Job's pods need Never or OnFailure",
        ),
        (
            {"kind": "Pod", "metadata": {"name": "p"}, "spec": ["x"]},
            "Pod default/p: a field of its spec is of the wrong type",
        ),
        ({"kind": "Pod", "metadata": {"name": "p"}, "spec": {}}, "Pod default/p: a pod without containers"),
        (
            {"kind": "Job", "metadata": {"name": "j"}, "spec": {}},
            "the API server refuses Job default/j: spec.template: Required value",
        ),
        (
            {"kind": "Job", "metadata": {"name": "j"}, "spec": {"parallelism": -1, "template": run_once()}},
            "the API server refuses Job default/j: spec.parallelism: Invalid value: -1: "
            "must be greater than or equal to 0",
        ),
        (
            {
                "kind": "Deployment",
                "metadata": {"name": "d"},
                "spec": {"replicas": 10**5, "template": template()},
            },
            "Deployment default/d: more than 10,000 pods",
        ),
    ],
)
def test_errors_name_the_object_and_the_field(manifest: dict[str, Any], why: str) -> None:
    with pytest.raises(BadManifest) as raised:
        request_of([manifest])
    assert str(raised.value) == why


NO_PODS = {"kind": "Job", "metadata": {"name": "j"}, "spec": {"parallelism": 0, "template": template()}}
ASKS_FOR_NONE = "Job default/j makes no pods: its replicas, parallelism or completions are 0"


def test_objects_that_make_no_pods_are_noted_among_others() -> None:
    found = request_of([NO_PODS, {"kind": "Pod", "metadata": {"name": "one"}, "spec": SPEC}])
    assert [str(one.key) for one in found.gangs] == ["default/one"]
    assert found.notes == [ASKS_FOR_NONE]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no object in these manifests makes a pod"),
        ("# nothing yet\n---\n", "no object in these manifests makes a pod"),
        ("kind: List\nitems: []", "no object in these manifests makes a pod"),
        (json.dumps(NO_PODS), ASKS_FOR_NONE),
        (
            "kind: PyTorchJob\nmetadata: {name: x}\n---\nkind: ConfigMap\nmetadata: {name: z}",
            "PyTorchJob default/x isn't understood: ask about its pods, or about a JobSet with the same templates; "
            "the pods that ConfigMap default/z makes are not known",
        ),
        (
            "\n---\n".join(f"kind: Service\nmetadata: {{name: s{number}}}" for number in range(6)),
            "; ".join(f"the pods that Service default/s{number} makes are not known" for number in range(4))
            + "; and 2 more",
        ),
    ],
)
def test_manifests_without_any_pod_are_an_error_that_says_what_to_give(text: str, why: str) -> None:
    with pytest.raises(NothingToSimulate) as raised:
        request_of(read_manifests(sent(text)))
    assert str(raised.value).startswith(
        f"nothing to simulate: {why}. Give pods, or one of CronJob, Deployment, Job, "
    )


def test_long_refusal_is_shortened_because_each_gang_repeats_it() -> None:
    deployment = {
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": 100, "x" * 1_000_000: 1, "template": template()},
    }
    gangs = request_of(read_manifests(sent(json.dumps(deployment)))).gangs
    assert len(gangs) == 100
    for gang in gangs:
        assert gang.refusal is not None
        assert gang.refusal.text.startswith("the API server refuses Deployment default/web: ")
        assert len(gang.refusal.text) <= LONGEST_REFUSAL


def test_kinds_of_the_same_name_in_other_apis_are_ignored() -> None:
    volcano = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "v"},
        "spec": {},
    }
    found = request_of([volcano, {"kind": "Pod", "metadata": {"name": "one"}, "spec": SPEC}])
    assert found.ignored == ["Job default/v"]
    (gang,) = request_of([{**CASES[1][0], "apiVersion": None}]).gangs
    assert gang.size == 3


def test_repeated_objects_are_noted_and_generated_names_differ() -> None:
    pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": SPEC}
    found = request_of([dict(pod), {**pod, "metadata": {"name": "p"}}])
    assert found.notes == [
        "Pod default/p is there more than once: in a cluster the last one would replace the others"
    ]
    generated = [{"kind": "Pod", "metadata": {"generateName": "g-"}, "spec": SPEC} for _ in range(2)]
    found = request_of(generated)
    assert [one.pods[0].name for one in found.gangs] == ["g-00001", "g-00002"]
    assert found.notes == []


def test_jobs_that_disagree_on_the_size_of_their_gang_are_reported() -> None:
    jobs = [
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name},
            "spec": {"parallelism": count, "completions": count, "template": template(**{GROUP_LABEL: "g"})},
        }
        for name, count in (("a", 2), ("b", 3))
    ]
    (gang,) = request_of(jobs).gangs
    assert str(gang.size) == "members of gang default/g disagree on its size: Job a says 2, Job b says 3"


@pytest.mark.parametrize("stated", ["job set", "job", "annotation"])
def test_deadlines_of_the_jobs_of_a_job_set_and_of_itself_count(stated: str) -> None:
    job: dict[str, Any] = {"metadata": {}, "spec": {"template": template()}}
    made: dict[str, Any] = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "train"},
        "spec": {"replicatedJobs": [{"name": "workers", "replicas": 2, "template": job}]},
    }
    if stated == "job set":
        made["metadata"]["labels"] = {KUEUE_LONGEST_LABEL: "60"}
    elif stated == "job":
        job["spec"]["activeDeadlineSeconds"] = 60
    else:
        job["metadata"]["annotations"] = {DURATION_ANNOTATION: "1m"}
    (gang,) = request_of(read_manifests(json.dumps(made).encode())).gangs
    assert [pod.duration for pod in gang.pods] == [60, 60]


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet"])
def test_queue_and_duration_on_a_workload_itself_count(kind: str) -> None:
    meta = {"name": "web", "labels": {QUEUE_LABEL: "physics"}, "annotations": {DURATION_ANNOTATION: "1m"}}
    made = {"kind": kind, "metadata": meta, "spec": {"replicas": 1, "template": template()}}
    request = request_of(read_manifests(json.dumps(made).encode()))
    (gang,) = request.gangs
    assert dict(gang.submission.queues) == {QUEUE_LABEL: "physics"}
    assert [pod.duration for pod in gang.pods] == [60]
    assert not request.notes


def test_one_run_of_a_cron_job_is_simulated() -> None:
    spec = {"parallelism": 2, "completions": 2, "template": template(**{GROUP_LABEL: "g"})}
    manifest = {"kind": "CronJob", "metadata": {"name": "c"}, "spec": {"jobTemplate": {"spec": spec}}}
    (gang,) = request_of([manifest]).gangs
    assert [pod.name for pod in gang.pods] == ["c-1-0", "c-1-1"]


@pytest.mark.parametrize(("zone", "fits"), [("a", True), ("b", False)])
def test_pods_of_a_namespace_that_does_not_exist_yet_get_what_the_manifests_add(
    zone: str, fits: bool
) -> None:
    runtime = {
        "kind": "RuntimeClass",
        "metadata": {"name": "kata"},
        "overhead": {"podFixed": {"cpu": "250m"}},
        "scheduling": {"nodeSelector": {"zone": "a"}},
    }
    spec = {**SPEC, "runtimeClassName": "kata", "nodeSelector": {"zone": zone}}
    question = read_question(
        [{"kind": "Pod", "metadata": {"name": "p", "namespace": "new"}, "spec": spec}, runtime]
    )

    async def unknown_namespace(manifest: dict[str, Any], attempt: str) -> TriedPod:
        error = Gone(f"{attempt}: no such namespace", 404)
        error.words = 'namespaces "new" not found'
        raise error

    trials = asyncio.run(try_templates(question.templates, question.objects, unknown_namespace))
    (gang,) = requested_gangs(question, trials).gangs
    assert (gang.refusal is None) is fits
    if fits:
        assert gang.pods[0].requests["cpu"] == 1250
        assert trials[0].notes == (
            'what admission adds to the pods isn\'t known: namespaces "new" not found',
        )
