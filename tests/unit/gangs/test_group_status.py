"""The status of PodGroups of scheduling.x-k8s.io is kept up to date."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from fluence_extender.cluster.errors import ClusterError
from fluence_extender.gangs.membership.gang import Member
from fluence_extender.gangs.reporting import status
from fluence_extender.gangs.reporting.status import member_status
from fluence_extender.kinds.jobset import JobSet, ReplicatedJob
from fluence_extender.kinds.membership import alone
from fluence_extender.kinds.podgroups import CoschedulingGroup, MemberStatus
from fluence_extender.model.names import GATE
from fluence_extender.model.pod import Owner, Pod
from tests.core.values import asks, node, pod
from tests.core.world import World
from tests.unit.gangs.conftest import MakeWorld

GROUP = CoschedulingGroup("default", "g", "u", 2)
LABEL = {"scheduling.x-k8s.io/pod-group": "g"}
NOW = 1_800_000_000.0


def member(name: str, phase: str = "Pending") -> Member:
    one = pod(name, phase=phase, labels=LABEL, owner=Owner("MPIJob", "pi", "x"))
    return Member(one, alone(one))


@pytest.mark.parametrize(
    ("phases", "expected"),
    [
        ([], "Pending"),
        (["Running"], "Pending"),
        (["Pending", "Pending"], "Scheduling"),
        (["Running", "Pending"], "Scheduling"),
        (["Running", "Running"], "Running"),
        (["Running", "Running", "Pending"], "Running"),
        (["Succeeded", "Running"], "Running"),
        (["Succeeded", "Succeeded"], "Finished"),
        (["Failed", "Running"], "Failed"),
        (["Failed", "Pending"], "Scheduling"),
    ],
)
def test_phase_follows_from_those_of_the_pods(phases: list[str], expected: str) -> None:
    members = [member(f"p{number}", phase) for number, phase in enumerate(phases)]
    written = member_status(GROUP, members, NOW)
    assert written.phase == expected
    assert (written.running, written.failed) == (phases.count("Running"), phases.count("Failed"))
    assert written.occupied_by == ("" if expected == "Pending" else "default/pi")
    assert written.schedule_start == ("" if expected == "Pending" else "2027-01-15T08:00:00Z")


@pytest.mark.parametrize("phase", ["Finished", "Failed"])
def test_final_phase_stays(phase: str) -> None:
    group = replace(GROUP, status=MemberStatus(phase, "default/pi", 0, 2, 0, "2026-01-01T00:00:00Z"))
    assert member_status(group, [], NOW) == group.status


def test_times_and_owners_once_written_stay() -> None:
    group = replace(GROUP, status=MemberStatus("Running", "default/a", 2, 0, 0, "2026-01-01T00:00:00Z"))
    written = member_status(group, [member("p0", "Running"), member("p1", "Running")], NOW)
    assert (written.occupied_by, written.schedule_start) == ("default/a", "2026-01-01T00:00:00Z")


def shown(w: World) -> MemberStatus:
    (group,) = w.cluster._objects[CoschedulingGroup].values()
    assert isinstance(group, CoschedulingGroup)
    return group.status


def create(w: World, number: int) -> Pod:
    return w.pod(f"g-{number}", labels=LABEL, gates=(GATE,), requests=asks(1000, 1))


def test_group_that_changes_many_times_a_second_is_looked_at_once_a_second(
    world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = list[int]()

    def counted(group: CoschedulingGroup, members: Sequence[Member], now: float) -> MemberStatus:
        looks.append(len(members))
        return member_status(group, members, now)

    monkeypatch.setattr(status, "member_status", counted)
    w = world(node("n0"), GROUP)
    first = create(w, 0)
    w.advance(3)
    looks.clear()
    for number in range(40):
        w.change(first, annotations={"edit": str(number)})
        w.advance(0.1)
    assert 3 <= len(looks) <= 5


def test_group_is_followed_from_pending_to_finished(world: MakeWorld) -> None:
    w = world(node("n0"), GROUP)
    w.advance(2)
    assert shown(w).phase == "Pending"
    first = create(w, 0)
    w.advance(3)
    assert shown(w).phase == "Pending"
    second = create(w, 1)
    w.advance(3)
    assert shown(w).phase == "Scheduling"
    for one in (first, second):
        w.change(one, phase="Running")
    w.advance(3)
    assert shown(w) == MemberStatus("Running", "", 2, 0, 0)
    w.change(first, phase="Succeeded")
    w.advance(3)
    assert shown(w) == MemberStatus("Running", "", 1, 1, 0)
    w.change(second, phase="Succeeded")
    w.advance(3)
    assert shown(w) == MemberStatus("Finished", "", 0, 2, 0)
    w.cluster.remove(w.now(first))
    w.cluster.remove(w.now(second))
    w.advance(40)
    assert shown(w).phase == "Finished"


def test_pods_of_all_stages_count_for_their_group(world: MakeWorld) -> None:
    jobs = (ReplicatedJob("init", 1), ReplicatedJob("node", 2, ("init",)))
    w = world(node("n0"), GROUP, JobSet("default", "js", "u", jobs))
    for kind, number in (("init", 0), ("node", 0), ("node", 1)):
        labels = LABEL | {
            "jobset.sigs.k8s.io/jobset-name": "js",
            "jobset.sigs.k8s.io/replicatedjob-name": kind,
        }
        one = w.pod(f"{kind}-{number}", labels=labels, gates=(GATE,), requests=asks(1000, 1))
        w.advance(2)
        w.change(one, phase="Running")
    w.advance(3)
    assert shown(w) == MemberStatus("Running", "", 3, 0, 0)
    for one in w.cluster.pods():
        w.cluster.remove(one)
    w.advance(3)
    assert shown(w).running == 0


def test_group_whose_pods_are_all_gone_is_pending_again(world: MakeWorld) -> None:
    w = world(node("n0"), GROUP)
    pods = [create(w, number) for number in range(2)]
    w.advance(3)
    for one in pods:
        w.cluster.remove(w.now(one))
    w.advance(3)
    assert shown(w).phase == "Pending"


def test_status_that_another_client_overwrites_is_written_seldom(world: MakeWorld) -> None:
    w = world(node("n0"), GROUP)
    for number in range(2):
        create(w, number)
    w.advance(3)
    written = 0
    for _ in range(60):
        written += shown(w).phase == "Scheduling"
        w.cluster.put(replace(GROUP, status=MemberStatus("Unknown")))
        w.advance(1)
    assert 1 <= written <= 4


def test_write_that_fails_is_repeated(world: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    w = world(node("n0"), GROUP)
    refused = 0

    async def refuse(*_: object) -> None:
        nonlocal refused
        refused += 1
        raise ClusterError("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(w.cluster, "report_members", refuse)
        create(w, 0)
        create(w, 1)
        w.advance(10)
    assert 1 <= refused <= 3
    w.advance(40)
    assert shown(w).phase == "Scheduling"


def test_restart_writes_nothing_that_is_there(world: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    w = world(node("n0"), GROUP)
    create(w, 0)
    create(w, 1)
    w.advance(5)
    status = shown(w)
    writes: list[object] = []
    original = w.cluster.report_members

    async def counted(group: CoschedulingGroup, status: MemberStatus) -> None:
        writes.append(status)
        await original(group, status)

    monkeypatch.setattr(w.cluster, "report_members", counted)
    w.restart()
    w.advance(40)
    assert shown(w) == status
    assert writes == []
