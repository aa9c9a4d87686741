"""Writes of a replica that doesn't lead, or stops leading meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from fluence_extender.cluster.errors import NotLeading
from fluence_extender.cluster.port import Cluster, Regarding
from fluence_extender.gangs.execution.writes import Fence
from fluence_extender.kinds.job import Job
from fluence_extender.kinds.podgroups import CoschedulingGroup, MemberStatus, PodGroup
from fluence_extender.model.names import GATE
from fluence_extender.model.pod import Pod
from fluence_extender.objects.queues import NodeReservation, Queue, QueueStatus, ReservationStatus
from tests.core.faulty_cluster import FaultyCluster

POD = Pod("ns", "p", "u1", gates=(GATE,))
GROUP = CoschedulingGroup("ns", "g", "u", 2)
JOB = Job("ns", "j", "u", 2, suspended=True)
QUEUE, RESERVED = Queue("physics"), NodeReservation("rack7", 0, 60)
STORED = replace(JOB, version="2")
"""The Job as the cluster stores it after the pod."""

Write = Callable[[Cluster], Awaitable[object]]


class Lead:
    """A leadership that a test sets."""

    leads = True
    holds = True
    why_not = "the lease is held by another"


def nominate(cluster: Cluster) -> Awaitable[int]:
    return cluster.nominate(POD, "n1")


WRITES: dict[str, Write] = {
    "nominate": nominate,
    "ungate": lambda cluster: cluster.ungate(POD, GATE),
    "bind": lambda cluster: cluster.bind(POD, "n1", {}),
    "evict": lambda cluster: cluster.evict(POD, "why"),
    "report_pod": lambda cluster: cluster.report_pod(POD, "busy"),
    "report_group": lambda cluster: cluster.report_group(PodGroup("ns", "g", "u", 2), True, "x", "y"),
    "report_members": lambda cluster: cluster.report_members(GROUP, MemberStatus("Running")),
    "report_job": lambda cluster: cluster.report_job(JOB, "unsatisfiable: why"),
    "report_queue": lambda cluster: cluster.report_queue(QUEUE, QueueStatus(1)),
    "report_reservation": lambda cluster: cluster.report_reservation(RESERVED, ReservationStatus(1)),
    "resume": lambda cluster: cluster.resume(STORED, ("n1", "n2")),
    "hold_job": lambda cluster: cluster.hold_job(STORED, (0.0, 0)),
    "event": lambda cluster: cluster.event(Regarding("v1", "Pod", "ns", "p", "u1"), "Busy", "busy"),
}


def state(cluster: FaultyCluster) -> object:
    return cluster.pods(), cluster.events, cluster.reports, cluster.waiting, cluster.calls


@pytest.mark.parametrize("name", WRITES)
async def test_standby_writes_nothing(name: str) -> None:
    cluster, lead = FaultyCluster(POD, GROUP, JOB, QUEUE, RESERVED), Lead()
    lead.leads = lead.holds = False
    before = repr(state(cluster))
    with pytest.raises(NotLeading, match="not the leader: the lease is held by another"):
        await Fence(cluster, lead).write(WRITES[name])
    assert repr(state(cluster)) == before


@pytest.mark.parametrize("name", WRITES)
async def test_leader_writes(name: str) -> None:
    cluster = FaultyCluster(POD, GROUP, JOB, QUEUE, RESERVED)
    before = repr((cluster.pods(), cluster.events, cluster.reports, vars(cluster)))
    if name == "bind":
        await Fence(cluster, Lead()).write(WRITES["ungate"])
    await Fence(cluster, Lead()).write(WRITES[name])
    assert repr((cluster.pods(), cluster.events, cluster.reports, vars(cluster))) != before


async def test_write_under_way_is_given_up_when_the_lead_is_lost() -> None:
    cluster = FaultyCluster(POD, GROUP, JOB, QUEUE, RESERVED)
    cluster.delays["nominate"] = 30.0
    fence = Fence(cluster, Lead())
    writing = asyncio.create_task(fence.write(nominate))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    fence.give_up()
    with pytest.raises(NotLeading, match="lost during the write"):
        await writing
    assert cluster.pods()[0].nominated == ""


async def test_time_limit_of_a_write_itself_is_no_loss_of_the_lead() -> None:
    cluster = FaultyCluster(POD, GROUP, JOB, QUEUE, RESERVED)
    cluster.fail("nominate", TimeoutError("slow"))
    with pytest.raises(TimeoutError, match="slow"):
        await Fence(cluster, Lead()).write(nominate)


async def test_cancelled_write_stays_cancelled() -> None:
    cluster = FaultyCluster(POD, GROUP, JOB, QUEUE, RESERVED)
    cluster.delays["nominate"] = 30.0
    writing = asyncio.create_task(Fence(cluster, Lead()).write(nominate))
    await asyncio.sleep(0)
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing


async def test_write_waits_for_word_that_the_lease_is_still_ours() -> None:
    cluster, lead = FaultyCluster(POD), Lead()
    lead.leads = False
    writing = asyncio.create_task(Fence(cluster, lead).write(nominate))
    await asyncio.sleep(0.05)
    assert cluster.calls == []
    lead.leads = True
    await writing
    assert cluster.pods()[0].nominated == "n1"


async def test_write_that_waits_for_such_word_in_vain_is_not_made() -> None:
    cluster, lead = FaultyCluster(POD), Lead()
    lead.leads = False
    writing = asyncio.create_task(Fence(cluster, lead).write(nominate))
    await asyncio.sleep(0.05)
    lead.holds = False
    with pytest.raises(NotLeading, match="held by another"):
        await writing
    assert cluster.calls == []


async def test_write_that_waits_for_such_word_is_given_up_with_the_others() -> None:
    cluster, lead = FaultyCluster(POD), Lead()
    lead.leads = False
    fence = Fence(cluster, lead)
    writing = asyncio.create_task(fence.write(nominate))
    await asyncio.sleep(0)
    fence.give_up()
    with pytest.raises(NotLeading, match="lost during the write"):
        await writing
    assert cluster.calls == []
