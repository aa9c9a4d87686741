"""The bind barrier."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Any, TypeVar

import pytest

from fluence_extender.gangs.execution.barrier import Barrier, BarrierFailed, Gathered
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.kinds.membership import alone
from fluence_extender.model.pod import HostPort
from tests.core.clock import VirtualLoop
from tests.core.values import pod

T = TypeVar("T")


def all_of(count: int) -> Gathered:
    return lambda arrived: len(arrived) >= count


def run(work: Awaitable[T]) -> T:
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()


def test_no_member_passes_before_the_last_has_arrived() -> None:
    async def scene() -> list[str]:
        barrier, passed = Barrier(), []

        async def come(uid: str, after: float) -> None:
            await asyncio.sleep(after)
            await barrier.arrive(uid, "n0", all_of(3), 20)
            passed.append(f"{uid}@{asyncio.get_running_loop().time():g}")

        await asyncio.gather(come("a", 0), come("b", 1), come("c", 2))
        await barrier.arrive("late", "n0", all_of(9), 20)
        return passed

    assert sorted(run(scene())) == ["a@2", "b@2", "c@2"]


def test_wait_ends_with_a_reason_and_the_member_counts_as_arrived() -> None:
    async def scene() -> Mapping[str, str]:
        barrier = Barrier()
        with pytest.raises(BarrierFailed, match="within 5 s"):
            await barrier.arrive("a", "n0", all_of(2), 5)
        seen: list[Mapping[str, str]] = []

        def complete(arrived: Mapping[str, str]) -> bool:
            seen.append(dict(arrived))
            return True

        await barrier.arrive("b", "n1", complete, 5)
        return seen[0]

    assert run(scene()) == {"a": "n0", "b": "n1"}


def test_failure_ends_all_waits_at_once() -> None:
    async def scene() -> float:
        barrier = Barrier()
        waiting = [asyncio.create_task(barrier.arrive(uid, "n0", all_of(9), 20)) for uid in "abc"]
        await asyncio.sleep(1)
        barrier.fail("the plan changed")
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert [str(one) for one in results] == ["the plan changed"] * 3
        with pytest.raises(BarrierFailed, match="the plan changed"):
            await barrier.arrive("d", "n0", all_of(1), 20)
        return asyncio.get_running_loop().time()

    assert run(scene()) == 1


def test_open_barrier_does_not_fail_any_more() -> None:
    async def scene() -> bool:
        barrier = Barrier()
        barrier.release()
        barrier.fail("too late")
        await barrier.arrive("a", "n0", all_of(9), 20)
        return barrier.open

    assert run(scene()) is True


def test_waiting_members_pass_when_fewer_are_needed() -> None:
    async def scene() -> float:
        barrier = Barrier()
        waiting = asyncio.create_task(barrier.arrive("a", "n0", all_of(2), 20))
        await asyncio.sleep(3)
        barrier.recheck(all_of(1))
        await waiting
        return asyncio.get_running_loop().time()

    assert run(scene()) == 3


def test_members_that_are_never_there_together_do_not_pass_once_one_was_refused() -> None:
    async def scene() -> None:
        barrier = Barrier()
        first = asyncio.create_task(barrier.arrive("a", "n0", all_of(2), 20))
        await asyncio.sleep(5)
        barrier.doubt()
        with pytest.raises(BarrierFailed):
            await first
        with pytest.raises(BarrierFailed):
            await barrier.arrive("b", "n0", all_of(2), 20)
        assert not barrier.open

    run(scene())


def test_members_that_come_in_turns_do_not_pass_a_barrier_that_begins_in_doubt() -> None:
    async def scene() -> None:
        barrier = Barrier(doubted=True)
        for uid in ("a", "b", "a"):
            with pytest.raises(BarrierFailed):
                await barrier.arrive(uid, "n0", all_of(2), 20)
        assert not barrier.open

    run(scene())


def test_doubt_counts_only_waiting_members() -> None:
    async def scene() -> None:
        barrier = Barrier()
        with pytest.raises(BarrierFailed):
            await barrier.arrive("gone", "n0", all_of(3), 1)
        waiting = asyncio.create_task(barrier.arrive("here", "n0", all_of(2), 20))
        await asyncio.sleep(1)
        barrier.doubt()
        await barrier.arrive("last", "n0", all_of(2), 20)
        await waiting

    run(scene())


def test_members_that_come_at_different_times_gather_after_a_refusal() -> None:
    async def scene() -> tuple[list[str], float]:
        barrier, passed = Barrier(), []

        async def come(uid: str, after: float) -> None:
            await asyncio.sleep(after)
            for _ in range(4):
                try:
                    await barrier.arrive(uid, "n0", all_of(4), 20)
                except BarrierFailed:
                    # kube-scheduler's longest back-off: each is away for a third of the time, at another time.
                    await asyncio.sleep(10)
                else:
                    passed.append(uid)
                    return

        barrier.doubt()
        await asyncio.gather(come("a", 0), come("b", 7), come("c", 14), come("d", 21))
        return sorted(passed), asyncio.get_running_loop().time()

    passed, seconds = run(scene())
    assert (passed, seconds) == (["a", "b", "c", "d"], 30)


@pytest.mark.parametrize(
    ("fields", "doubted"),
    [
        ({"interdependent": True, "refusal": "1 node(s) didn't match pod anti-affinity rules"}, True),
        ({"host_ports": (HostPort(80),), "refusal": "1 node(s) didn't have free ports"}, True),
        ({"interdependent": True}, False),
        ({"refusal": "1 Insufficient cpu"}, False),
    ],
)
def test_new_plan_of_members_that_may_keep_each_other_away_begins_in_doubt_once_one_was_refused(
    fields: dict[str, Any], doubted: bool
) -> None:
    pods = [pod("a"), pod("b", **fields)]
    gang = Gang(alone(pods[0]).key, {one.uid: Member(one, alone(one)) for one in pods})
    gang.gather_anew()
    assert gang.barrier.doubted is doubted
