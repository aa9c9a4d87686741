"""Groups that admission has linked: of what size they are, with a PodGroup and without one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fluence_extender.gangs.membership.assembly import agreed_size
from fluence_extender.gangs.membership.conventions.membership import Membership
from fluence_extender.model.gang import Convention
from fluence_extender.model.names import GROUP_LABEL, GROUP_SIZE_ANNOTATION, OWNER_SIZE_ANNOTATION
from fluence_extender.model.reason import Reason
from fluence_extender.model.workload import (
    CoschedulingGroup,
    Job,
    JobSet,
    LeaderWorkerSet,
    PodGroup,
    ReplicatedJob,
)
from tests.core.manifests import Manifest, job_pod, job_set_pod, leader_worker_pod, manifest
from tests.unit.gangs.memberships import key, membership, told

PREFIX = "fluence.flux-framework.org/"
COSCHEDULING = "scheduling.x-k8s.io/pod-group"


def labelled(body: Manifest, group: str = "g") -> Manifest:
    body["metadata"]["labels"] |= {GROUP_LABEL: group}
    return body


def native(body: Manifest, group: str = "g") -> Manifest:
    """As the webhook links it where native PodGroups are served."""
    body["spec"]["schedulingGroup"] = {"podGroupName": group}
    return labelled(body, group)


def coscheduled(body: Manifest, group: str = "g") -> Manifest:
    """The same where those of scheduling.x-k8s.io are."""
    body["metadata"]["labels"] |= {COSCHEDULING: group}
    return labelled(body, group)


NO_NUMBER = f"annotation {OWNER_SIZE_ANNOTATION} is 'two': it must be a whole number from 1 to 1000000"
Link = Callable[..., Manifest]
LINKS = pytest.mark.parametrize(
    ("link", "convention"),
    [
        (labelled, Convention.LABEL),
        (native, Convention.POD_GROUP),
        (coscheduled, Convention.COSCHEDULING),
    ],
)


@LINKS
@pytest.mark.parametrize(
    ("annotations", "size"),
    [
        ({GROUP_SIZE_ANNOTATION: "4"}, 4),
        ({GROUP_SIZE_ANNOTATION: "4", OWNER_SIZE_ANNOTATION: "2"}, 4),
        ({OWNER_SIZE_ANNOTATION: "2"}, 2),
        ({}, 1),
        (
            {OWNER_SIZE_ANNOTATION: "two"},
            f"annotation {OWNER_SIZE_ANNOTATION} is 'two': it must be a whole number from 1 to 1000000",
        ),
    ],
)
def test_pod_of_a_replica_set_says_its_size_or_what_was_noted(
    link: Link, convention: Convention, annotations: dict[str, str], size: object
) -> None:
    body = manifest("p", {}, annotations, ("apps/v1", "ReplicaSet", "r"))
    assert told(link(body)) == (key("g", convention), size)


@LINKS
def test_job_says_the_size(link: Link, convention: Convention) -> None:
    body = link(job_pod("j", None, labels={}))
    assert told(body, Job("default", "j", "u", 3)) == (key("g", convention), 3)
    assert told(body) == (key("g", convention), "waiting for Job default/j to be seen")


@LINKS
def test_job_set_says_the_size_of_what_exists_at_once(link: Link, convention: Convention) -> None:
    body = link(job_set_pod("js", "w", 0, 0, 1, 2))
    jobs = (ReplicatedJob("w", 2), ReplicatedJob("d", 5))
    assert told(body, JobSet("default", "js", "u", jobs)) == (key("g", convention), 7)
    staged = JobSet("default", "js", "u", jobs, in_order=True)
    assert told(body, staged) == (key("g", convention, part="w"), 2)


@LINKS
def test_leader_worker_set_says_the_size(link: Link, convention: Convention) -> None:
    body = link(leader_worker_pod("l", 0, 1, 3))
    plain = LeaderWorkerSet("default", "l", "u")
    found = membership(body, plain)
    assert (found.key.name, found.key.convention, found.size) == ("g", convention, 3)
    assert membership(body, LeaderWorkerSet("default", "l", "u", leader_first=True)).size == 2


def test_podgroup_rules_once_it_is_there() -> None:
    body = native(manifest("p", {}, {GROUP_SIZE_ANNOTATION: "4"}))
    assert told(body, PodGroup("default", "g", "u", 2)) == (key("g", Convention.POD_GROUP), 2)
    body = coscheduled(manifest("p", {}, {GROUP_SIZE_ANNOTATION: "4"}))
    assert told(body, CoschedulingGroup("default", "g", "u", 2)) == (key("g", Convention.COSCHEDULING), 2)


def test_podgroup_of_another_name_than_the_label_is_waited_for() -> None:
    body = labelled(native(manifest("p", {}, {GROUP_SIZE_ANNOTATION: "4"})), "other")
    assert told(body)[1] == "waiting for PodGroup default/g to exist"


# Shared quantum jobs.


@LINKS
@pytest.mark.parametrize(("size", "consumers"), [("5", 4), ("2", 1), ("1", 1)])
def test_consumers_are_the_group_without_its_producer(
    link: Link, convention: Convention, size: str, consumers: int
) -> None:
    notes = {GROUP_SIZE_ANNOTATION: size, f"{PREFIX}depends-on-producer": "g-producer"}
    assert told(link(manifest("p", {}, notes))) == (key("g", convention), consumers)


@LINKS
def test_producer_is_a_gang_of_its_own(link: Link, convention: Convention) -> None:
    notes = {GROUP_SIZE_ANNOTATION: "5", f"{PREFIX}coordination-role": "producer"}
    body = link(manifest("p", {}, notes), "g-producer")
    assert told(body) == (key("g-producer", convention), 1)


def test_role_that_a_user_set_alone_changes_no_size() -> None:
    """Until the webhook gives the pod a group of its own it is a member like the others."""
    notes = {GROUP_SIZE_ANNOTATION: "5", f"{PREFIX}coordination-role": "producer"}
    assert told(labelled(manifest("p", {}, notes)))[1] == 5


def test_consumers_of_a_job_follow_its_size() -> None:
    body = labelled(job_pod("j", None, labels={}))
    body["metadata"]["annotations"] |= {f"{PREFIX}depends-on-producer": "g-producer"}
    assert told(body, Job("default", "j", "u", 6)) == (key("g", Convention.LABEL), 5)


# Sizes noted at different moments.


def noted(*sizes: int) -> list[Membership]:
    return [Membership(key("g", Convention.LABEL), size, f"p{size}", noted=True) for size in sizes]


def test_largest_noted_size_counts_if_no_other_is_stated() -> None:
    gang = key("g", Convention.LABEL)
    said = Membership(gang, 3, "somebody")
    assert agreed_size(gang, noted(2, 5, 4)) == 5
    assert agreed_size(gang, [*noted(2, 5), said]) == 3
    assert agreed_size(gang, noted()) == 1
    assert isinstance(agreed_size(gang, [*noted(2), said, Membership(gang, 4, "another")]), Reason)
