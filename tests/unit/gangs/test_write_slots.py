"""Writes take turns by namespace, and large ones count as many."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from fluence_extender.gangs.execution.slots import SHARE, FairSlots, slots_of
from fluence_extender.model.pod import HostPort
from tests.core.values import pod

COUNT = 16
MOST = int(COUNT * SHARE)


class Writes:
    """Writes that end when they are told to."""

    def __init__(self) -> None:
        self.slots = FairSlots(COUNT)
        self.under_way: Counter[str] = Counter()
        self.started: list[str] = []
        self.ends = asyncio.Semaphore(0)

    async def write(self, namespace: str, slots: int = 1) -> None:
        async with self.slots.taken(namespace, slots):
            self.under_way[namespace] += 1
            self.started.append(namespace)
            await self.ends.acquire()
            self.under_way[namespace] -= 1


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_newcomer_starts_at_once_while_a_thousand_writes_of_another_namespace_wait() -> None:
    writes = Writes()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(1000):
            tasks.create_task(writes.write("crowd"))
        await settle()
        assert writes.under_way["crowd"] == MOST
        tasks.create_task(writes.write("newcomer"))
        await settle()
        assert writes.under_way["newcomer"] == 1
        for _ in range(1001):
            writes.ends.release()


async def test_free_slot_goes_to_the_namespace_that_has_the_fewest() -> None:
    writes = Writes()
    async with asyncio.TaskGroup() as tasks:
        for name in ("a", "b"):
            for _ in range(100):
                tasks.create_task(writes.write(name))
        await settle()
        assert writes.under_way == {"a": MOST, "b": COUNT - MOST}
        for _ in range(MOST):
            writes.ends.release()
            await settle()
        assert abs(writes.under_way["a"] - writes.under_way["b"]) <= 2
        for _ in range(200):
            writes.ends.release()


async def test_large_writes_count_as_many_and_none_waits_for_ever() -> None:
    writes = Writes()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(10):
            tasks.create_task(writes.write("large", 5))
        await settle()
        assert writes.under_way["large"] == MOST // 5
        tasks.create_task(writes.write("huge", 1000))
        for _ in range(50):
            tasks.create_task(writes.write("small"))
        await settle()
        for _ in range(10):
            writes.ends.release()
            await settle()
        assert "huge" in writes.started
        assert writes.started.count("small") < 50
        for _ in range(100):
            writes.ends.release()


async def test_write_that_is_given_up_while_it_waits_takes_no_slot() -> None:
    writes = Writes()
    async with asyncio.TaskGroup() as tasks:
        some = [tasks.create_task(writes.write("a")) for _ in range(MOST + 5)]
        await settle()
        for task in some[MOST:]:
            task.cancel()
        await settle()
        for _ in range(MOST):
            writes.ends.release()
        await settle()
        tasks.create_task(writes.write("a", MOST))
        await settle()
        assert writes.under_way["a"] == 1
        writes.ends.release()


@pytest.mark.parametrize(
    ("annotation", "ports", "slots"), [("", 0, 1), ("x" * 200_000, 0, 25), ("", 256, 3)], ids=str
)
def test_slots_grow_with_what_a_pod_carries(annotation: str, ports: int, slots: int) -> None:
    carried = pod(
        "p",
        annotations={"a": annotation},
        host_ports=tuple(HostPort(1 + number, "TCP", "0.0.0.0") for number in range(ports)),
    )
    assert slots_of(carried) == slots
