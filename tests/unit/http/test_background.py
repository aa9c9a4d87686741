"""Tasks in the background of the serving."""

from __future__ import annotations

import asyncio

import pytest

from fluence_extender.http.listeners.serving import background


async def test_background_tasks_run_until_the_context_ends() -> None:
    done: list[str] = []

    async def work(name: str) -> None:
        done.append(f"{name} begins")
        try:
            await asyncio.Event().wait()
        finally:
            done.append(f"{name} ends")

    async with background({"a": work("a"), "b": work("b")}):
        await asyncio.sleep(0)
        assert done == ["a begins", "b begins"]
        names = {task.get_name() for task in asyncio.all_tasks()}
        assert {"a", "b"} <= names
    assert done == ["a begins", "b begins", "a ends", "b ends"]


async def test_a_failing_task_ends_the_serving_and_the_other_tasks() -> None:
    ended = asyncio.Event()

    async def fail() -> None:
        raise ValueError("broken")

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(ExceptionGroup) as failed:
        async with background({"rest": work(), "fail": fail()}):
            await asyncio.Event().wait()
    assert [str(one) for one in failed.value.exceptions] == ["broken"]
    assert ended.is_set()


async def test_serving_that_fails_ends_the_background_tasks() -> None:
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def serve() -> None:
        async with background({"work": work()}):
            await asyncio.sleep(0)
            raise OSError("the address is taken")

    with pytest.raises(ExceptionGroup):
        await serve()
    assert ended.is_set()
