"""Groups that admission has linked: of what size they are, with a PodGroup and without one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from fluence_extender.gangs.membership.gang import agreed_size
from fluence_extender.kinds.job import Job
from fluence_extender.kinds.jobset import JobSet, ReplicatedJob
from fluence_extender.kinds.leaderworkerset import LeaderWorkerSet
from fluence_extender.kinds.membership import Membership
from fluence_extender.kinds.podgroups import CoschedulingGroup, PodGroup
from fluence_extender.kinds.replicas import ReplicaSet, StatefulSet
from fluence_extender.kinds.workload import Provenance
from fluence_extender.model.gang import Convention
from fluence_extender.model.names import GROUP_LABEL, GROUP_SIZE_ANNOTATION
from fluence_extender.model.reason import Reason
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


Link = Callable[..., Manifest]
LINKS = pytest.mark.parametrize(
    ("link", "convention"),
    [
        (labelled, Convention.LABEL),
        (native, Convention.POD_GROUP),
        (coscheduled, Convention.COSCHEDULING),
    ],
)


OWNERS = pytest.mark.parametrize(
    ("kind", "owner"),
    [
        ("ReplicaSet", ReplicaSet("default", "o", "u", 3)),
        ("StatefulSet", StatefulSet("default", "o", "u", 3, 3)),
        ("Job", Job("default", "o", "u", 3)),
    ],
)


@LINKS
@OWNERS
def test_owner_says_the_size_unless_the_pod_says_it(
    link: Link, convention: Convention, kind: str, owner: Job | ReplicaSet | StatefulSet
) -> None:
    api = "batch/v1" if kind == "Job" else "apps/v1"
    body = link(manifest("p", {}, {}, (api, kind, "o")))
    assert told(body) == (key("g", convention), f"waiting for {kind} default/o to be seen")
    assert told(body, owner) == (key("g", convention), 3)
    body["metadata"]["annotations"] |= {GROUP_SIZE_ANNOTATION: "4"}
    assert told(body) == told(body, owner) == (key("g", convention), 4)


@pytest.mark.parametrize("kind", ["Job", "ReplicaSet", "StatefulSet"])
def test_owner_of_the_same_kind_in_another_api_says_nothing(kind: str) -> None:
    body = labelled(manifest("p", {}, {}, ("example.com/v1", kind, "o")))
    assert told(body) == (key("g", Convention.LABEL), 1)


@pytest.mark.parametrize(
    "group", [PodGroup("default", "g", "u", 2), CoschedulingGroup("default", "g", "u", 2)]
)
def test_pod_that_admission_has_not_linked_is_a_member_of_the_podgroup_that_its_label_names(
    group: PodGroup | CoschedulingGroup,
) -> None:
    linked = native if isinstance(group, PodGroup) else coscheduled
    body = labelled(manifest("p", {}, {}, ("apps/v1", "ReplicaSet", "r")))
    others = linked(manifest("q", {}, {}, ("apps/v1", "ReplicaSet", "r")))
    owner = ReplicaSet("default", "r", "u", 3)
    assert told(body, owner, group) == told(others, owner, group)
    assert told(body, owner, group)[1] == 2


@pytest.mark.parametrize("other", [COSCHEDULING, "pod-group.scheduling.sigs.k8s.io"])
def test_pod_with_another_groups_name_is_no_member_of_the_podgroup_that_its_label_names(other: str) -> None:
    body = labelled(manifest("p", {other: "h"}, {}))
    assert told(body, PodGroup("default", "g", "u", 2))[0] == key("h", Convention.COSCHEDULING)


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


@pytest.mark.parametrize("kind", [PodGroup, CoschedulingGroup])
@pytest.mark.parametrize(
    "owner",
    [
        ReplicaSet("default", "o", "u", 3),
        StatefulSet("default", "o", "u", 3, 3),
        Job("default", "o", "u", 3),
    ],
)
def test_podgroup_that_admission_made_never_overrules_the_owner(
    kind: type[PodGroup | CoschedulingGroup], owner: Job | ReplicaSet | StatefulSet
) -> None:
    link, convention = (
        (native, Convention.POD_GROUP) if kind is PodGroup else (coscheduled, Convention.COSCHEDULING)
    )
    api = "batch/v1" if isinstance(owner, Job) else "apps/v1"
    body = link(manifest("p", {}, {}, (api, type(owner).__name__, "o")))
    made = kind("default", "g", "g", 4, provenance=Provenance("fluence-webhook"))
    assert told(body, owner, made) == (key("g", convention), 3)
    users = kind("default", "g", "g", 4)
    assert told(body, owner, users) == (key("g", convention), 4)


def test_podgroup_that_becomes_a_users_own_is_looked_at_again() -> None:
    made = PodGroup("default", "g", "g", 4, provenance=Provenance("fluence-webhook", "1"))
    assert made == replace(made, provenance=Provenance("fluence-webhook", "2"))
    assert made != replace(made, provenance=Provenance("", "2"))


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


# Several owners.


def test_owners_that_state_different_sizes_are_named() -> None:
    gang = key("g", Convention.LABEL)
    size = agreed_size(
        gang,
        [("a", Membership(gang, 2, "ReplicaSet web-1")), ("b", Membership(gang, 3, "StatefulSet store"))],
    )
    assert isinstance(size, Reason)
    assert size.text == (
        "members of gang default/g disagree on its size: ReplicaSet web-1 says 2, StatefulSet store says 3"
    )
