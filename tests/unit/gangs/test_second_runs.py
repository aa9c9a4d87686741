"""Gangs that go on after some of their members have ended: who isn't created again isn't waited for."""

from __future__ import annotations

import pytest

from fluence_extender.kinds.job import Job
from fluence_extender.kinds.jobset import JobSet, ReplicatedJob
from fluence_extender.model.gang import GangState
from fluence_extender.model.pod import Owner, Pod
from tests.core.manifests import job_pod, job_set_pod, kueue
from tests.core.values import node
from tests.core.world import World
from tests.unit.gangs.conftest import MakeWorld, put


def of_job_set(w: World, kind: str, index: int, life: str = "", attempt: str = "0") -> Pod:
    body = job_set_pod("js", kind, 0, index, 1, 2)
    body["metadata"]["labels"]["jobset.sigs.k8s.io/restart-attempt"] = attempt
    owner = Owner("Job", f"js-{kind}-0", f"uid-{kind}-{attempt}")
    return put(w, body, f"js-{kind}-0-{index}{life}", owner)


def bound_job_set(world: MakeWorld) -> tuple[World, list[Pod]]:
    """A JobSet of which the driver has succeeded, and its workers."""
    w = world(node("n0"), JobSet("default", "js", "u", (ReplicatedJob("driver", 1), ReplicatedJob("w", 2))))
    driver, *workers = [of_job_set(w, "driver", 0), of_job_set(w, "w", 0), of_job_set(w, "w", 1)]
    w.advance(5)
    assert all(w.nodes_of(driver, *workers))
    w.change(driver, phase="Succeeded")
    w.advance(1)
    return w, workers


@pytest.mark.parametrize("restarted", [False, True])
def test_job_set_that_is_resumed_is_whole_without_the_job_that_is_done(
    world: MakeWorld, restarted: bool
) -> None:
    w, workers = bound_job_set(world)
    for one in workers:
        w.cluster.remove(w.now(one))
    w.advance(2)
    if restarted:
        w.restart()
    first = of_job_set(w, "w", 0, "-again")
    w.advance(5)
    assert not any(w.nodes_of(first))
    second = of_job_set(w, "w", 1, "-again")
    w.advance(5)
    assert all(w.nodes_of(first, second))
    assert w.gang("js").state is GangState.BOUND


def test_job_set_that_restarts_is_whole_with_all_its_jobs_only(world: MakeWorld) -> None:
    w, workers = bound_job_set(world)
    for one in workers:
        w.cluster.remove(w.now(one))
    again = [of_job_set(w, "w", number, "-again", "1") for number in range(2)]
    w.advance(5)
    assert not any(w.nodes_of(*again))
    driver = of_job_set(w, "driver", 0, "-again", "1")
    w.advance(5)
    assert all(w.nodes_of(driver, *again))


def test_job_that_is_resumed_is_whole_without_the_index_that_has_failed(world: MakeWorld) -> None:
    w = world(node("n0"), Job("default", "j", "u", 3, 3, indexed=True))
    failing, *others = [put(w, job_pod("j", number), f"j-{number}") for number in range(3)]
    w.advance(5)
    w.change(failing, phase="Failed")
    w.cluster.put(Job("default", "j", "u", 3, 3, indexed=True, failed_indexes=1))
    w.advance(1)
    assert w.gang("j").reason is None
    for one in others:
        w.cluster.remove(w.now(one))
    w.advance(2)
    first = put(w, job_pod("j", 1), "j-1-again")
    w.advance(5)
    assert not any(w.nodes_of(first))
    second = put(w, job_pod("j", 2), "j-2-again")
    w.advance(5)
    assert all(w.nodes_of(first, second))


def plain(w: World, number: int) -> Pod:
    return put(w, kueue(f"k-{number}", "k", "3"), f"k-{number}")


def test_plain_pods_of_kueue_that_have_succeeded_count_for_their_group(world: MakeWorld) -> None:
    w = world(node("n0"))
    first, *others = [plain(w, number) for number in range(3)]
    w.advance(5)
    w.change(first, phase="Succeeded")
    for one in others:
        w.cluster.remove(w.now(one))
    w.advance(2)
    again = [plain(w, 3)]
    w.advance(5)
    assert not any(w.nodes_of(*again))
    again.append(plain(w, 4))
    w.advance(5)
    assert all(w.nodes_of(*again))


def test_group_of_kueue_that_is_done_does_not_count_for_another_of_its_name(world: MakeWorld) -> None:
    w = world(node("n0"))
    done = [plain(w, number) for number in range(3)]
    w.advance(5)
    for one in done:
        w.change(one, phase="Succeeded")
    w.advance(2)
    again = [plain(w, number) for number in (3, 4)]
    w.advance(5)
    assert not any(w.nodes_of(*again))
    again.append(plain(w, 5))
    w.advance(5)
    assert all(w.nodes_of(*again))
