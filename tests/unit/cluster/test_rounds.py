"""Work in rounds: begun by what is seen, by what comes due, and not before."""

from __future__ import annotations

import asyncio

from fluence_extender.cluster.rounds import AT_ONCE, Rounds, each


class Work:
    """Does rounds, each of which says when the next is due."""

    def __init__(self, *dues: float | None) -> None:
        self.rounds = 0
        self.done = asyncio.Event()
        self._dues = list(dues)

    async def __call__(self) -> float | None:
        self.rounds += 1
        self.done.set()
        return self._dues.pop(0) if self._dues else None


async def after(work: Work) -> None:
    """Wait for the next round."""
    async with asyncio.timeout(30):
        await work.done.wait()
    work.done.clear()


async def test_round_follows_what_is_seen_and_what_comes_together_is_one() -> None:
    work = Work()
    rounds = Rounds(work, lambda: 0.0, 0.0)
    running = asyncio.create_task(rounds.run())
    await after(work)
    rounds.wake()
    rounds.wake()
    await after(work)
    for _ in range(20):
        await asyncio.sleep(0)
    running.cancel()
    assert work.rounds == 2


async def test_round_follows_when_something_is_due() -> None:
    work = Work(-1.0, 0.001)
    running = asyncio.create_task(Rounds(work, lambda: 0.0, 0.0).run())
    for _ in range(3):
        await after(work)
    running.cancel()


async def test_what_is_seen_during_a_round_is_looked_at_in_the_next() -> None:
    rounds: Rounds

    class Seen(Work):
        async def __call__(self) -> float | None:
            if self.rounds == 0:
                rounds.wake()
            return await super().__call__()

    work = Seen()
    rounds = Rounds(work, lambda: 0.0, 0.0)
    running = asyncio.create_task(rounds.run())
    await after(work)
    await after(work)
    running.cancel()


async def test_all_are_done_a_few_at_once_whatever_becomes_of_each() -> None:
    under_way, most, done = 0, 0, []

    async def do(thing: int) -> bool:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        done.append(thing)
        return thing != 7

    assert not await each(do, range(50))
    assert sorted(done) == list(range(50))
    assert most == AT_ONCE
    assert await each(do, range(7))
    assert await each(do, [])
