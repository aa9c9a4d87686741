"""Which PodGroups are made, resized and removed, by what is seen, in whatever order."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest

from fluence_extender.cluster.port import WORKLOADS, Changed, Deleted, Kind, Listed, Watched
from fluence_extender.model.names import (
    GROUP_LABEL,
    GROUP_SIZE_ANNOTATION,
    OWNER_SIZE_ANNOTATION,
    WEBHOOK_NAME,
)
from fluence_extender.model.pod import Owner, Pod
from fluence_extender.model.workload import (
    CoschedulingGroup,
    Job,
    JobSet,
    PodGroup,
    Provenance,
    ReplicatedJob,
)
from fluence_extender.webhook.podgroups import LINGER, Action, Make, PodGroups, Remove, Resize

JOB = Owner("Job", "j", "job-uid", "batch/v1")
OURS = Provenance(WEBHOOK_NAME, "7")


class Clock:
    """Seconds that a test lets go by."""

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
    """A pod that admission has linked to its group."""
    said = {} if size is None else {GROUP_SIZE_ANNOTATION: str(size)}
    labels = {GROUP_LABEL: group} | ({} if native else {"scheduling.x-k8s.io/pod-group": group})
    annotations = {**said, **(notes or {})}
    return Pod("ns", name, f"uid-{name}", labels, annotations, group=group if native else "", owner=owner)


def native(size: int, making: Provenance = OURS, name: str = "g", uid: str = "u1") -> PodGroup:
    return PodGroup("ns", name, uid, size, provenance=making)


class Seen:
    """What was seen of a cluster so far, and what follows."""

    def __init__(self, *things: Watched, listed: bool = True) -> None:
        self.clock = Clock()
        self.groups = PodGroups(self.clock)
        if listed:
            self.listed(*things)
        else:
            self.take(*things)

    def listed(self, *things: Watched) -> None:
        kinds: dict[Kind, type[Watched]] = {Kind.POD: Pod, **WORKLOADS}
        for kind, type_ in kinds.items():
            found = tuple(one for one in things if isinstance(one, type_))
            self.groups.take(Listed(kind, found))

    def take(self, *things: Watched) -> None:
        for one in things:
            self.groups.take(Changed(kind_of(one), one))

    def gone(self, *things: Watched) -> None:
        for one in things:
            self.groups.take(Deleted(kind_of(one), one))

    def actions(self) -> list[Action]:
        return self.groups.actions()

    def later(self, seconds: float) -> list[Action]:
        self.clock.now += seconds
        return self.groups.actions()


def kind_of(thing: Watched) -> Kind:
    return next((kind for kind, type_ in WORKLOADS.items() if isinstance(thing, type_)), Kind.POD)


def made(*members: Pod, others: Iterable[Watched] = ()) -> Action | None:
    """The one thing that is to be done about these members of one group."""
    actions = Seen(*members, *others).actions()
    assert len(actions) <= 1
    return actions[0] if actions else None


def test_group_is_made_for_its_first_member() -> None:
    assert made(member("a", size=3)) == Make(PodGroup, ("ns", "g"), 3)


def test_group_of_the_coscheduling_plugin_is_made_where_pods_name_that() -> None:
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


def test_group_that_is_there_is_not_made_again() -> None:
    assert made(member("a", size=3), others=[native(3)]) is None


@pytest.mark.parametrize("size", [1, 2, 4])
def test_group_of_somebody_else_is_left_alone(size: int) -> None:
    seen = Seen(member("a", size=3), native(size, Provenance("", "1")))
    assert seen.actions() == []
    seen.gone(member("a"))
    assert seen.later(LINGER * 10) == []


def test_group_follows_its_size() -> None:
    assert made(member("a", size=5), others=[native(3)]) == Resize(native(3), 5)


def test_size_that_can_not_be_changed_is_asked_for_once() -> None:
    seen = Seen(member("a", size=5), native(3))
    (action,) = seen.actions()
    seen.groups.refused(action)
    seen.take(member("b", size=5))
    assert seen.actions() == []
    seen.take(member("a", size=6), member("b", size=6))
    assert seen.actions() == [Resize(native(3), 6)]


def test_group_goes_a_moment_after_its_last_member() -> None:
    one, other = member("a", size=2), member("b", size=2)
    seen = Seen(one, other, native(2))
    seen.gone(one)
    seen.take(replace(other, phase="Succeeded"))
    assert seen.actions() == []
    assert seen.later(LINGER / 2) == []
    assert seen.groups.next_due == pytest.approx(100 + LINGER)
    assert seen.later(LINGER / 2) == [Remove(native(2))]
    seen.groups.done(Remove(native(2)))
    seen.gone(native(2))
    assert seen.later(LINGER) == []
    assert seen.groups.next_due is None


def test_group_whose_members_are_replaced_in_time_stays() -> None:
    one = member("a", size=2)
    seen = Seen(one, native(2))
    seen.gone(one)
    assert seen.actions() == []
    seen.take(member("b", size=2))
    assert seen.later(LINGER * 2) == []
    assert seen.groups.next_due is None


def test_group_that_somebody_deletes_is_made_again_once_it_is_gone() -> None:
    going = native(2, replace(OURS, deleting=True))
    seen = Seen(member("a", size=2), going)
    assert seen.later(LINGER * 2) == []
    seen.gone(going)
    assert seen.actions() == [Make(PodGroup, ("ns", "g"), 2)]


def test_group_left_behind_while_nobody_watched_goes() -> None:
    seen = Seen(native(2))
    assert seen.actions() == []
    assert seen.later(LINGER) == [Remove(native(2))]


@pytest.mark.parametrize("missing", [Kind.POD, Kind.POD_GROUP, Kind.COSCHEDULING_GROUP])
def test_nothing_is_done_before_everything_was_listed(missing: Kind) -> None:
    seen = Seen(listed=False)
    for kind in {Kind.POD, *WORKLOADS} - {missing}:
        seen.groups.take(Listed(kind, (native(2),) if kind is Kind.POD_GROUP else ()))
    assert seen.later(LINGER * 2) == []


def test_what_a_new_list_lacks_is_gone() -> None:
    seen = Seen(member("a", size=2), native(2))
    assert seen.actions() == []
    seen.groups.take(Listed(Kind.POD, ()))
    assert seen.actions() == []
    assert seen.later(LINGER) == [Remove(native(2))]
    seen.groups.take(Listed(Kind.POD_GROUP, ()))
    seen.take(member("b", size=2))
    assert seen.actions() == [Make(PodGroup, ("ns", "g"), 2)]


def test_what_failed_is_thought_of_again() -> None:
    seen = Seen(member("a", size=2))
    (action,) = seen.actions()
    assert seen.actions() == []
    seen.groups.failed(action)
    assert seen.actions() == [action]


# Whose size it is.


def test_size_of_a_job() -> None:
    job = Job("ns", "j", "job-uid", 4, 3)
    assert made(member("a", owner=JOB), others=[job]) == Make(PodGroup, ("ns", "g"), 3, JOB)


def test_size_of_a_job_that_is_seen_later() -> None:
    seen = Seen(member("a", owner=JOB))
    assert seen.actions() == []
    seen.take(Job("ns", "j", "job-uid", 4))
    assert seen.actions() == [Make(PodGroup, ("ns", "g"), 4, JOB)]
    seen.take(native(4))
    seen.take(Job("ns", "j", "job-uid", 6))
    assert seen.actions() == [Resize(native(4), 6)]


@pytest.mark.parametrize("annotated", [2, 7])
def test_annotation_comes_before_the_owner(annotated: int) -> None:
    job = Job("ns", "j", "job-uid", 5)
    assert made(member("a", size=annotated, owner=JOB), others=[job]) == Make(
        PodGroup, ("ns", "g"), annotated, JOB
    )


def test_size_of_a_job_set_is_that_of_what_exists_at_once() -> None:
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


def test_parts_that_come_one_after_the_other_need_the_first_only() -> None:
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


def test_noted_sizes_may_differ_and_the_largest_counts() -> None:
    owner = Owner("ReplicaSet", "r", "u", "apps/v1")
    pods = [
        member(str(number), owner=owner, notes={OWNER_SIZE_ANNOTATION: str(number)}) for number in (2, 4, 3)
    ]
    assert made(*pods) == Make(PodGroup, ("ns", "g"), 4, owner)


def test_members_that_disagree_have_no_group_until_they_agree() -> None:
    one, other = member("a", size=2), member("b", size=3)
    seen = Seen(one, other)
    assert seen.actions() == []
    seen.gone(other)
    assert seen.actions() == [Make(PodGroup, ("ns", "g"), 2)]


def test_pods_that_say_nothing_are_groups_of_one() -> None:
    assert made(member("a"), member("b")) == Make(PodGroup, ("ns", "g"), 1)


def test_producer_is_one_and_its_consumers_are_the_others() -> None:
    role, depends = (
        f"fluence.flux-framework.org/{key}" for key in ("coordination-role", "depends-on-producer")
    )
    producer = member("p", "g-producer", size=4, notes={role: "producer"})
    consumer = member("c", "g", size=4, notes={role: "consumer", depends: "g-producer"})
    assert made(producer) == Make(PodGroup, ("ns", "g-producer"), 1)
    assert made(consumer) == Make(PodGroup, ("ns", "g"), 3)


# Whose it is.


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


def test_every_order_of_what_is_seen_leads_to_the_same_group() -> None:
    things: list[Watched] = [
        *(member(str(number), owner=JOB) for number in range(3)),
        Job("ns", "j", "job-uid", 3),
    ]
    for order in itertools.permutations(things):
        seen = Seen()
        wanted: list[Action] = []
        for one in order:
            seen.take(one)
            for action in seen.actions():
                assert isinstance(action, Make)
                wanted.append(action)
                seen.take(native(action.size))
        assert wanted == [Make(PodGroup, ("ns", "g"), 3, JOB)], order


@pytest.mark.parametrize("seed", range(30))
def test_two_replicas_that_do_what_they_want_end_alike(seed: int) -> None:
    """Each sees the same, at moments of its own; what one has done the other finds done."""
    chance = random.Random(seed)
    clusters: dict[tuple[str, str], PodGroup] = {}
    replicas = [Seen(), Seen()]
    pods = [member(f"{group}-{number}", group, size=3) for group in "ab" for number in range(3)]
    history: list[tuple[str, Watched]] = []

    def tell(what: str, thing: Watched) -> None:
        history.append((what, thing))

    positions = [0, 0]

    def catch_up(index: int, steps: int) -> None:
        for what, thing in history[positions[index] : positions[index] + steps]:
            (replicas[index].take if what == "put" else replicas[index].gone)(thing)
        positions[index] = min(positions[index] + steps, len(history))

    def act(index: int) -> None:
        for action in replicas[index].actions():
            name = action.name if isinstance(action, Make) else (action.group.namespace, action.group.name)
            if isinstance(action, Make) and name not in clusters:
                clusters[name] = PodGroup(*name, f"u{len(history)}", action.size, provenance=OURS)
                tell("put", clusters[name])
            elif isinstance(action, Remove) and clusters.get(name, native(0)).uid == action.group.uid:
                tell("gone", clusters.pop(name))

    events = [("put", one) for one in pods] + [
        ("gone", one) for one in pods if one.labels[GROUP_LABEL] == "a"
    ]
    for what, thing in events:
        tell(what, thing)
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
