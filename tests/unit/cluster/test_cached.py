"""Answers about namespaces that are believed for a while."""

from __future__ import annotations

import asyncio

import pytest

from fluence_extender.cluster.cached import Cached


class Asked:
    """Counts how often it is asked about each namespace; ``of`` "slow" it answers when told to, "broken" never."""

    def __init__(self) -> None:
        self.now = 0.0
        self.times: dict[str, int] = {}
        self.go_on = asyncio.Event()
        self.cached = Cached(self._find, lambda: self.now)

    async def _find(self, namespace: str) -> tuple[int, float]:
        self.times[namespace] = self.times.get(namespace, 0) + 1
        if namespace == "slow":
            await self.go_on.wait()
        if namespace == "broken":
            raise OSError("no answer")
        return self.times[namespace], 5.0


async def test_answer_is_believed_for_its_time_only() -> None:
    asked = Asked()
    assert await asked.cached.of("a") == 1
    asked.now = 4.9
    assert await asked.cached.of("a") == 1
    asked.now = 5.0
    assert await asked.cached.of("a") == 2


async def test_time_counts_from_the_answer() -> None:
    asked = Asked()
    waiting = asyncio.create_task(asked.cached.of("slow"))
    await asyncio.sleep(0)
    asked.now = 10.0
    asked.go_on.set()
    assert await waiting == 1
    assert await asked.cached.of("slow") == 1


async def test_who_asks_meanwhile_waits_for_the_answer_and_others_go_on() -> None:
    asked = Asked()
    waiting = [asyncio.create_task(asked.cached.of("slow")) for _ in range(50)]
    assert await asked.cached.of("other") == 1
    asked.go_on.set()
    assert await asyncio.gather(*waiting) == [1] * 50
    assert asked.times == {"slow": 1, "other": 1}


async def test_failure_isnt_remembered() -> None:
    asked = Asked()
    for _ in range(2):
        with pytest.raises(OSError, match="no answer"):
            await asked.cached.of("broken")
    assert asked.times == {"broken": 2}
