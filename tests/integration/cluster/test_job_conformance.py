"""Jobs that are placed before their pods exist: the embedded cluster and a real API server follow the same rules."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import replace
from typing import Any

import pytest

from fluence_extender.cluster.errors import Conflict, Gone
from fluence_extender.kinds.job import Job
from fluence_extender.model.names import COMPLETION_INDEX
from fluence_extender.model.pod import Owner
from tests.integration.cluster.conftest import NODES
from tests.integration.cluster.lab import LONGEST, Lab

SINCE = (1767323045.0, -1)
"""A place in line, as it is recorded on a Job that is sent back."""


@pytest.fixture
def held() -> dict[str, Any]:
    """A gang of two pods, which admission suspends."""
    container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": "100m"}}}
    template = {
        "metadata": {"labels": {"app": "x"}, "annotations": {"note": "y"}},
        "spec": {"schedulerName": "fluence", "restartPolicy": "Never", "containers": [container]},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"j-{uuid.uuid4().hex[:8]}"},
        "spec": {
            "completionMode": "Indexed",
            "completions": 2,
            "parallelism": 2,
            "activeDeadlineSeconds": 600,
            "template": template,
        },
    }


async def now(lab: Lab, job: Job) -> Job:
    found = await lab.read_job(job)
    assert found is not None
    return found


async def settled(lab: Lab, job: Job) -> Job:
    """Return the Job once its controller has written its status, so that nothing changes it any more."""
    async with asyncio.timeout(LONGEST):
        while True:
            before = await now(lab, job)
            await asyncio.sleep(0.5)
            if before.version == (after := await now(lab, job)).version:
                return after


def written(job: Job) -> tuple[bool, bool, tuple[str, ...]]:
    """What the writes change of a Job; its controller changes the status at any time."""
    return job.suspended, job.held_for_placement, job.nodes


async def pod_count(lab: Lab, job: Job, count: int) -> None:
    """Wait until the Job has so many pods."""
    async with asyncio.timeout(LONGEST):
        while True:
            if len(await lab.pods_of(job)) == count:
                return
            await asyncio.sleep(0.05)


async def test_held_job_has_no_pods_and_no_end(lab: Lab, held: dict[str, Any]) -> None:
    job = await settled(lab, await lab.create_job(held))
    assert (job.ours, job.suspended, job.held_for_placement, job.finished) == (True, True, True, False)
    assert (job.ends, job.nodes, job.done) == (None, (), ())
    assert await lab.pods_of(job) == []


async def test_first_pod_is_foreseen_and_not_created(lab: Lab, held: dict[str, Any]) -> None:
    job = await lab.create_job(held)
    (pod,) = await lab.cluster.dry_run(job)
    assert (pod.ours, pod.node, pod.namespace) == (True, "", "default")
    assert (pod.requests["cpu"], pod.labels["app"], pod.annotations["note"]) == (100, "x", "y")
    assert pod.annotations[COMPLETION_INDEX] == "0"
    assert pod.owner == Owner("Job", job.name, job.uid)
    assert pod.created > 0
    (again,) = await lab.cluster.dry_run(job)
    assert replace(again, uid=pod.uid) == pod
    assert await lab.pods_of(job) == []


async def test_resumed_job_has_its_nodes_and_gets_its_pods(lab: Lab, held: dict[str, Any]) -> None:
    job = await settled(lab, await lab.create_job(held))
    await lab.cluster.resume(job, NODES)
    await pod_count(lab, job, 2)
    after = await settled(lab, job)
    assert (after.suspended, after.held_for_placement, after.nodes) == (False, False, NODES)
    assert after.ends is not None
    assert sorted(pod.annotations[COMPLETION_INDEX] for pod in await lab.pods_of(job)) == ["0", "1"]


async def test_real_pod_asks_for_what_was_foreseen(lab: Lab, held: dict[str, Any]) -> None:
    job = await settled(lab, await lab.create_job(held))
    (expected,) = await lab.cluster.dry_run(job)
    await lab.cluster.resume(job, ())
    await pod_count(lab, job, 2)
    real = next(pod for pod in await lab.pods_of(job) if pod.annotations[COMPLETION_INDEX] == "0")
    same = replace(expected, name=real.name, uid=real.uid, created=real.created)
    assert replace(same, resource_version=real.resource_version) == real


async def test_job_that_changes_meanwhile_is_not_resumed(lab: Lab, held: dict[str, Any]) -> None:
    job = await settled(lab, await lab.create_job(held))
    await lab.edit_job(job)
    with pytest.raises(Conflict):
        await lab.cluster.resume(job, NODES)
    after = await now(lab, job)
    assert (after.held_for_placement, after.nodes) == (True, ())
    await lab.cluster.resume(await settled(lab, job), NODES)


async def test_deleted_job_and_its_namesake_are_neither_resumed_nor_held(
    lab: Lab, held: dict[str, Any]
) -> None:
    job = await lab.create_job(held)
    await lab.delete_job(job)
    async with asyncio.timeout(LONGEST):
        while True:
            if await lab.read_job(job) is None:
                break
            await asyncio.sleep(0.05)
    for _ in range(2):
        for attempt in (
            lab.cluster.dry_run(job),
            lab.cluster.resume(job, NODES),
            lab.cluster.hold_job(job, SINCE),
        ):
            with pytest.raises(Gone, match=job.name):
                await attempt
        namesake = await lab.read_job(job) or await lab.create_job(held)
    assert (await now(lab, namesake)).held_for_placement


async def test_job_that_is_held_again_loses_its_pods_and_can_be_resumed_elsewhere(
    lab: Lab, held: dict[str, Any]
) -> None:
    job = await settled(lab, await lab.create_job(held))
    await lab.cluster.resume(job, NODES)
    await pod_count(lab, job, 2)
    before = {pod.uid for pod in await lab.pods_of(job)}
    await lab.cluster.hold_job(await settled(lab, job), SINCE)
    await pod_count(lab, job, 0)
    again = await settled(lab, job)
    assert (again.held_for_placement, again.ends) == (True, None)
    await lab.cluster.resume(again, NODES[::-1])
    await pod_count(lab, job, 2)
    assert (await now(lab, job)).nodes == NODES[::-1]
    assert before.isdisjoint(pod.uid for pod in await lab.pods_of(job))


async def test_repeated_write_succeeds_and_changes_nothing(lab: Lab, held: dict[str, Any]) -> None:
    job = await settled(lab, await lab.create_job(held))
    await lab.cluster.resume(job, NODES)
    running = await settled(lab, job)
    await lab.cluster.resume(job, NODES)
    assert written(await settled(lab, job)) == written(running)
    with pytest.raises(Conflict):
        await lab.cluster.resume(job, NODES[::-1])
    await lab.cluster.hold_job(running, SINCE)
    again = await settled(lab, job)
    await lab.cluster.hold_job(running, SINCE)
    assert written(await settled(lab, job)) == written(again)
