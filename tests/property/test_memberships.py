"""Memberships: whatever stands on a pod, and in whatever order objects come and go, the same is said in the end."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fluence_extender.gangs.membership.gang import agreed_size
from fluence_extender.gangs.membership.workloads import WorkloadIndex
from fluence_extender.kinds.job import Job
from fluence_extender.kinds.jobset import JobSet, ReplicatedJob
from fluence_extender.kinds.leaderworkerset import LeaderWorkerSet
from fluence_extender.kinds.mpijob import MpiJob
from fluence_extender.kinds.podgroups import CoschedulingGroup, PodGroup
from fluence_extender.kinds.ray import RayCluster
from fluence_extender.kinds.replicas import ReplicaSet, StatefulSet
from fluence_extender.kinds.workload import Workload
from fluence_extender.model.gang import Convention
from fluence_extender.model.names import GROUP_LABEL, GROUP_SIZE_ANNOTATION, SCHEDULE_TIMEOUT_ANNOTATION
from fluence_extender.model.pod import Owner, Pod
from fluence_extender.model.reason import Reason

LABELS = (
    GROUP_LABEL,
    "scheduling.x-k8s.io/pod-group",
    "pod-group.scheduling.sigs.k8s.io",
    "fluence.group-size",
    "kueue.x-k8s.io/pod-group-name",
    "jobset.sigs.k8s.io/jobset-name",
    "jobset.sigs.k8s.io/replicatedjob-name",
    "leaderworkerset.sigs.k8s.io/name",
    "leaderworkerset.sigs.k8s.io/group-index",
    "leaderworkerset.sigs.k8s.io/worker-index",
    "ray.io/cluster",
    "training.kubeflow.org/job-name",
)
MARKS = {"ray.io/is-ray-node": "yes", "training.kubeflow.org/operator-name": "mpi-operator"}
ANNOTATIONS = (
    GROUP_SIZE_ANNOTATION,
    SCHEDULE_TIMEOUT_ANNOTATION,
    "kueue.x-k8s.io/pod-group-name",
    "kueue.x-k8s.io/pod-group-total-count",
    "kueue.x-k8s.io/pod-group-serving",
    "leaderworkerset.sigs.k8s.io/size",
    "leaderworkerset.sigs.k8s.io/exclusive-topology",
    "batch.kubernetes.io/job-completion-index",
)
words = st.sampled_from(["a", "b", "0", "1", "3", "true", "", "-2", "9" * 12, "٣", "x" * 63])
names = st.sampled_from(["a", "b"])
sizes = st.integers(0, 4)


@st.composite
def pods(draw: Any) -> Pod:
    number = draw(st.integers(0, 10_000))
    labels = draw(st.dictionaries(st.sampled_from(LABELS), words, max_size=5))
    labels |= draw(st.sampled_from([{}, MARKS]))
    return Pod(
        "default",
        f"p{number}",
        f"u{number}",
        labels=labels,
        annotations=draw(st.dictionaries(st.sampled_from(ANNOTATIONS), words, max_size=4)),
        group=draw(st.sampled_from(["", "", "a"])),
        owner=draw(
            st.sampled_from(
                [
                    None,
                    Owner("Job", "a", "ja"),
                    Owner("StatefulSet", "b", "sb"),
                    Owner("ReplicaSet", "a", "ra", "apps/v1"),
                ]
            )
        ),
    )


def _of(kind: type[Workload], *fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Workload]:
    return st.builds(
        lambda name, rest: kind("default", name, f"{name}-uid", *rest), names, st.tuples(*fields)
    )


replicated = st.builds(ReplicatedJob, names, sizes, st.lists(names, max_size=1).map(tuple))
workloads = st.one_of(
    _of(PodGroup, st.integers(1, 4)),
    _of(CoschedulingGroup, st.integers(1, 4), st.sampled_from([None, 5.0])),
    _of(Job, sizes, st.none() | sizes, st.booleans(), st.booleans()),
    _of(ReplicaSet, st.integers(1, 4)),
    _of(StatefulSet, st.integers(1, 4)),
    _of(JobSet, st.lists(replicated, max_size=3).map(tuple), st.booleans()),
    _of(LeaderWorkerSet, st.booleans()),
    _of(MpiJob, sizes, st.booleans(), st.none() | sizes),
    _of(RayCluster, st.integers(1, 4), st.booleans()),
)
changes = st.lists(st.tuples(st.booleans(), workloads), max_size=12)


@given(pod=pods(), history=changes)
def test_any_pod_has_a_membership_and_another_when_what_it_depends_on_changes(
    pod: Pod, history: list[tuple[bool, Workload]]
) -> None:
    followed = WorkloadIndex()
    followed.add_pod(pod)
    membership = followed.membership(pod)
    for there, thing in history:
        if pod.uid in (followed.put(thing) if there else followed.drop(thing)):
            membership = followed.membership(pod)
    at_once = WorkloadIndex()
    for there, thing in history:
        (at_once.put if there else at_once.drop)(thing)
    assert membership == at_once.membership(pod)
    assert isinstance(membership.size, Reason) or 1 <= membership.size <= 10**9
    assert membership.key.namespace == pod.namespace
    assert membership.key.name
    if membership.key.convention is Convention.ALONE:
        assert membership.key.uid == pod.uid


@given(members=st.lists(pods(), max_size=6), known=st.lists(workloads, max_size=6))
def test_agreement_does_not_depend_on_the_order_of_members(members: list[Pod], known: list[Workload]) -> None:
    index = WorkloadIndex()
    for thing in known:
        index.put(thing)
    memberships = [(pod.name, index.membership(pod)) for pod in members]
    keys = {membership.key for _, membership in memberships}
    for key in keys:
        of_gang = [(name, membership) for name, membership in memberships if membership.key == key]
        if not any(isinstance(membership.size, Reason) for _, membership in of_gang):
            assert agreed_size(key, of_gang) == agreed_size(key, reversed(of_gang))
