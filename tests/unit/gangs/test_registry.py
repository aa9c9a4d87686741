"""What is known of pods and gangs, and which gangs a change touches."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.gangs.reporting.past_gangs import REMEMBERED_FOR
from fluence_extender.kinds.job import Job
from fluence_extender.kinds.membership import Membership
from fluence_extender.kinds.podgroups import CoschedulingGroup, MemberStatus, PodGroup
from fluence_extender.kinds.ray import RayCluster
from fluence_extender.model.assignment import Assignment
from fluence_extender.model.gang import Convention, GangKey, HistoryKind
from fluence_extender.model.names import COMPLETION_INDEX, GROUP_LABEL
from fluence_extender.model.pod import Owner, Pod
from tests.core.values import pod

COSCHEDULED = {"scheduling.x-k8s.io/pod-group": "g"}
INDEXED = {"batch.kubernetes.io/job-completion-index": "0"}


def dirty(registry: Registry) -> set[str]:
    names = set()
    while registry.dirty:
        names.add(registry.dirty.take().name)
    return names


def placed_member(registry: Registry, one: Pod) -> Member:
    """Give the pod a place; return its member."""
    (gang,) = (gang for gang in registry.gangs.values() if one.uid in gang.members)
    return gang.place(one.uid, Assignment(one.uid, "n0"))


def membership_of(registry: Registry, one: Pod) -> Membership:
    (member,) = (member for _, member in registry.members() if member.pod.uid == one.uid)
    return member.membership


def test_pod_is_a_member_of_its_gang_until_it_is_gone() -> None:
    registry = Registry()
    one = pod(labels={GROUP_LABEL: "g"})
    member = registry.put_pod(one)
    assert dirty(registry) == {"g"}
    found = registry.member(one.uid)
    assert found is not None
    assert found[1] is member
    registry.drop_pod(one.uid)
    assert registry.member(one.uid) is None
    assert not registry.gangs
    registry.drop_pod(one.uid)


def test_lowest_priority_follows_the_pods() -> None:
    registry = Registry()
    assert registry.lowest_priority == 0
    high, low = pod(labels={GROUP_LABEL: "g"}, priority=100), pod(priority=-5)
    registry.put_pod(high)
    assert registry.lowest_priority == 100
    registry.put_pod(low)
    assert registry.lowest_priority == -5
    registry.put_pod(replace(low, priority=7, labels={GROUP_LABEL: "g"}))
    assert registry.lowest_priority == 7
    registry.drop_pod(low.uid)
    assert registry.lowest_priority == 100
    registry.drop_pod(high.uid)
    assert registry.lowest_priority == 0


def test_new_state_of_a_pod_keeps_its_member() -> None:
    registry = Registry()
    one = pod(labels={GROUP_LABEL: "g"})
    registry.put_pod(one)
    placed = placed_member(registry, one)
    member = registry.put_pod(replace(one, nominated="n0"))
    assert member == msgspec.structs.replace(placed, pod=replace(one, nominated="n0"))


def test_pod_that_is_relabelled_changes_its_gang() -> None:
    registry = Registry()
    one, other = pod(labels={GROUP_LABEL: "g"}), pod(labels={GROUP_LABEL: "g"})
    registry.put_pod(one)
    registry.put_pod(other)
    placed = placed_member(registry, one)
    dirty(registry)
    member = registry.put_pod(replace(one, labels={GROUP_LABEL: "h"}))
    assert (member.assignment, member.record) == (placed.assignment, placed.record)
    assert dirty(registry) == {"g", "h"}
    assert {key.name: len(gang.members) for key, gang in registry.gangs.items()} == {"g": 1, "h": 1}
    registry.put_pod(replace(other, labels={GROUP_LABEL: "h"}))
    assert {key.name: len(gang.members) for key, gang in registry.gangs.items()} == {"h": 2}


def test_job_touches_the_gangs_of_its_pods_when_it_changes() -> None:
    registry = Registry()
    registry.put_pod(pod(labels={GROUP_LABEL: "g"}, owner=Owner("Job", "j", "uid")))
    registry.put_pod(pod(labels={GROUP_LABEL: "other"}))
    dirty(registry)
    job = Job("default", "j", "uid", 2)
    registry.put_workload(job)
    assert dirty(registry) == {"g"}
    registry.put_workload(job)
    assert dirty(registry) == set()
    registry.put_workload(replace(job, parallelism=3))
    assert dirty(registry) == {"g"}
    registry.replace_workloads(Job, [])
    assert registry.workloads.find(Job, "default", "j") is None
    assert dirty(registry) == {"g"}


def test_pod_group_touches_its_gang_when_it_changes() -> None:
    registry = Registry()
    registry.put_pod(pod(group="pg"))
    dirty(registry)
    group = PodGroup("default", "pg", "uid", 2)
    registry.replace_workloads(PodGroup, [group, PodGroup("default", "unused", "u", 1)])
    assert dirty(registry) == {"pg"}
    registry.replace_workloads(PodGroup, [group])
    assert dirty(registry) == set()
    assert registry.workloads.find(PodGroup, "default", "unused") is None
    registry.drop_workload(group)
    assert dirty(registry) == {"pg"}


def test_status_of_a_pod_group_touches_no_gang() -> None:
    registry = Registry()
    registry.put_pod(pod(labels=COSCHEDULED))
    group = CoschedulingGroup("default", "g", "uid", 2)
    registry.put_workload(group)
    dirty(registry)
    registry.touched_groups.clear()
    registry.put_workload(replace(group, status=MemberStatus("Running", running=2)))
    assert dirty(registry) == set()
    assert registry.touched_groups == {("default", "g")}


def test_pod_group_that_only_the_labels_of_a_job_name_touches_the_jobs_pods() -> None:
    registry = Registry()
    one = pod(owner=Owner("Job", "j", "uid"))
    registry.put_pod(one)
    registry.put_workload(Job("default", "j", "uid", 2, labels=tuple(COSCHEDULED.items())))
    assert membership_of(registry, one).key.convention is Convention.COSCHEDULING
    dirty(registry)
    registry.replace_workloads(CoschedulingGroup, [CoschedulingGroup("default", "g", "u", 3)])
    assert membership_of(registry, one).size == 3
    assert dirty(registry) == {"g"}
    registry.put_workload(CoschedulingGroup("default", "g", "u", 4))
    assert membership_of(registry, one).size == 4


def test_owner_that_turns_out_to_be_no_gang_sets_its_pods_free() -> None:
    registry = Registry()
    pods = [pod(f"p{number}", annotations=INDEXED, owner=Owner("Job", "j", "uid")) for number in range(2)]
    for one in pods:
        registry.put_pod(one)
    assert {key.convention for key in registry.gangs} == {Convention.JOB}
    registry.put_workload(Job("default", "j", "uid", 2, 8, indexed=True))
    assert sorted(key.name for key in registry.gangs) == ["p0", "p1"]
    registry.put_workload(Job("default", "j", "uid", 2, 2, indexed=True))
    assert [key.name for key in registry.gangs] == ["j"]


def test_kind_that_is_served_after_all_is_waited_for() -> None:
    registry = Registry()
    registry.replace_workloads(RayCluster, [], served=False)
    one = pod("ray-head", labels={"ray.io/cluster": "ray", "ray.io/is-ray-node": "yes"})
    registry.put_pod(one)
    named_by = [membership_of(registry, one).key.convention]
    registry.replace_workloads(RayCluster, [], served=True)
    named_by.append(membership_of(registry, one).key.convention)
    assert named_by == [Convention.ALONE, Convention.RAY_CLUSTER]
    registry.put_workload(RayCluster("default", "ray", "u", 3, gang=True))
    assert membership_of(registry, one).size == 3
    registry.drop_pod(one.uid)
    registry.put_workload(RayCluster("default", "ray", "u", 4, gang=True))
    assert not registry.gangs


def test_pods_of_other_schedulers_that_name_a_gang_are_counted() -> None:
    registry = Registry()
    gang = gang_of(registry, pod(labels={GROUP_LABEL: "g"}))
    dirty(registry)
    stranger = pod("s", labels={GROUP_LABEL: "g"}, scheduler="other")
    registry.put_foreign_pod(stranger)
    assert dirty(registry) == {"g"}
    assert registry.foreign_members(gang) == {"other": 1}
    registry.put_foreign_pod(stranger)
    assert not dirty(registry)
    registry.put_foreign_pod(replace(stranger, phase="Succeeded"))
    assert dirty(registry) == {"g"}
    assert not registry.foreign_members(gang)
    registry.put_foreign_pod(stranger)
    registry.put_foreign_pod(replace(stranger, labels={}))
    assert not registry.foreign_members(gang)
    registry.put_foreign_pod(stranger)
    registry.drop_foreign_pod(stranger.uid)
    assert not registry.foreign_members(gang)


def pod_of_a_job(uid: str, index: str = "", namespace: str = "default") -> Pod:
    annotations = {COMPLETION_INDEX: index} if index else {}
    owner = Owner("Job", "j", "uid-of-j", "batch/v1")
    return Pod(namespace, f"j-{uid}", uid, annotations=annotations, owner=owner)


def gang_of(registry: Registry, pod: Pod) -> Gang:
    registry.put_pod(pod)
    found = registry.member(pod.uid)
    assert found is not None
    return found[0]


def preempted(registry: Registry, pod: Pod) -> None:
    """Let a pod come, be preempted and go."""
    history = gang_of(registry, pod).history
    history.preempt()
    history.note(HistoryKind.REQUEUED, pod.name)
    registry.drop_pod(pod.uid)


def test_gang_that_comes_back_under_its_key_goes_on_with_its_history_once() -> None:
    registry = Registry()
    preempted(registry, pod_of_a_job("a"))
    again = gang_of(registry, pod_of_a_job("a")).history
    assert again.preemptions == 1
    assert [one.kind.value for one in again.entries] == ["seen", "requeued", "released", "gone", "seen"]
    assert gang_of(registry, pod_of_a_job("b")).history.preemptions == 0


def test_gang_whose_history_another_has_taken_over_goes_on_with_that_of_the_last_one() -> None:
    registry = Registry()
    preempted(registry, pod_of_a_job("a"))
    preempted(registry, pod_of_a_job("b"))
    again = gang_of(registry, pod_of_a_job("a")).history
    assert again.preemptions == 2
    assert [one.kind.value for one in again.entries].count("requeued") == 2
    assert registry.gone.get(GangKey("default", "j-b", Convention.ALONE, "b")) is not None


def test_history_is_handed_over_in_the_order_of_time_to_a_pod_that_is_there_already() -> None:
    now = [0.0]
    registry = Registry(lambda: now[0])
    old = gang_of(registry, pod_of_a_job("a")).history
    now[0] = 10
    old.preempt()
    old.note(HistoryKind.EVICTED, "j-a")
    now[0] = 12
    new = gang_of(registry, pod_of_a_job("b")).history
    now[0] = 40
    registry.drop_pod("a")
    assert new.preemptions == 1
    told = [(one.at, one.kind.value) for one in new.entries]
    assert told == [(0, "seen"), (10, "evicted"), (12, "seen"), (40, "released"), (40, "gone")]
    # It was handed over once.
    assert gang_of(registry, pod_of_a_job("a")).history.preemptions == 0


def test_pods_of_other_indexes_namespaces_and_later_times_do_not_go_on_with_a_history() -> None:
    now = [0.0]
    registry = Registry(lambda: now[0])
    for namespace in ("default", "other"):
        registry.put_workload(Job(namespace, "j", "uid-of-j", 1, completions=2, indexed=True))
    preempted(registry, pod_of_a_job("a", "0"))
    for other in (pod_of_a_job("b", "1"), pod_of_a_job("c", "0", "other"), pod_of_a_job("d")):
        assert gang_of(registry, other).history.preemptions == 0
    preempted(registry, pod_of_a_job("e", "0"))
    assert gang_of(registry, pod_of_a_job("f", "0")).history.preemptions == 2
    registry.drop_pod("f")
    now[0] = REMEMBERED_FOR
    assert gang_of(registry, pod_of_a_job("g", "0")).history.preemptions == 0


def test_successor_of_a_pod_that_succeeded_begins_anew() -> None:
    registry = Registry()
    gang_of(registry, pod_of_a_job("a")).history.preempt()
    registry.put_pod(replace(pod_of_a_job("a"), phase="Succeeded"))
    registry.drop_pod("a")
    assert gang_of(registry, pod_of_a_job("b")).history.preemptions == 0
