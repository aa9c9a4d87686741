"""Answers of the API server are believed for a while."""

from __future__ import annotations

import asyncio

import pytest

from fluence_extender.http.listeners.brief_cache import BriefCache

MOST = 100


class Source:
    """Counts how often each key is looked up. "slow" is answered after ``go_on``, "broken" never."""

    def __init__(self) -> None:
        self.now = 0.0
        self.times: dict[str, int] = {}
        self.go_on = asyncio.Event()
        self.asked = asyncio.Event()
        self.cache: BriefCache[str, int] = BriefCache(5.0, MOST, lambda: self.now)

    async def get(self, namespace: str) -> int:
        return await self.cache.get(namespace, lambda: self._find(namespace))

    async def _find(self, namespace: str) -> int:
        self.times[namespace] = self.times.get(namespace, 0) + 1
        self.asked.set()
        if namespace == "slow":
            await self.go_on.wait()
        if namespace == "broken":
            raise OSError("no answer")
        return self.times[namespace]


async def test_answer_is_believed_for_its_time_only() -> None:
    source = Source()
    assert await source.get("a") == 1
    source.now = 4.9
    assert await source.get("a") == 1
    source.now = 5.0
    assert await source.get("a") == 2


async def test_time_counts_from_the_question() -> None:
    source = Source()
    waiting = asyncio.create_task(source.get("slow"))
    await source.asked.wait()
    source.now = 5.0
    source.go_on.set()
    assert await waiting == 1
    assert await source.get("slow") == 2


async def test_callers_that_ask_about_the_same_share_the_answer_and_others_go_on() -> None:
    source = Source()
    waiting = [asyncio.create_task(source.get("slow")) for _ in range(50)]
    assert await source.get("other") == 1
    source.go_on.set()
    assert await asyncio.gather(*waiting) == [1] * 50
    assert source.times == {"slow": 1, "other": 1}


async def test_failure_is_not_remembered() -> None:
    source = Source()
    for _ in range(2):
        with pytest.raises(OSError, match="no answer"):
            await source.get("broken")
    assert source.times == {"broken": 2}


async def test_answers_do_not_pile_up() -> None:
    source = Source()
    for number in range(MOST + 1):
        await source.get(str(number))
    assert await source.get("1") == 1
    assert await source.get("0") == 2


async def test_questions_that_fail_leave_nothing_behind() -> None:
    source = Source()
    before = [len(one) for one in vars(source.cache).values() if isinstance(one, dict)]
    for _ in range(50):
        with pytest.raises(OSError, match="no answer"):
            await source.get("broken")
    await asyncio.sleep(0)
    assert [len(one) for one in vars(source.cache).values() if isinstance(one, dict)] == before


async def test_caller_that_gives_up_takes_the_answer_from_nobody_else() -> None:
    source = Source()
    leaving, staying = (asyncio.create_task(source.get("slow")) for _ in range(2))
    await asyncio.sleep(0)
    leaving.cancel()
    source.go_on.set()
    assert await staying == 1
