"""Writes take turns by namespace, and those about large objects have a pace."""

from __future__ import annotations

import asyncio
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from fluence_extender.gangs.execution.writes import (
    BYTES_A_SECOND,
    BYTES_AT_ONCE,
    BYTES_UNDER_WAY,
    SHARE,
    SHORTEST_WAIT,
    USUAL_BYTES,
    FairSlots,
)
from tests.core.clock import VirtualLoop

COUNT = 16
MOST = int(COUNT * SHARE)


class Writes:
    """Writes that end when they are told to."""

    def __init__(self) -> None:
        self.slots = FairSlots(COUNT)
        self.under_way: Counter[str] = Counter()
        self.started: list[str] = []
        self.ends = asyncio.Semaphore(0)

    async def write(self, namespace: str, size: int = 0) -> None:
        async with self.slots.taken(namespace, size):
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
        tasks.create_task(writes.write("a"))
        await settle()
        assert writes.under_way["a"] == 1
        writes.ends.release()


TOOK = 0.05
"""Seconds that each write takes."""

HEAVY = ("a", "b", "c")
sizes = st.integers(0, 1_500_000)


@settings(max_examples=50, deadline=None)
@given(
    heavy=st.lists(st.tuples(st.sampled_from(HEAVY), sizes), max_size=60),
    small=st.lists(st.floats(0, 20), min_size=1, max_size=10),
    count=st.sampled_from((1, 4, 8, COUNT)),
)
def test_small_writes_of_other_namespaces_pass_large_ones_and_each_large_one_has_its_turn(
    heavy: list[tuple[str, int]], small: list[float], count: int
) -> None:
    loop = VirtualLoop()
    slots = FairSlots(count)
    begun: list[tuple[str, float, int]] = []

    async def write(namespace: str, size: int, at: float = 0.0) -> float:
        await asyncio.sleep(at)
        came = loop.time()
        async with slots.taken(namespace, size):
            begun.append((namespace, loop.time(), size))
            waited = loop.time() - came
            await asyncio.sleep(TOOK)
        return waited

    async def all_of_them() -> list[float]:
        large = [asyncio.create_task(write(name, size)) for name, size in heavy]
        waits = [await write(f"small-{number}", 0, at) for number, at in enumerate(small)]
        await asyncio.gather(*large)
        return waits

    # A newcomer waits until a slot is free, and for one turn of each other namespace at most.
    assert max(loop.run_until_complete(all_of_them())) <= TOOK * (len(HEAVY) + 1) + SHORTEST_WAIT
    assert len(begun) == len(heavy) + len(small)
    for name in HEAVY:
        spent = 0
        writes = [(at, max(size - USUAL_BYTES, 0)) for one, at, size in begun if one == name]
        assert [size for _, size in writes] == [
            max(size - USUAL_BYTES, 0) for one, size in heavy if one == name
        ]
        for number, (at, excess) in enumerate(writes):
            allowed = BYTES_AT_ONCE + BYTES_A_SECOND * at
            assert spent <= allowed + 1
            spent += excess
            under_way = sum(size for began, size in writes[:number] if at < began + TOOK - 1e-9)
            assert under_way < BYTES_UNDER_WAY
        # Nor does a write wait for longer than those before it take, and the pace to come by their bytes.
        due = max(spent - BYTES_AT_ONCE, 0) / BYTES_A_SECOND
        patience = (TOOK + SHORTEST_WAIT) * (len(heavy) + len(small) + 1)
        assert not writes or writes[-1][0] <= due + patience
    loop.close()
