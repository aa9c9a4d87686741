"""Whatever names a gang is understood: by which key, of which size, and which convention counts first."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fluence_extender.gangs.membership.gang import agreed_size
from fluence_extender.kinds.job import Job
from fluence_extender.kinds.jobset import JobSet, ReplicatedJob
from fluence_extender.kinds.membership import Membership
from fluence_extender.kinds.mpijob import MpiJob
from fluence_extender.kinds.podgroups import CoschedulingGroup, PodGroup
from fluence_extender.kinds.registry import CONVENTIONS
from fluence_extender.model.gang import Convention
from fluence_extender.model.names import GROUP_LABEL, GROUP_SIZE_ANNOTATION, SCHEDULE_TIMEOUT_ANNOTATION
from fluence_extender.model.reason import Reason, ReasonCode
from tests.core.manifests import (
    coscheduled,
    flux_k8s,
    job_pod,
    job_set_pod,
    kueue,
    leader_worker_pod,
    manifest,
    mpi_pod,
    native,
    ray_pod,
)
from tests.unit.gangs.memberships import is_alone, key, membership, told

# The native PodGroup.


def test_native_pod_group_says_the_size() -> None:
    group = PodGroup("default", "g", "u", 3)
    assert told(native("p", "g"), group) == (key("g", Convention.POD_GROUP), 3)


def test_native_pod_group_is_waited_for() -> None:
    assert told(native("p", "g")) == (
        key("g", Convention.POD_GROUP),
        "waiting for PodGroup default/g to exist",
    )


# The label of the coscheduling plugin.


def test_coscheduling_label_takes_size_and_timeout_from_the_pod_group() -> None:
    found = membership(coscheduled("p", "g"), CoschedulingGroup("default", "g", "u", 4, 30.0))
    assert (found.key, found.size, found.patience) == (key("g", Convention.COSCHEDULING), 4, 30.0)


def test_coscheduling_label_without_a_size_waits_for_the_pod_group_even_where_none_are_served() -> None:
    expected = (key("g", Convention.COSCHEDULING), "waiting for PodGroup default/g to exist")
    assert told(coscheduled("p", "g")) == expected
    assert told(coscheduled("p", "g"), unserved=[CoschedulingGroup]) == expected


@pytest.mark.parametrize(
    ("labels", "size"),
    [
        ({"scheduling.x-k8s.io/pod-group": "g", "fluence.group-size": "5"}, 5),
        ({"pod-group.scheduling.sigs.k8s.io": "g", "fluence.group-size": "5"}, 5),
        (
            {
                "pod-group.scheduling.sigs.k8s.io/name": "g",
                "pod-group.scheduling.sigs.k8s.io/min-available": "2",
            },
            2,
        ),
    ],
)
def test_labels_of_flux_k8s_carry_the_size_themselves(labels: dict[str, str], size: int) -> None:
    assert told(manifest("p", labels)) == (key("g", Convention.COSCHEDULING), size)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (
            {"scheduling.x-k8s.io/pod-group": "g", "fluence.group-size": "2"},
            ("g", Convention.COSCHEDULING, 2),
        ),
        ({"scheduling.x-k8s.io/pod-group": "g"}, ("g", Convention.COSCHEDULING, 3)),
        ({"fluence.group-size": "2"}, ("j", Convention.OWNER, 2)),
    ],
)
def test_labels_of_flux_k8s_may_stand_at_the_job(
    labels: dict[str, str], expected: tuple[str, Convention, int]
) -> None:
    job = Job("default", "j", "uid-j", 3, 3, labels=tuple(labels.items()))
    found = membership(job_pod("j", None), job)
    assert (found.key.name, found.key.convention, found.size) == expected
    own = {"scheduling.x-k8s.io/pod-group": "mine"}
    size = 2 if "fluence.group-size" in labels else "waiting for PodGroup default/mine to exist"
    assert told(job_pod("j", None, labels=own), job) == (key("mine", Convention.COSCHEDULING), size)


def test_pod_group_counts_before_the_size_label_and_that_before_our_annotation() -> None:
    body = flux_k8s("p", "g", "5")
    body["metadata"]["annotations"][GROUP_SIZE_ANNOTATION] = "7"
    assert told(body, CoschedulingGroup("default", "g", "u", 4))[1] == 4
    assert told(body)[1] == 5
    del body["metadata"]["labels"]["fluence.group-size"]
    assert told(body)[1] == 7


def test_native_pod_group_of_the_same_name_is_another_object() -> None:
    assert told(coscheduled("p", "g"), PodGroup("default", "g", "u", 2))[1] != 2
    assert told(native("p", "g"), CoschedulingGroup("default", "g", "u", 2))[1] != 2


@pytest.mark.parametrize("size", ["", "none", "0", "-3"])
def test_invalid_size_label_is_reported(size: str) -> None:
    found = membership(flux_k8s("p", "g", size))
    assert isinstance(found.size, Reason)
    assert found.size.code is ReasonCode.INVALID_REQUEST
    assert found.size.text.startswith(f"label fluence.group-size is {size!r}")


def test_launcher_that_waits_for_the_workers_is_not_waited_for() -> None:
    """The operator counts the launcher into minMember, and creates it when all workers are ready."""
    group = CoschedulingGroup("default", "pi", "u", 3)
    patient = MpiJob("default", "pi", "u", workers=2, launcher_last=True)
    at_once = MpiJob("default", "pi", "u", workers=2)
    label = {"scheduling.x-k8s.io/pod-group": "pi"}
    for worker in (0, 1, None):
        body = mpi_pod("pi", worker, **label)
        assert told(body, group, patient) == (key("pi", Convention.COSCHEDULING), 2)
        assert told(body, group, at_once) == (key("pi", Convention.COSCHEDULING), 3)


def test_train_job_with_an_initializer_is_a_gang_for_each_stage() -> None:
    """The Trainer counts all pods into minMember, and its JobSet creates the nodes after the initializer."""
    group = CoschedulingGroup("default", "train", "u", 5, 60.0)
    jobs = (ReplicatedJob("dataset-initializer", 1), ReplicatedJob("node", 4, ("dataset-initializer",)))
    job_set = JobSet("default", "train", "u", jobs)
    label = {"scheduling.x-k8s.io/pod-group": "train"}
    first = job_set_pod("train", "dataset-initializer", 0, 0, 1, 2, labels=label)
    node = job_set_pod("train", "node", 0, 3, 1, 2, labels=label)
    assert told(first, group, job_set) == (key("train", Convention.COSCHEDULING, "dataset-initializer"), 1)
    assert told(node, group, job_set) == (key("train", Convention.COSCHEDULING, "node"), 4)
    whole = JobSet("default", "train", "u", (ReplicatedJob("node", 5),))
    assert told(node, group, whole) == (key("train", Convention.COSCHEDULING), 5)


def test_pod_that_submits_a_ray_job_does_not_wait_for_a_pod_group_that_is_never_created() -> None:
    body = job_pod("ray-job", None, labels={"scheduling.x-k8s.io/pod-group": "ray-job"})
    submitter = Job("default", "ray-job", "u", 1, submits_ray_job=True)
    assert is_alone(body, submitter)
    assert told(body, Job("default", "ray-job", "u", 1))[1] == "waiting for PodGroup default/ray-job to exist"


def test_ray_pods_with_the_coscheduling_label_follow_the_pod_group() -> None:
    body = ray_pod("ray", "ray-head", "head", **{"scheduling.x-k8s.io/pod-group": "ray"})
    assert told(body, CoschedulingGroup("default", "ray", "u", 3)) == (key("ray", Convention.COSCHEDULING), 3)


# Our own.


def test_our_label_takes_the_annotation_then_the_job_then_one() -> None:
    job = Job("default", "j", "u", 4, 4)
    body = job_pod("j", None, labels={GROUP_LABEL: "g"})
    assert told(body, job) == (key("g", Convention.LABEL), 4)
    body["metadata"]["annotations"][GROUP_SIZE_ANNOTATION] = "2"
    assert told(body, job) == (key("g", Convention.LABEL), 2)
    assert told(manifest("p", {GROUP_LABEL: "g"})) == (key("g", Convention.LABEL), 1)


@pytest.mark.parametrize(
    ("parallelism", "completions", "expected"), [(4, None, 4), (4, 2, 2), (2, 4, 2), (0, 4, 1), (3, 0, 1)]
)
def test_size_by_job_is_its_parallelism_and_no_more_than_its_completions(
    parallelism: int, completions: int | None, expected: int
) -> None:
    body = job_pod("j", None, labels={GROUP_LABEL: "g"})
    assert told(body, Job("default", "j", "u", parallelism, completions))[1] == expected


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ("3", 3),
        (
            "many",
            "annotation fluence.flux-framework.org/group-size is 'many': it must be a whole number from 1 to 1000000",
        ),
    ],
)
def test_size_on_the_job_itself_wins_over_its_parallelism(stated: str, expected: object) -> None:
    body = job_pod("j", None, labels={GROUP_LABEL: "g"})
    assert told(body, Job("default", "j", "u", 4, 4, stated_size=stated))[1] == expected


def test_job_that_is_not_seen_yet_is_waited_for() -> None:
    body = job_pod("j", None, labels={GROUP_LABEL: "g"})
    assert told(body)[1] == "waiting for Job default/j to be seen"


@pytest.mark.parametrize(
    ("text", "expected"), [("1", 1), ("4", 4), (" 4 ", 4), ("1000000", 1_000_000), ("007", 7)]
)
def test_annotated_size(text: str, expected: int) -> None:
    assert told(manifest("p", {GROUP_LABEL: "g"}, {GROUP_SIZE_ANNOTATION: text}))[1] == expected


@pytest.mark.parametrize(
    "text",
    ["", " ", "0", "-1", "+4", "4.0", "1e3", "four", "٤", "1_0", "1000001", "9" * 5000, "4;5", "0x4", "\n"],
)
def test_invalid_size_is_reported_in_a_short_sentence(text: str) -> None:
    size = membership(manifest("p", {GROUP_LABEL: "g"}, {GROUP_SIZE_ANNOTATION: text})).size
    assert isinstance(size, Reason)
    assert size.code is ReasonCode.INVALID_REQUEST
    assert "whole number from 1 to 1000000" in size.text
    assert len(size.text) < 250


def test_empty_label_names_no_group() -> None:
    assert is_alone(manifest("p", {GROUP_LABEL: "", "scheduling.x-k8s.io/pod-group": ""}))


def test_own_timeout_counts_and_an_invalid_one_is_reported() -> None:
    body = manifest("p", {GROUP_LABEL: "g"}, {GROUP_SIZE_ANNOTATION: "2", SCHEDULE_TIMEOUT_ANNOTATION: "90"})
    assert membership(body).patience == 90
    body["metadata"]["annotations"][SCHEDULE_TIMEOUT_ANNOTATION] = "1h30m"
    assert membership(body).patience == 5400
    body["metadata"]["annotations"][SCHEDULE_TIMEOUT_ANNOTATION] = "soon"
    assert told(body)[1] == (
        f"annotation {SCHEDULE_TIMEOUT_ANNOTATION} is 'soon': it must be a time of more than 0 such as 90, 90s, 15m or"
        " 1h30m"
    )


# Kueue.


@pytest.mark.parametrize("by_annotation", [False, True])
def test_kueue_group_of_plain_pods(by_annotation: bool) -> None:
    assert told(kueue("p", "g", "3", by_annotation)) == (key("g", Convention.KUEUE), 3)


def test_kueue_group_without_a_count_says_what_is_missing() -> None:
    assert told(kueue("p", "g", None))[1] == (
        "pod p of group kueue.x-k8s.io/pod-group-name has no annotation kueue.x-k8s.io/pod-group-total-count"
    )


def test_kueue_group_of_a_service_is_no_gang() -> None:
    assert is_alone(kueue("p", "g", "3", notes={"kueue.x-k8s.io/pod-group-serving": "true"}))


def test_pod_of_a_job_that_kueue_admitted_belongs_to_its_job() -> None:
    labels = {"kueue.x-k8s.io/podset": "main", "kueue.x-k8s.io/managed": "true"}
    body = job_pod("j", 0, labels=labels)
    assert told(body, Job("default", "j", "u", 2, 2, indexed=True)) == (key("j", Convention.JOB), 2)


# Several at once.

NAMED = {
    "scheduling.x-k8s.io/pod-group": "b",
    GROUP_LABEL: "c",
    "kueue.x-k8s.io/pod-group-name": "d",
}


def test_pod_that_follows_several_conventions_goes_by_the_first() -> None:
    """The whole order, by taking away what decided until only the owner is left."""
    body = job_set_pod(
        "js", "w", 0, 0, 1, 1,
        labels={
            **NAMED,
            **leader_worker_pod("lws", 0, 0, 3)["metadata"]["labels"],
            **ray_pod("ray", "x")["metadata"]["labels"],
            **mpi_pod("pi", 0)["metadata"]["labels"],
        },
        annotations={
            "kueue.x-k8s.io/pod-group-total-count": "3",
            "leaderworkerset.sigs.k8s.io/size": "3",
            GROUP_SIZE_ANNOTATION: "3",
        },
        schedulingGroup={"podGroupName": "a"},
    )  # fmt: skip
    taken_away: dict[Convention, Callable[[], object]] = {
        Convention.POD_GROUP: lambda: body["spec"].pop("schedulingGroup"),
        Convention.COSCHEDULING: lambda: body["metadata"]["labels"].pop("scheduling.x-k8s.io/pod-group"),
        Convention.LABEL: lambda: body["metadata"]["labels"].pop(GROUP_LABEL),
        Convention.KUEUE: lambda: body["metadata"]["labels"].pop("kueue.x-k8s.io/pod-group-name"),
        Convention.LEADER_WORKER_SET: lambda: body["metadata"]["labels"].pop(
            "leaderworkerset.sigs.k8s.io/name"
        ),
        Convention.RAY_CLUSTER: lambda: body["metadata"]["labels"].pop("ray.io/cluster"),
        Convention.MPI_JOB: lambda: body["metadata"]["labels"].pop("training.kubeflow.org/job-name"),
        Convention.JOB_SET: lambda: body["metadata"]["labels"].pop("jobset.sigs.k8s.io/jobset-name"),
        Convention.OWNER: lambda: body["metadata"]["annotations"].pop(GROUP_SIZE_ANNOTATION),
        Convention.JOB: lambda: body["metadata"].pop("ownerReferences"),
    }
    found = []
    for take_away in taken_away.values():
        found.append(membership(body).key.convention)
        take_away()
    assert found == list(taken_away) == list(CONVENTIONS)
    assert is_alone(body)


def test_members_of_one_label_in_two_namespaces_are_two_gangs() -> None:
    first, second = manifest("p", {GROUP_LABEL: "g"}), manifest("p", {GROUP_LABEL: "g"})
    second["metadata"]["namespace"] = "other"
    assert {str(membership(body).key) for body in (first, second)} == {"default/g", "other/g"}


def test_longest_names_are_names() -> None:
    body = native("p" * 253, "g" * 253)
    assert membership(body).key.name == "g" * 253
    assert membership(manifest("p" * 253, {GROUP_LABEL: "g" * 63})).key.name == "g" * 63


# Agreement.


def test_members_agree_or_the_first_of_each_opinion_is_named() -> None:
    gang = key("g", Convention.LABEL)
    two = "p", Membership(gang, 2, "Job b")
    assert agreed_size(gang, []) == 1
    assert agreed_size(gang, [two, two]) == 2
    three = "p", Membership(gang, 3, "Job a")
    expected = "members of gang default/g disagree on its size: Job b says 2, Job a says 3"
    for memberships in ([two, three], [three, two], [three, two, ("p", Membership(gang, 2, "Job c"))]):
        assert agreed_size(gang, memberships) == Reason(ReasonCode.INVALID_REQUEST, expected)


def test_reason_of_one_member_is_that_of_all() -> None:
    gang = key("g", Convention.LABEL)
    why = Reason(ReasonCode.WAITING_FOR_MEMBERS, "waiting for Job default/j to be seen")
    stated = Membership(gang, 2, "Job b"), Membership(gang, why, "Job j")
    assert agreed_size(gang, [("p", one) for one in stated]) == why


def test_pods_that_disagree_are_named() -> None:
    bodies = {
        name: manifest(name, {GROUP_LABEL: "g"}, {GROUP_SIZE_ANNOTATION: size}) for name, size in ("a2", "b3")
    }
    stated = [(name, membership(body)) for name, body in bodies.items()]
    size = agreed_size(key("g", Convention.LABEL), stated)
    assert isinstance(size, Reason)
    said = f"annotation {GROUP_SIZE_ANNOTATION} of pod"
    assert size.text == f"members of gang default/g disagree on its size: {said} a says 2, {said} b says 3"
