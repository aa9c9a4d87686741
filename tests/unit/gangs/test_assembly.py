"""Which gang a pod belongs to, and how many members make it whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fluence_extender.gangs.assembly import foreign_gates, gang_key, gang_size
from fluence_extender.model.gang import Convention, GangKey
from fluence_extender.model.names import GATE, GROUP_LABEL, GROUP_SIZE_ANNOTATION
from fluence_extender.model.pod import Owner, Pod
from fluence_extender.model.reason import Reason, Why
from fluence_extender.model.workload import Job, PodGroup
from tests.core.values import pod

LABELLED = GangKey("default", "g", Convention.LABEL)


def none(*_: str) -> None:
    return None


def member(size: str | None = None, owner: Owner | None = None) -> Pod:
    annotations = {} if size is None else {GROUP_SIZE_ANNOTATION: size}
    return pod(labels={GROUP_LABEL: "g"}, annotations=annotations, owner=owner)


def size(*members: Pod, job: Callable[..., Any] = none) -> int | Reason:
    return gang_size(LABELLED, members, none, job)


def test_native_group_counts_before_the_label_and_a_pod_without_either_is_alone() -> None:
    assert gang_key(pod(group="native", labels={GROUP_LABEL: "g"})).convention is Convention.POD_GROUP
    assert gang_key(pod(labels={GROUP_LABEL: "g"})) == LABELLED
    assert gang_key(pod(labels={GROUP_LABEL: ""}, uid="u")) == GangKey("default", "p", Convention.ALONE, "u")


def test_two_pods_of_one_name_are_two_gangs() -> None:
    assert gang_key(pod(uid="a")) != gang_key(pod(uid="b"))


@pytest.mark.parametrize(
    ("text", "expected"), [("1", 1), ("4", 4), (" 4 ", 4), ("1000000", 1_000_000), ("007", 7)]
)
def test_annotated_size(text: str, expected: int) -> None:
    assert size(member(text)) == expected


@pytest.mark.parametrize(
    "text",
    ["", " ", "0", "-1", "+4", "4.0", "1e3", "four", "٤", "1_0", "1000001", "9" * 5000, "4;5", "0x4", "\n"],
)
def test_nonsense_size_is_said_in_a_short_sentence(text: str) -> None:
    reason = size(member(text))
    assert isinstance(reason, Reason)
    assert reason.why is Why.INVALID
    assert "whole number from 1 to 1000000" in reason.text
    assert len(reason.text) < 250


def test_members_must_agree_on_the_size() -> None:
    assert size(member("2"), member("2")) == 2
    reason = size(member("3"), member("2"))
    assert isinstance(reason, Reason)
    assert "(2 and 3)" in reason.text


@pytest.mark.parametrize(
    ("parallelism", "completions", "expected"), [(4, None, 4), (4, 2, 2), (2, 4, 2), (0, 4, 1), (3, 0, 1)]
)
def test_size_is_the_jobs_parallelism_and_no_more_than_its_completions(
    parallelism: int, completions: int | None, expected: int
) -> None:
    job = Job("default", "j", "uid", parallelism, completions)
    assert size(member(owner=Owner("Job", "j", "uid")), job=lambda *_: job) == expected


def test_annotation_counts_before_the_job() -> None:
    job = Job("default", "j", "uid", 4, 4)
    assert size(member("2", Owner("Job", "j", "uid")), job=lambda *_: job) == 2


def test_job_that_is_not_seen_yet_is_waited_for() -> None:
    reason = size(member(owner=Owner("Job", "j", "uid")))
    assert reason == Reason(Why.WAITING, "waiting for Job default/j to be seen")


def test_label_without_size_or_job_is_a_gang_of_one() -> None:
    assert size(member()) == 1
    assert size(member(owner=Owner("ReplicaSet", "r", "uid"))) == 1
    assert size() == 1


def test_pod_group_says_its_minimum_and_is_waited_for() -> None:
    key = GangKey("default", "g", Convention.POD_GROUP)
    assert gang_size(key, [], lambda *_: PodGroup("default", "g", "u", 3), none) == 3
    reason = gang_size(key, [], none, none)
    assert reason == Reason(Why.WAITING, "waiting for PodGroup default/g to exist")


def test_pod_alone_is_whole() -> None:
    assert gang_size(gang_key(pod()), [pod()], none, none) == 1


def test_gates_of_others_are_those_that_are_not_ours() -> None:
    assert foreign_gates(pod(gates=(GATE, "example.com/quota"))) == ("example.com/quota",)
