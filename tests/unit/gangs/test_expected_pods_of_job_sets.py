"""JobSets whose Jobs' pods are created with their nodes."""

from __future__ import annotations

from dataclasses import replace

from fluence_extender.cluster.errors import ClusterError, Conflict, Denied
from fluence_extender.cluster.port import BINDS_FOR
from fluence_extender.model.gang import GangState
from tests.core.invariants import check
from tests.core.values import asks, node
from tests.core.world import LIMITS, World
from tests.unit.gangs.conftest import MakeWorld


def held(w: World) -> list[bool]:
    """Which of the Jobs wait for their placement, by name."""
    return [job.held_for_placement for job in sorted(w.cluster.jobs(), key=lambda job: job.name)]


def living(w: World) -> list[str]:
    """The nodes of the pods that run, "" for pods that have none."""
    return sorted(pod.node for pod in w.cluster.pods() if not (pod.finished or pod.deleting))


def cordon(w: World, name: str) -> None:
    w.change(next(one for one in w.cluster.nodes() if one.name == name), unschedulable=True)


def test_jobs_of_a_job_set_are_one_gang_and_resumed_together(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    w.jobs.submit_set("train", 1, 3, 3)
    w.advance(2)
    assert living(w) == ["n0"] * 4 + ["n1"] * 3
    assert len(w.jobs.with_node) == 7
    assert not w.jobs.late
    gang = w.gang("train")
    assert (gang.size, gang.state) == (7, GangState.BOUND)
    assert [verb for verb, _ in w.cluster.calls if verb != "bind"] == ["dry_run"] * 3 + ["resume"] * 3
    check(w)


def test_job_set_that_fits_in_part_has_no_pods(world: MakeWorld) -> None:
    w = world(node("n0"))
    w.jobs.submit_set("train", 2, 3)
    w.advance(10)
    assert held(w) == [True, True]
    assert not w.cluster.pods()
    w.cluster.put(node("n1"))
    w.advance(3)
    assert len(living(w)) == len(w.jobs.with_node) == 5
    check(w)


def test_waiting_job_set_that_is_suspended_is_not_placed_until_it_is_resumed(world: MakeWorld) -> None:
    w = world(node("n0"))
    blocker = w.jobs.submit("blocker", 4)
    w.advance(2)
    w.jobs.submit_set("train", 2, 2)
    w.advance(2)
    w.jobs.suspend_set("train", True)
    for pod in w.jobs.pods(blocker):
        w.change(pod, phase="Succeeded")
    w.advance(5)
    assert held(w) == [False, True, True]
    assert not living(w)
    w.restart()
    w.advance(5)
    assert not living(w)
    check(w)
    w.jobs.suspend_set("train", False)
    w.advance(3)
    assert living(w) == ["n0"] * 4
    assert not w.jobs.late
    check(w)


def test_job_set_that_is_suspended_gives_its_share_back_and_gets_it_again(world: MakeWorld) -> None:
    w = world(node("n0"))
    w.jobs.submit_set("train", 2, 2)
    w.advance(2)
    w.jobs.suspend_set("train", True)
    w.advance(1)
    w.cluster.reap()
    w.advance(1)
    assert not w.ledger.holdings
    w.jobs.suspend_set("train", False)
    w.advance(3 + BINDS_FOR)
    assert living(w) == ["n0"] * 4
    assert held(w) == [False, False]
    check(w)


def test_job_that_is_resumed_before_the_others_of_its_job_set_has_lost_nothing(world: MakeWorld) -> None:
    w = world(node("n0"))
    jobs = w.jobs.submit_set("train", 2, 2)
    w.advance(2)
    w.jobs.suspend_set("train", True)
    w.advance(1)
    w.cluster.reap()
    w.advance(1)
    w.cluster.put(replace(w.jobs.sets.pop("train"), suspended=False))
    w.advance(BINDS_FOR)
    for job in jobs:
        w.change_job(job, suspended=False)
        w.advance(2)
    assert living(w) == ["n0"] * 4
    assert "hold_job" not in {verb for verb, _ in w.cluster.calls}
    check(w)


def test_job_set_that_is_resumed_where_others_took_its_nodes_is_placed_anew(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    w.jobs.submit_set("train", 2, 2)
    w.advance(2)
    (before,) = set(living(w))
    w.jobs.suspend_set("train", True)
    w.advance(1)
    w.cluster.reap()
    w.foreign(before, "daemon", requests=asks(4000, 1))
    w.advance(BINDS_FOR)
    w.jobs.suspend_set("train", False)
    for _ in range(3):
        w.advance(3)
        w.cluster.reap()
    w.advance(3)
    ours = [pod.node for pod in w.cluster.pods() if pod.ours and not (pod.finished or pod.deleting)]
    assert set(ours) == {"n0", "n1"} - {before}
    assert len(ours) == 4
    check(w)


def test_place_that_one_job_of_a_job_set_loses_is_replaced_beside_the_others(world: MakeWorld) -> None:
    limits = replace(LIMITS, uncreated=BINDS_FOR + 10, completion=2 * BINDS_FOR)
    w = world(node("n0", cpu=2000), node("n1", cpu=2000), node("n2"), limits=limits)
    w.jobs.quota = 3
    jobs = w.jobs.submit_set("train", 2, 2)
    w.advance(1)
    plans = [w.cluster.job(job).nodes for job in jobs]
    assert all(plans)
    assert len(w.cluster.pods()) == 3
    before = living(w)
    lost = plans[1][1]
    cordon(w, lost)
    w.advance(BINDS_FOR + 2)
    assert held(w) == [False, False]
    w.jobs.quota = None
    w.advance(3)
    after = living(w)
    for name in before:
        after.remove(name)
    assert after not in ([lost], [""])
    assert w.gang("train").state is GangState.BOUND
    check(w)


def test_crash_between_the_resumes_of_two_jobs_changes_no_plan(world: MakeWorld) -> None:
    w = world(node("n0"))
    w.cluster.delays["resume"] = 0.2
    w.cluster.fail("resume", ClusterError("no answer"))
    w.jobs.quota = 0
    jobs = w.jobs.submit_set("train", 2, 2)
    w.advance(0.6)
    resumed = [job for job in map(w.cluster.job, jobs) if not job.suspended]
    assert len(resumed) == 1
    w.restart()
    other = w.jobs.submit("other", 2)
    w.advance(3)
    w.jobs.quota = None
    w.advance(3)
    assert living(w) == ["n0"] * 4
    assert not w.jobs.pods(other)
    assert not w.jobs.late
    check(w)


def test_job_that_its_job_set_makes_anew_is_placed_where_the_old_one_was(world: MakeWorld) -> None:
    w = world(node("n0"))
    job, _ = w.jobs.submit_set("train", 2, 2)
    w.advance(2)
    w.cluster.remove(job)
    for pod in w.jobs.pods(job):
        w.cluster.remove(pod)
    w.advance(3)
    assert living(w) == ["n0"] * 4
    assert not w.jobs.late
    assert w.gang("train").state is GangState.BOUND
    check(w)


def test_restarted_job_set_waits_until_its_old_pods_are_gone(world: MakeWorld) -> None:
    w = world(node("n0"))
    jobs = w.jobs.submit_set("train", 2, 2)
    w.advance(2)
    for job in jobs:
        w.cluster.remove(job)
        for pod in w.jobs.pods(job):
            w.cluster.delete(pod)
    w.advance(3)
    assert held(w) == [True, True]
    assert not living(w)
    w.cluster.reap()
    w.advance(3)
    assert living(w) == ["n0"] * 4
    assert not w.jobs.late
    check(w)


def test_job_of_a_job_set_whose_pods_are_refused_is_placed_beside_the_others(
    world: MakeWorld,
) -> None:
    w = world(node("n0"))
    w.cluster.fail("dry_run", Denied("exceeded quota", 403))
    w.jobs.submit_set("train", 2, 2)
    w.advance(3)
    assert living(w) == ["n0"] * 4
    assert len(w.jobs.late) == len(w.jobs.with_node) == 2
    check(w)


def test_write_in_an_older_version_is_soon_decided_anew(world: MakeWorld) -> None:
    w = world(node("n0"))
    w.cluster.fail("resume", Conflict("the Job has been modified", 409), times=2)
    w.jobs.submit_set("train", 2, 2)
    w.advance(0.9)
    assert living(w) == ["n0"] * 4
    check(w)


def test_pods_that_a_quota_refuses_hold_nothing(world: MakeWorld) -> None:
    w = world(node("n0"))
    w.jobs.quota = 3
    w.jobs.submit_set("train", 2, 2)
    w.advance(w.limits.uncreated + BINDS_FOR + 60)
    w.cluster.reap()
    w.advance(1)
    assert not w.ledger.holdings
    w.jobs.quota = None
    w.advance(10)
    assert living(w) == ["n0"] * 4
    check(w)
