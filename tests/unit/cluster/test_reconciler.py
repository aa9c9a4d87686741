"""The reconciler calls its rule for what was enqueued, for what is due, and again for what failed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from structlog.testing import capture_logs

from fluence_extender.cluster.errors import ClusterError, Conflict, Gone
from fluence_extender.cluster.reconciler import CONCURRENCY, FIRST_RETRY, LONGEST_RETRY, Reconciler, each


class Rule(Reconciler[str]):
    """Records the keys it is called with; each call returns, or raises, the next of ``answers``."""

    def __init__(self, *answers: float | ClusterError | None) -> None:
        self.keys: list[str] = []
        self.now = 0.0
        self.during: Callable[[], None] = lambda: None
        self._answers = list(answers)
        super().__init__("a thing", 0.0, lambda: self.now)

    async def reconcile(self, key: str) -> float | None:
        self.keys.append(key)
        self.during()
        answer = self._answers.pop(0) if self._answers else None
        if isinstance(answer, ClusterError):
            raise answer
        return answer

    async def after(self, seconds: float) -> list[str]:
        """Return the keys that are reconciled ``seconds`` later."""
        self.now += seconds
        self.keys.clear()
        await self.round()
        return list(self.keys)


async def test_keys_enqueued_together_are_reconciled_once_each() -> None:
    rule = Rule()
    for keys in ("ab", "b", "c"):
        rule.enqueue(keys)
    assert await rule.after(0) == ["a", "b", "c"]
    assert await rule.after(1000) == []


async def test_key_is_reconciled_again_when_its_rule_asks_for_it() -> None:
    rule = Rule(5.0)
    rule.enqueue("a")
    assert await rule.after(0) == ["a"]
    assert await rule.after(4) == []
    assert await rule.after(1) == ["a"]


async def test_event_comes_before_a_later_due_time() -> None:
    rule = Rule(5.0)
    rule.enqueue("a")
    await rule.after(0)
    rule.enqueue("a")
    rule.enqueue("a", 3.0)
    assert await rule.after(0) == ["a"]


async def test_key_enqueued_while_it_is_reconciled_is_reconciled_once_more() -> None:
    rule = Rule()
    rule.during = lambda: rule.enqueue("a") if len(rule.keys) == 1 else None
    rule.enqueue("a")
    assert await rule.after(0) == ["a"]
    rule.during = lambda: None
    assert await rule.after(0) == ["a"]
    assert await rule.after(0) == []


async def test_failed_key_is_tried_again_after_growing_delays_and_holds_up_no_other() -> None:
    rule = Rule(*[ClusterError("no answer")] * 10)
    rule.enqueue("a")
    await rule.after(0)
    waits = []
    for _ in range(8):
        waits.append(0.25)
        while not await rule.after(0.25):
            waits[-1] += 0.25
    assert waits[0] <= FIRST_RETRY
    assert LONGEST_RETRY / 2 <= waits[-1] <= LONGEST_RETRY + 0.25
    rule.enqueue("b")
    assert await rule.after(0) == ["b"]


async def test_lost_race_is_tried_again_and_not_logged() -> None:
    rule = Rule(Conflict("exists", 409), Gone("not found", 404), ClusterError("no answer"))
    with capture_logs() as logs:
        for _ in range(3):
            rule.enqueue("a")
            await rule.after(LONGEST_RETRY)
    assert rule.keys == ["a"]
    assert [line["problem"] for line in logs] == ["no answer"]


async def test_loop_follows_events_and_due_times() -> None:
    rule = Rule(0.0, 0.0)
    reconciled = asyncio.Event()
    rule.during = reconciled.set
    running = asyncio.create_task(rule.run())

    async def until(count: int) -> None:
        async with asyncio.timeout(30):
            while len(rule.keys) < count:
                await reconciled.wait()
                reconciled.clear()

    rule.enqueue("a")
    await until(3)
    rule.enqueue("b")
    await until(4)
    running.cancel()
    assert rule.keys == ["a", "a", "a", "b"]


async def test_each_limits_how_many_run_at_once_and_keeps_the_order() -> None:
    running, most = 0, 0

    async def double(item: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return item * 2

    assert await each(double, range(50)) == [2 * item for item in range(50)]
    assert most == CONCURRENCY
    assert await each(double, []) == []
