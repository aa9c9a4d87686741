"""What people get wrong, or what changes under a gang: each has a stable reason, and nobody who runs is harmed."""

from __future__ import annotations

from typing import Any

from fluence_extender.kinds.job import Job
from fluence_extender.kinds.jobset import JobSet, ReplicatedJob
from fluence_extender.kinds.mpijob import MpiJob
from fluence_extender.kinds.podgroups import CoschedulingGroup, PodGroup
from fluence_extender.model.gang import GangState
from fluence_extender.model.names import GATE, GROUP_LABEL, GROUP_SIZE_ANNOTATION
from fluence_extender.model.pod import Owner, Pod
from fluence_extender.model.reason import Reason, ReasonCode
from tests.core.manifests import decoded, job_set_pod, mpi_pod
from tests.core.values import asks, node
from tests.core.world import World
from tests.unit.gangs.conftest import MakeWorld, gang

COSCHEDULED = {"scheduling.x-k8s.io/pod-group": "g"}


def reason(w: World, name: str) -> str:
    found = w.gang(name).reason
    return found.text if found is not None else ""


def of_job(w: World, job: str, number: int) -> Pod:
    return w.pod(
        f"{job}-{number}",
        labels={GROUP_LABEL: "g"},
        owner=Owner("Job", job, f"uid-{job}", "batch/v1"),
        gates=(GATE,),
        requests=asks(100),
    )


def test_two_jobs_that_claim_one_gang_with_different_sizes_are_both_named(world: MakeWorld) -> None:
    w = world(node("n0"), Job("default", "a", "uid-a", 2, 2), Job("default", "b", "uid-b", 3, 3))
    pods = [of_job(w, "a", 0), of_job(w, "a", 1), of_job(w, "b", 0), of_job(w, "b", 1), of_job(w, "b", 2)]
    w.advance(5)
    expected = "members of gang default/g disagree on its size: Job a says 2, Job b says 3"
    assert w.gang("g").reason == Reason(ReasonCode.INVALID_REQUEST, expected)
    w.advance(60)
    assert w.gang("g").reason == Reason(ReasonCode.INVALID_REQUEST, expected)
    told = [event for event in w.cluster.events if event.reason == "InvalidRequest"]
    assert [event.regarding.name for event in told] == ["a", "a-0", "b", "b-0"]
    assert [event.count for event in told] == [1] * 4
    assert not any(w.nodes_of(*pods))
    assert not w.ledger.holdings
    for one in pods[:2]:
        w.cluster.remove(one)
    w.advance(5)
    assert all(w.nodes_of(*pods[2:]))


def test_later_disagreement_moves_no_bound_member(world: MakeWorld) -> None:
    w = world(node("n0"))
    pods = gang(w, "g", 1000, 1000)
    w.advance(5)
    late = w.pod("g-late", labels={GROUP_LABEL: "g"}, annotations={GROUP_SIZE_ANNOTATION: "7"}, gates=(GATE,))
    w.advance(200)
    assert all(w.nodes_of(*pods))
    assert w.nodes_of(late) == [""]
    assert "disagree" in reason(w, "g")
    w.cluster.remove(late)
    w.advance(2)
    assert w.gang("g").state is GangState.BOUND


def test_one_label_in_two_namespaces_is_two_gangs(world: MakeWorld) -> None:
    w = world(node("n0"))
    here = gang(w, "g", 100, size=2)
    there = [
        w.pod(f"g-{number}", namespace="other", labels={GROUP_LABEL: "g"},
              annotations={GROUP_SIZE_ANNOTATION: "2"}, gates=(GATE,), requests=asks(100))
        for number in range(2)
    ]  # fmt: skip
    w.advance(5)
    assert all(w.nodes_of(*there))
    assert not any(w.nodes_of(*here))


def test_members_of_another_scheduler_are_not_ours_and_the_gang_says_so(world: MakeWorld) -> None:
    w = world(node("n0"))
    pods = gang(w, "g", 100, 100, size=3)
    stranger = w.pod(
        "g-2", labels=pods[0].labels, annotations=pods[0].annotations, scheduler="default-scheduler"
    )
    w.advance(5)
    assert reason(w, "g") == (
        "waiting for members (2 of 3 exist; 1 more names scheduler default-scheduler, not fluence)"
    )
    w.change(stranger, node="n0", phase="Running")
    w.advance(5)
    assert not any(w.nodes_of(*pods))
    w.cluster.remove(w.now(stranger))
    w.advance(5)
    assert reason(w, "g") == "waiting for members (2 of 3 exist)"
    w.pod("g-3", labels=pods[0].labels, annotations=pods[0].annotations, gates=(GATE,), requests=asks(100))
    w.advance(5)
    assert all(w.nodes_of(*pods))


def test_members_of_another_scheduler_are_counted_by_label_where_a_pod_group_says_the_size(
    world: MakeWorld,
) -> None:
    w = world(node("n0"), PodGroup("default", "g", "u", 3), CoschedulingGroup("default", "h", "u", 3))
    label, other = {GROUP_LABEL: "g"}, {GROUP_LABEL: "h"}
    linked = w.pod("g-0", labels=label, group="g", gates=(GATE,), requests=asks(100))
    w.pod("h-0", labels=other | {"scheduling.x-k8s.io/pod-group": "h"}, gates=(GATE,), requests=asks(100))
    w.advance(1)
    assert reason(w, "g") == "waiting for members (1 of 3 exist)"
    stranger = w.pod("g-1", labels=label, scheduler="default-scheduler")
    w.pod("h-1", labels=other, scheduler="default-scheduler")
    w.advance(5)
    elsewhere = "1 more names scheduler default-scheduler, not fluence"
    assert linked.group == "g"
    assert reason(w, "g") == f"waiting for members (1 of 3 exist; {elsewhere})"
    assert reason(w, "h") == f"waiting for members (1 of 3 exist; {elsewhere})"
    w.cluster.remove(stranger)
    w.advance(5)
    assert reason(w, "g") == "waiting for members (1 of 3 exist)"


def test_label_of_another_group_does_not_make_a_stranger_a_member_of_a_pod_group(world: MakeWorld) -> None:
    w = world(node("n0"), PodGroup("default", "g", "u", 3))
    w.pod("g-0", group="g", gates=(GATE,), requests=asks(100))
    w.pod("g-1", labels={GROUP_LABEL: "g"}, scheduler="default-scheduler")
    w.advance(5)
    assert reason(w, "g") == "waiting for members (1 of 3 exist)"


def test_gate_of_another_on_one_member_holds_all_up_and_nothing_back(world: MakeWorld) -> None:
    w = world(node("n0", cpu=2000))
    pods = gang(w, "g", 1000, 1000)
    w.change(pods[1], gates=(GATE, "kueue.x-k8s.io/admission"))
    w.cluster.put(w.now(pods[1]))
    w.advance(0)
    w.restart()
    w.advance(5)
    assert reason(w, "g") == "waiting for scheduling gates of others: kueue.x-k8s.io/admission"
    assert not w.ledger.holdings
    other = gang(w, "other", 1000, 1000)
    w.advance(5)
    assert all(w.nodes_of(*other))


def native(w: World, number: int, **fields: Any) -> Pod:
    return w.pod(f"g-{number}", group="g", gates=(GATE,), requests=asks(1000, 1), **fields)


def test_pod_group_deleted_under_its_bound_pods_leaves_them_bound(world: MakeWorld) -> None:
    group = PodGroup("default", "g", "u", 2)
    w = world(node("n0"), group)
    pods = [native(w, number) for number in range(2)]
    w.advance(5)
    w.cluster.remove(group)
    w.advance(200)
    assert all(w.nodes_of(*pods))
    assert w.gang("g").state is GangState.BOUND
    late = native(w, 2)
    w.advance(5)
    assert w.nodes_of(late) == [""]
    assert reason(w, "g") == "waiting for PodGroup default/g to exist"
    w.cluster.put(group)
    w.advance(5)
    assert w.nodes_of(late) == ["n0"]


def test_pod_group_deleted_under_a_half_bound_gang_does_not_keep_it_half_bound(world: MakeWorld) -> None:
    group = PodGroup("default", "g", "u", 2)
    w = world(node("n0", cpu=1000), group, scheduling=False)
    first = native(w, 0)
    w.disturb("n0")
    w.change(first, node="n0", gates=())
    native(w, 1)
    w.advance(5)
    w.cluster.remove(group)
    w.advance(60)
    assert ("evict", "default/g-0") in w.cluster.calls


def test_group_object_of_another_kind_that_is_deleted_leaves_bound_pods_bound(world: MakeWorld) -> None:
    group = CoschedulingGroup("default", "g", "u", 2)
    w = world(node("n0"), group)
    pods = [
        w.pod(f"g-{number}", labels=COSCHEDULED, gates=(GATE,), requests=asks(1000)) for number in range(2)
    ]
    w.advance(5)
    w.cluster.remove(group)
    w.advance(200)
    assert all(w.nodes_of(*pods))


def test_gang_of_five_thousand_is_placed_as_a_whole(world: MakeWorld) -> None:
    nodes = [node(f"n{number:02}", cpu=64_000, gib=256, pods=120) for number in range(44)]
    w = world(*nodes, PodGroup("default", "g", "u", 5000), scheduling=False)
    pods = [w.pod(f"g-{number}", group="g", gates=(GATE,), requests=asks(100, 0)) for number in range(5000)]
    w.advance(5)
    assert all(w.now(one).nominated for one in pods)
    assert w.gang("g").state is GangState.COMMITTED


def test_names_as_long_as_they_may_be(world: MakeWorld) -> None:
    group = "g" * 253
    w = world(node("n" * 253), PodGroup("d" * 63, group, "u", 2))
    pods = [
        w.pod(f"{'p' * 250}-{number}", namespace="d" * 63, group=group, gates=(GATE,), requests=asks(100))
        for number in range(2)
    ]
    labelled = w.pod("q" * 253, labels={GROUP_LABEL: "l" * 63}, gates=(GATE,), requests=asks(100))
    w.advance(5)
    assert all(w.nodes_of(*pods, labelled))


def put(w: World, body: dict[str, Any]) -> Pod:
    """Create a pod that a controller wrote, gated as ours are."""
    seen = decoded(body)
    return w.pod(
        seen.name, labels=seen.labels, annotations=seen.annotations, owner=seen.owner,
        gates=(GATE,), requests=asks(1000, 1),
    )  # fmt: skip


def test_launcher_of_another_scheduler_is_reported(world: MakeWorld) -> None:
    w = world(node("n0"), MpiJob("default", "pi", "u", 2))
    workers = [put(w, mpi_pod("pi", number)) for number in range(2)]
    launcher = decoded(mpi_pod("pi", None))
    other = w.pod(launcher.name, labels=launcher.labels, owner=launcher.owner, scheduler="default-scheduler")
    w.advance(5)
    said = "waiting for members (2 of 3 exist; 1 more names scheduler default-scheduler, not fluence)"
    assert reason(w, "pi") == said
    w.cluster.remove(other)
    w.advance(5)
    assert reason(w, "pi") == "waiting for members (2 of 3 exist)"
    assert not any(w.nodes_of(*workers))


def test_driver_of_another_scheduler_is_reported_where_it_counts(world: MakeWorld) -> None:
    jobs = (ReplicatedJob("driver", 1), ReplicatedJob("w", 2))
    staged = (ReplicatedJob("driver", 1), ReplicatedJob("w", 2, ("driver",)))
    w = world(node("n0"), JobSet("default", "js", "u", jobs), JobSet("default", "staged", "v", staged))
    for name in ("js", "staged"):
        put(w, job_set_pod(name, "w", 0, 0, 1, 2))
        driver = decoded(job_set_pod(name, "driver", 0, 0, 1, 2))
        w.pod(driver.name, labels=driver.labels, owner=driver.owner, scheduler="default-scheduler")
    w.advance(5)
    said = "waiting for members (1 of 3 exist; 1 more names scheduler default-scheduler, not fluence)"
    assert reason(w, "js") == said
    assert reason(w, "staged") == "waiting for members (1 of 2 exist)"


def test_launcher_joins_the_workers_that_it_waits_for(world: MakeWorld) -> None:
    group = CoschedulingGroup("default", "pi", "u", 3)
    w = world(node("n0"), group, MpiJob("default", "pi", "u", 2, launcher_last=True))
    label = {"scheduling.x-k8s.io/pod-group": "pi"}
    workers = [put(w, mpi_pod("pi", number, **label)) for number in range(2)]
    w.advance(5)
    assert all(w.nodes_of(*workers))
    for one in workers:
        w.change(one, phase="Running")
    launcher = put(w, mpi_pod("pi", None, **label))
    w.advance(5)
    assert w.nodes_of(launcher) == ["n0"]
    assert w.gang("pi").state is GangState.BOUND


def test_stages_of_a_job_set_are_placed_one_after_the_other_and_each_as_a_whole(world: MakeWorld) -> None:
    jobs = (ReplicatedJob("init", 1), ReplicatedJob("node", 2, ("init",)))
    w = world(node("n0", cpu=2000), JobSet("default", "train", "u", jobs))
    first = put(w, job_set_pod("train", "init", 0, 0, 1, 2))
    w.advance(5)
    assert w.nodes_of(first) == ["n0"]
    nodes = [put(w, job_set_pod("train", "node", 0, number, 1, 2)) for number in range(2)]
    w.advance(5)
    assert not any(w.nodes_of(*nodes))
    w.change(first, phase="Succeeded")
    w.advance(5)
    assert all(w.nodes_of(*nodes))


def test_job_set_seen_after_its_pods_is_waited_for(world: MakeWorld) -> None:
    w = world(node("n0"))
    pods = [put(w, job_set_pod("js", "w", 0, number, 1, 1)) for number in range(2)]
    w.advance(5)
    assert reason(w, "js") == "waiting for JobSet default/js to be seen"
    w.cluster.put(JobSet("default", "js", "u", (ReplicatedJob("w", 2),)))
    w.advance(5)
    assert all(w.nodes_of(*pods))


def test_label_of_flux_k8s_keeps_a_gang_in_one_zone(world: MakeWorld) -> None:
    zones = [("n0", "a"), ("n1", "b"), ("n2", "b")]
    nodes = [node(name, cpu=1000, labels={"topology.kubernetes.io/zone": zone}) for name, zone in zones]
    w = world(*nodes)
    labels = {**COSCHEDULED, "fluence.group-size": "2", "fluence.jobspec": "zone"}
    pods = [w.pod(f"g-{number}", labels=labels, gates=(GATE,), requests=asks(1000)) for number in range(2)]
    w.advance(5)
    assert sorted(w.nodes_of(*pods)) == ["n1", "n2"]
