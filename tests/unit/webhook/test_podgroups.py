"""Which PodGroups are created, resized and removed, whatever the order of observations."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest

from fluence_extender.cluster.port import WORKLOADS, Changed, Deleted, Kind, Listed, Watched
from fluence_extender.kinds.job import Job
from fluence_extender.kinds.jobset import JobSet, ReplicatedJob
from fluence_extender.kinds.podgroups import CoschedulingGroup, PodGroup
from fluence_extender.kinds.replicas import ReplicaSet
from fluence_extender.kinds.workload import Provenance
from fluence_extender.model.names import (
    GROUP_LABEL,
    GROUP_SIZE_ANNOTATION,
    WEBHOOK_NAME,
)
from fluence_extender.model.pod import Owner, Pod
from fluence_extender.webhook.podgroups import LINGER, Action, Make, PodGroups, Ref, Remove, Resize

JOB = Owner("Job", "j", "job-uid", "batch/v1")
OURS = Provenance(WEBHOOK_NAME, "7")


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def member(
    name: str,
    group: str = "g",
    size: object = None,
    owner: Owner | None = None,
    native: bool = True,
    notes: Mapping[str, str] | None = None,
) -> Pod:
    """Return a pod that admission has linked to its group."""
    sized = {} if size is None else {GROUP_SIZE_ANNOTATION: str(size)}
    labels = {GROUP_LABEL: group} | ({} if native else {"scheduling.x-k8s.io/pod-group": group})
    annotations = {**sized, **(notes or {})}
    return Pod("ns", name, f"uid-{name}", labels, annotations, group=group if native else "", owner=owner)


def native(size: int, making: Provenance = OURS, name: str = "g", uid: str = "u1") -> PodGroup:
    return PodGroup("ns", name, uid, size, provenance=making)


class Cluster:
    """What was observed of a cluster so far, and what is to be done about it, as a reconciler would find it."""

    def __init__(self, *things: Watched, listed: bool = True) -> None:
        self.clock = Clock()
        self.groups = PodGroups(self.clock)
        self.due: dict[Ref, float] = {}
        if listed:
            self.listed(*things)
        else:
            self.put(*things)

    def observe(self, seen: Listed | Changed | Deleted) -> None:
        self.due |= dict.fromkeys(self.groups.observe(seen), self.clock.now)

    def listed(self, *things: Watched) -> None:
        kinds: tuple[Kind, ...] = (Pod, *WORKLOADS)
        for kind in kinds:
            self.observe(Listed(kind, tuple(thing for thing in things if isinstance(thing, kind))))

    def put(self, *things: Watched) -> None:
        for one in things:
            self.observe(Changed(one))

    def gone(self, *things: Watched) -> None:
        for one in things:
            self.observe(Deleted(one))

    def actions(self) -> list[Action]:
        found = []
        for ref in sorted((ref for ref, at in self.due.items() if at <= self.clock.now), key=str):
            del self.due[ref]
            action, again = self.groups.action(ref), self.groups.removal_due_in(ref)
            if action is not None:
                found.append(action)
            elif again is not None:
                self.due[ref] = self.clock.now + again
        return found

    def later(self, seconds: float) -> list[Action]:
        self.clock.now += seconds
        return self.actions()


def made(*members: Pod, others: Iterable[Watched] = ()) -> Action | None:
    """Return the one action for these members of one group, None if there is none."""
    actions = Cluster(*members, *others).actions()
    assert len(actions) <= 1
    return actions[0] if actions else None


def test_group_is_made_for_its_first_member() -> None:
    assert made(member("a", size=3)) == Make(PodGroup, ("ns", "g"), 3)


@pytest.mark.parametrize(
    ("classes", "carried"),
    [
        (("urgent", "urgent"), "urgent"),
        (("urgent", "other"), ""),
        (("urgent", ""), ""),
        (("", ""), ""),
        # Above what a PodGroup may have.
        (("system-node-critical", "system-node-critical"), ""),
    ],
)
def test_group_carries_the_priority_class_of_its_pods(classes: tuple[str, str], carried: str) -> None:
    pods = [
        replace(member(name, size=2), priority_class=one) for name, one in zip("ab", classes, strict=True)
    ]
    assert made(*pods) == Make(PodGroup, ("ns", "g"), 2, None, carried)


def test_group_of_the_coscheduling_plugin_is_made_if_pods_name_it() -> None:
    assert made(member("a", size=3, native=False)) == Make(CoschedulingGroup, ("ns", "g"), 3)


@pytest.mark.parametrize(
    "pod",
    [
        replace(member("a", size=2), group="other"),
        replace(member("a", size=2), group=""),
        replace(member("a", size=2), scheduler="default-scheduler"),
        replace(member("a", size=2), labels={}),
        replace(member("a", size=2), phase="Succeeded"),
        replace(member("a", size=2), phase="Failed"),
    ],
)
def test_pods_that_admission_has_not_linked_make_no_group(pod: Pod) -> None:
    assert made(pod) is None


def test_existing_group_is_not_made_again() -> None:
    assert made(member("a", size=3), others=[native(3)]) is None


@pytest.mark.parametrize("size", [1, 2, 4])
def test_group_that_is_not_ours_is_left_alone(size: int) -> None:
    cluster = Cluster(member("a", size=3), native(size, Provenance("", "1")))
    assert cluster.actions() == []
    cluster.gone(member("a"))
    assert cluster.later(LINGER * 10) == []


def test_group_follows_its_size() -> None:
    assert made(member("a", size=5), others=[native(3)]) == Resize(native(3), 5)


def test_size_that_can_not_be_changed_is_not_requested_again() -> None:
    cluster = Cluster(member("a", size=5), native(3))
    (action,) = cluster.actions()
    assert isinstance(action, Resize)
    cluster.groups.size_is_fixed(action)
    cluster.put(member("b", size=5))
    assert cluster.actions() == []
    cluster.put(member("a", size=6), member("b", size=6))
    assert cluster.actions() == [Resize(native(3), 6)]


def test_group_is_removed_seconds_after_its_last_member() -> None:
    one, other = member("a", size=2), member("b", size=2)
    cluster = Cluster(one, other, native(2))
    cluster.gone(one)
    cluster.put(replace(other, phase="Succeeded"))
    assert cluster.actions() == []
    assert cluster.later(LINGER / 2) == []
    assert cluster.later(LINGER / 2) == [Remove(native(2))]
    cluster.groups.removed(native(2))
    cluster.gone(native(2))
    assert cluster.later(LINGER) == []
    assert cluster.due == {}


def test_group_whose_members_are_replaced_in_time_stays() -> None:
    one = member("a", size=2)
    cluster = Cluster(one, native(2))
    cluster.gone(one)
    assert cluster.actions() == []
    cluster.put(member("b", size=2))
    assert cluster.later(LINGER * 2) == []
    assert cluster.due == {}


def test_deleted_group_is_made_again_once_it_is_gone() -> None:
    going = native(2, replace(OURS, deleting=True))
    cluster = Cluster(member("a", size=2), going)
    assert cluster.later(LINGER * 2) == []
    cluster.gone(going)
    assert cluster.actions() == [Make(PodGroup, ("ns", "g"), 2)]


def test_group_left_behind_during_an_outage_is_removed() -> None:
    cluster = Cluster(native(2))
    assert cluster.actions() == []
    assert cluster.later(LINGER) == [Remove(native(2))]


@pytest.mark.parametrize("missing", [Pod, PodGroup, CoschedulingGroup])
def test_nothing_is_done_before_everything_is_listed(missing: Kind) -> None:
    cluster = Cluster(listed=False)
    kinds: set[Kind] = {Pod, *WORKLOADS}
    for kind in kinds - {missing}:
        cluster.observe(Listed(kind, (native(2),) if kind is PodGroup else ()))
    assert cluster.later(LINGER * 2) == []


def test_objects_missing_from_a_new_list_are_gone() -> None:
    cluster = Cluster(member("a", size=2), native(2))
    assert cluster.actions() == []
    cluster.observe(Listed(Pod, ()))
    assert cluster.actions() == []
    assert cluster.later(LINGER) == [Remove(native(2))]
    cluster.observe(Listed(PodGroup, ()))
    cluster.put(member("b", size=2))
    assert cluster.actions() == [Make(PodGroup, ("ns", "g"), 2)]


# The size.


def test_size_of_a_job() -> None:
    job = Job("ns", "j", "job-uid", 4, 3)
    assert made(member("a", owner=JOB), others=[job]) == Make(PodGroup, ("ns", "g"), 3, JOB)


def test_size_of_a_job_that_is_observed_later() -> None:
    cluster = Cluster(member("a", owner=JOB))
    assert cluster.actions() == []
    cluster.put(Job("ns", "j", "job-uid", 4))
    assert cluster.actions() == [Make(PodGroup, ("ns", "g"), 4, JOB)]
    cluster.put(native(4))
    cluster.put(Job("ns", "j", "job-uid", 6))
    assert cluster.actions() == [Resize(native(4), 6)]


@pytest.mark.parametrize("annotated", [2, 7])
def test_annotation_comes_before_the_owner(annotated: int) -> None:
    job = Job("ns", "j", "job-uid", 5)
    assert made(member("a", size=annotated, owner=JOB), others=[job]) == Make(
        PodGroup, ("ns", "g"), annotated, JOB
    )


def test_size_of_a_job_set_counts_the_pods_that_exist_at_once() -> None:
    pod = replace(
        member("a", owner=JOB),
        labels={
            **member("a").labels,
            "jobset.sigs.k8s.io/jobset-name": "s",
            "jobset.sigs.k8s.io/replicatedjob-name": "w",
        },
    )
    jobs = (ReplicatedJob("w", 4), ReplicatedJob("d", 1))
    together = JobSet("ns", "s", "u", jobs)
    in_order = JobSet("ns", "s", "u", jobs, in_order=True)
    assert made(pod, others=[together]) == Make(PodGroup, ("ns", "g"), 5, JOB)
    assert made(pod, others=[in_order]) == Make(PodGroup, ("ns", "g"), 4, JOB)


def test_size_of_a_leader_worker_set() -> None:
    labels = {"leaderworkerset.sigs.k8s.io/name": "l", "leaderworkerset.sigs.k8s.io/group-index": "0"}
    pod = member("a", notes={"leaderworkerset.sigs.k8s.io/size": "3"})
    assert made(replace(pod, labels={**pod.labels, **labels})) == Make(PodGroup, ("ns", "g"), 3)


def test_size_of_parts_that_start_in_order_is_the_smallest() -> None:
    """Else the leader would wait for workers that are created once it runs."""
    labels = {"leaderworkerset.sigs.k8s.io/name": "l", "leaderworkerset.sigs.k8s.io/group-index": "0"}
    notes = {
        "leaderworkerset.sigs.k8s.io/size": "3",
        "leaderworkerset.sigs.k8s.io/exclusive-topology": "rack",
    }

    def one(name: str, index: str) -> Pod:
        pod = member(name, notes=notes)
        return replace(
            pod, labels={**pod.labels, **labels, "leaderworkerset.sigs.k8s.io/worker-index": index}
        )

    assert made(one("leader", "0")) == Make(PodGroup, ("ns", "g"), 1)
    assert made(one("leader", "0"), one("worker", "1")) == Make(PodGroup, ("ns", "g"), 1)


def test_size_follows_the_replicas_of_the_owner() -> None:
    owner = Owner("ReplicaSet", "r", "u", "apps/v1")
    cluster = Cluster(member("a", owner=owner))
    assert cluster.actions() == []
    cluster.put(ReplicaSet("ns", "r", "u", 4))
    assert cluster.actions() == [Make(PodGroup, ("ns", "g"), 4, owner)]
    cluster.put(native(4), ReplicaSet("ns", "r", "u", 2))
    assert cluster.actions() == [Resize(native(4), 2)]


def test_members_that_disagree_have_no_group_until_they_agree() -> None:
    one, other = member("a", size=2), member("b", size=3)
    cluster = Cluster(one, other)
    assert cluster.actions() == []
    cluster.gone(other)
    assert cluster.actions() == [Make(PodGroup, ("ns", "g"), 2)]


def test_pods_without_a_size_are_groups_of_one() -> None:
    assert made(member("a"), member("b")) == Make(PodGroup, ("ns", "g"), 1)


def test_producer_is_a_group_of_one_and_consumers_are_the_rest() -> None:
    role, depends = (
        f"fluence.flux-framework.org/{key}" for key in ("coordination-role", "depends-on-producer")
    )
    producer = member("p", "g-producer", size=4, notes={role: "producer"})
    consumer = member("c", "g", size=4, notes={role: "consumer", depends: "g-producer"})
    assert made(producer) == Make(PodGroup, ("ns", "g-producer"), 1)
    assert made(consumer) == Make(PodGroup, ("ns", "g"), 3)


# The owner.


def test_group_belongs_to_the_owner_that_all_members_share() -> None:
    other = Owner("Job", "k", "other-uid", "batch/v1")
    assert made(member("a", size=2, owner=JOB), member("b", size=2, owner=JOB)) == Make(
        PodGroup, ("ns", "g"), 2, JOB
    )
    for owner in (other, None, replace(JOB, uid="elsewhere")):
        assert made(member("a", size=2, owner=JOB), member("b", size=2, owner=owner)) == Make(
            PodGroup, ("ns", "g"), 2
        )
    assert made(member("a", size=2, owner=replace(JOB, api_version=""))) == Make(PodGroup, ("ns", "g"), 2)


def test_every_order_of_observations_leads_to_the_same_group() -> None:
    things: list[Watched] = [
        *(member(str(number), owner=JOB) for number in range(3)),
        Job("ns", "j", "job-uid", 3),
    ]
    for order in itertools.permutations(things):
        cluster = Cluster()
        wanted: list[Action] = []
        for one in order:
            cluster.put(one)
            for action in cluster.actions():
                assert isinstance(action, Make)
                wanted.append(action)
                cluster.put(native(action.size))
        assert wanted == [Make(PodGroup, ("ns", "g"), 3, JOB)], order


@pytest.mark.parametrize("seed", range(30))
def test_two_replicas_end_with_the_same_groups(seed: int) -> None:
    """Each sees the same, at moments of its own; what one has done the other finds done."""
    chance = random.Random(seed)
    clusters: dict[tuple[str, str], PodGroup] = {}
    replicas = [Cluster(), Cluster()]
    pods = [member(f"{group}-{number}", group, size=3) for group in "ab" for number in range(3)]
    history: list[tuple[str, Watched]] = []

    def record(what: str, thing: Watched) -> None:
        history.append((what, thing))

    positions = [0, 0]

    def catch_up(index: int, steps: int) -> None:
        for what, thing in history[positions[index] : positions[index] + steps]:
            (replicas[index].put if what == "put" else replicas[index].gone)(thing)
        positions[index] = min(positions[index] + steps, len(history))

    def act(index: int) -> None:
        for action in replicas[index].actions():
            name = action.name if isinstance(action, Make) else (action.group.namespace, action.group.name)
            if isinstance(action, Make) and name not in clusters:
                clusters[name] = PodGroup(*name, f"u{len(history)}", action.size, provenance=OURS)
                record("put", clusters[name])
            elif isinstance(action, Remove) and clusters.get(name, native(0)).uid == action.group.uid:
                record("gone", clusters.pop(name))

    events = [("put", one) for one in pods] + [
        ("gone", one) for one in pods if one.labels[GROUP_LABEL] == "a"
    ]
    for what, thing in events:
        record(what, thing)
        for _ in range(3):
            index = chance.randrange(2)
            catch_up(index, chance.randrange(3))
            act(index)
    for _ in range(4):
        for index in (0, 1):
            catch_up(index, len(history))
            act(index)
            replicas[index].clock.now += LINGER
    assert {name: one.min_count for name, one in clusters.items()} == {("ns", "b"): 3}
