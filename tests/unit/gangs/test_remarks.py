"""Labels and annotations without an effect: one Event on the owner of the pods, and a note of the state API."""

from __future__ import annotations

import json

import pytest

from fluence_extender.cluster.port import ResourcesFile
from fluence_extender.embeddedcluster.admission import admit
from fluence_extender.gangs.reporting.remarks import NO_EFFECT, remarks_on
from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.kinds.job import decode_job
from fluence_extender.kinds.podgroups import PodGroup
from fluence_extender.model.coordination import (
    COORDINATION_ANNOTATION,
    DEPENDS_ON_PRODUCER,
    OBSERVE_LABEL,
    ROLE_ANNOTATION,
    SHARED,
)
from fluence_extender.model.names import (
    COSCHEDULING_GROUP,
    DOMAIN,
    DURATION_ANNOTATION,
    GROUP_LABEL,
    GROUP_SIZE_ANNOTATION,
    LEFT_AS_IT_IS,
    LONGEST_WARNING,
    SCHEDULER_NAME,
    WARNING_ANNOTATION,
)
from fluence_extender.model.pod import Owner
from fluence_extender.model.pod_keys import UNSIZED
from fluence_extender.model.reason import ReasonCode
from tests.core.values import asks, node
from tests.unit.gangs.conftest import MakeWorld

JOB = Owner("Job", "sweep", "uid-sweep", "batch/v1")
TYPO = f"{DOMAIN}/group-sise"


def test_a_misspelt_annotation_of_a_job_is_told_once_on_the_job(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    for number in range(3):
        w.pod(f"sweep-{number}", owner=JOB, annotations={TYPO: "3"})
    w.advance(5)
    told = [one for one in w.cluster.events if one.reason == NO_EFFECT]
    assert [(one.regarding.kind, one.regarding.name, one.count) for one in told] == [("Job", "sweep", 1)]
    assert "did you mean" in told[0].message
    (note,) = remarks_on(w.gang("sweep-0"), w.controller.registry.workloads)
    assert TYPO in note


def test_duration_of_a_job_that_cannot_be_read_is_told_on_the_job(world: MakeWorld) -> None:
    w = world(node("n0"))
    raw = {
        "metadata": {"namespace": "ns", "name": "sweep", "annotations": {DURATION_ANNOTATION: "soon"}},
        "spec": {},
    }
    job = w.jobs.submit("sweep", 2)
    w.change_job(job, remark=decode_job(json.dumps(raw).encode()).remark)
    w.advance(5)
    (told,) = [one for one in w.cluster.events if one.reason == NO_EFFECT]
    assert (told.regarding.kind, told.regarding.name) == ("Job", "sweep")
    assert told.message.startswith(f"annotation {DURATION_ANNOTATION} is 'soon': it must be a time")


def test_bare_pods_of_a_group_without_a_size_start_alone_and_that_is_told(world: MakeWorld) -> None:
    w = world(node("n0", cpu=1000), scheduling=False)
    for number in range(2):
        w.pod(f"pair-{number}", labels={GROUP_LABEL: "pair"}, requests=asks(800))
    w.advance(5)
    gang = w.gang("pair")
    assert remarks_on(gang, w.controller.registry.workloads) == (UNSIZED,)
    assert len([one for one in gang.members.values() if one.assignment]) == 1
    assert [one.message for one in w.cluster.events if one.reason == NO_EFFECT] == [UNSIZED]


@pytest.mark.parametrize(("of_pods", "told"), [("urgent", 0), ("", 1), ("other", 1)])
def test_priority_class_of_a_pod_group_that_its_pods_lack_has_no_effect(
    of_pods: str, told: int, world: MakeWorld
) -> None:
    w = world(node("n0"), scheduling=False)
    w.cluster.put(PodGroup("default", "g", "u", 1, priority_class="urgent"))
    w.pod("p", group="g", priority_class=of_pods)
    w.advance(5)
    messages = [one.message for one in w.cluster.events if one.reason == NO_EFFECT]
    assert len(messages) == told
    assert all("PodGroup g names the PriorityClass urgent, which has no effect" in one for one in messages)


@pytest.mark.parametrize(
    ("labels", "notes", "starts"),
    [
        ({GROUP_LABEL: "g"}, {}, False),
        ({}, {}, False),
        ({GROUP_LABEL: "g"}, {DEPENDS_ON_PRODUCER: "g-producer"}, True),
        ({GROUP_LABEL: "g"}, {GROUP_SIZE_ANNOTATION: "1"}, True),
    ],
)
def test_shared_job_that_admission_has_left_as_it_is_does_not_start(
    labels: dict[str, str], notes: dict[str, str], starts: bool, world: MakeWorld
) -> None:
    """Otherwise each of its pods would take a quantum device."""
    w = world(
        node("n0"),
        ResourcesFile("", "resources: [{type: qpu, name: a, count: 1}, {type: qpu, name: b, count: 1}]"),
        scheduling=False,
    )
    size = {GROUP_SIZE_ANNOTATION: "2", COORDINATION_ANNOTATION: SHARED}
    pods = [
        w.pod(f"sweep-{number}", owner=JOB, labels=labels, annotations={**size, **notes}, devices={"qpu": 1})
        for number in range(2)
    ]
    w.advance(5)
    gangs = [one for one in w.controller.registry.gangs.values()]
    assert [bool(one.reason and "without a role" in one.reason.text) for one in gangs] == [not starts] * len(
        gangs
    )
    assert starts or not any(w.nodes_of(*pods))


def test_pods_of_a_shared_job_without_indexes_that_admission_has_left_do_not_start(world: MakeWorld) -> None:
    """Each of them is a gang of one, as is the pod of a shared Job that has one pod and needs no role."""
    w = world(
        node("n0"),
        ResourcesFile("", "resources: [{type: qpu, name: a, count: 3}]"),
        scheduling=False,
    )
    shared = {COORDINATION_ANNOTATION: SHARED}
    left = {**shared, WARNING_ANNOTATION: f"{LEFT_AS_IT_IS}container 'fluence-stage' exists twice"}
    pods = [w.pod(f"sweep-{number}", owner=JOB, annotations=left, devices={"qpu": 1}) for number in range(2)]
    alone = w.pod("alone-0", owner=Owner("Job", "alone", "uid-alone", "batch/v1"), annotations=shared)
    w.advance(5)
    reasons = [w.gang(pod.name).reason for pod in pods]
    assert ["without a role" in (reason.text if reason else "") for reason in reasons] == [True, True]
    reason = w.gang(alone.name).reason
    assert reason is None or "without a role" not in reason.text


def test_what_the_webhook_warns_of_is_told_on_the_job_and_in_the_notes(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": JOB.name, "uid": JOB.uid, "controller": True}
    metadata = {
        "name": "sweep-0",
        "namespace": "ns",
        "labels": {GROUP_LABEL: "one", COSCHEDULING_GROUP: "two"},
        "ownerReferences": [owner],
    }
    spec = {"schedulerName": SCHEDULER_NAME, "containers": [{"name": "main"}]}
    made = admit({"metadata": metadata, "spec": spec}, parse_resources(""))
    w.pod("sweep-0", owner=JOB, labels=dict(made.labels), annotations=dict(made.annotations))
    w.advance(5)
    (told,) = [event for event in w.cluster.events if event.reason == NO_EFFECT]
    assert (told.regarding.kind, told.regarding.name) == ("Job", JOB.name)
    assert f"label {GROUP_LABEL} names group 'one'" in told.message
    (gang,) = w.controller.registry.gangs.values()
    (note,) = remarks_on(gang, w.controller.registry.workloads)
    assert note in told.message


def test_a_forged_warning_is_told_at_no_more_than_its_length(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    w.pod("sweep-0", owner=JOB, annotations={WARNING_ANNOTATION: "x" * 200_000})
    w.advance(5)
    assert remarks_on(w.gang("sweep-0"), w.controller.registry.workloads) == ("x" * LONGEST_WARNING,)


def test_pods_that_state_a_size_and_pods_of_owners_have_no_remark(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    w.pod("one", labels={GROUP_LABEL: "one"}, annotations={GROUP_SIZE_ANNOTATION: "1"})
    w.pod("owned", labels={GROUP_LABEL: "owned"}, owner=Owner("ReplicaSet", "rs", "uid-rs", "apps/v1"))
    w.pod("plain")
    w.advance(5)
    assert [one for one in w.cluster.events if one.reason == NO_EFFECT] == []


def test_the_reason_of_a_jobs_gang_stands_on_the_job_and_on_one_pod(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    for number in range(5):
        w.pod(
            f"train-{number}",
            labels={GROUP_LABEL: "train"},
            annotations={GROUP_SIZE_ANNOTATION: "9"},
            owner=Owner("Job", "train", "uid-train", "batch/v1"),
        )
    w.advance(5)
    assert [(one.regarding.kind, one.regarding.name) for one in w.cluster.events] == [
        ("Job", "train"),
        ("Pod", "train-0"),
    ]


@pytest.mark.parametrize(
    ("labels", "annotations", "why"),
    [
        ({}, {COORDINATION_ANNOTATION: "batch"}, "is 'batch', which isn't a mode"),
        (
            {GROUP_LABEL: "g" * 63},
            {COORDINATION_ANNOTATION: "shared", GROUP_SIZE_ANNOTATION: "2"},
            "at most 54",
        ),
        ({}, {COORDINATION_ANNOTATION: "shared", ROLE_ANNOTATION: "boss"}, "is 'boss', which isn't a role"),
    ],
)
def test_job_whose_coordination_cannot_be_had_does_not_start(
    labels: dict[str, str], annotations: dict[str, str], why: str, world: MakeWorld
) -> None:
    w = world(node("n0"))
    for number in range(2):
        w.pod(f"vqe-{number}", owner=JOB, labels=labels, annotations=annotations)
    w.advance(5)
    reason = w.gang(labels.get(GROUP_LABEL, "vqe-0")).reason
    assert reason is not None
    assert reason.code is ReasonCode.INVALID_REQUEST
    assert why in reason.text
    assert not [pod for pod in w.cluster.pods() if pod.node]


def test_label_about_a_task_that_the_pods_of_a_job_do_not_submit_is_told_on_the_job(world: MakeWorld) -> None:
    w = world(node("n0"))
    w.pod("sweep-0", owner=JOB, labels={OBSERVE_LABEL: "true"})
    w.advance(5)
    (told,) = [one for one in w.cluster.events if one.reason == NO_EFFECT]
    assert (told.regarding.kind, told.regarding.name) == ("Job", "sweep")
    assert "because the pod requests no" in told.message
