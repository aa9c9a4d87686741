"""The process that evaluates selectors: what happens when it is killed, hangs, grows or can't be started."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from fluence_extender.devices import evaluator as module
from fluence_extender.devices.evaluator import COMMAND, ENDED, Evaluator
from fluence_extender.devices.judge import Judge
from fluence_extender.devices.selectors import Verdict, numbered, verdict
from fluence_extender.model.devices import Attribute, Capacity, NodeDevice, Version
from fluence_extender.objects.devices import ResourceSlice

DRIVER = "gpu.example.com"
ATTRIBUTES = f'device.attributes["{DRIVER}"]'
MEMORY = f'device.capacity["{DRIVER}"].memory'
ALIVE = f'{ATTRIBUTES}.model == "a100"'

MISBEHAVING = """
import os, sys, time
from fluence_extender.devices import cel, worker

compiled = cel.Program.__init__

def misbehave(self, expression):
    if "hang" in expression:
        while True:
            pass
    if "sleep" in expression:
        time.sleep(600)
    if "grow" in expression:
        kept = [bytes(2**24) for _ in range(200)]
    if "crash" in expression:
        os.abort()
    if "babble" in expression:
        sys.stdout.buffer.write(b"no answer\\n")
        sys.stdout.buffer.flush()
    compiled(self, expression)

cel.Program.__init__ = misbehave
worker.main()
"""
"""The worker, with expressions that do to it what the library should never let them do."""


def device(model: str) -> NodeDevice:
    attributes: dict[str, Attribute] = {
        f"{DRIVER}/model": model,
        f"{DRIVER}/ok": True,
        f"{DRIVER}/index": 7,
        f"{DRIVER}/version": Version("1.2.3"),
    }
    return NodeDevice(DRIVER, "p", model, attributes, {"memory": Capacity(80 * 2**30 * 10**9)})


class Scene:
    """Two devices, a judge, and a process that evaluates for it."""

    def __init__(self, command: Sequence[str]) -> None:
        self.slice = numbered(ResourceSlice("s", DRIVER, "p", devices=(device("a100"), device("h100"))))
        self.judge = Judge()
        self.news = asyncio.Event()
        self.failed = asyncio.Event()
        self.evaluator = Evaluator(self.judge, self.news.set, self.failed.set, command)

    async def verdicts(self, expression: str) -> list[Verdict]:
        """Ask for an expression, and return its verdicts once they are known."""
        asker = object()
        self.judge.want(asker, f"ns {expression}", (expression,))
        async with asyncio.timeout(60):
            while self.judge.want(asker, f"ns {expression}", (expression,)) != ("", ""):
                await self.news.wait()
                self.news.clear()
        return [verdict(expression, one) for one in self.slice.devices]


@asynccontextmanager
async def running(command: Sequence[str] = COMMAND) -> AsyncIterator[Scene]:
    # Verdicts stay for as long as anything refers to their selector.
    gc.collect()
    scene = Scene(command)
    task = asyncio.create_task(scene.evaluator.run())
    try:
        yield scene
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def misbehaving(tmp_path: Path) -> tuple[str, ...]:
    path = tmp_path / "misbehaving.py"
    path.write_text(MISBEHAVING)
    return sys.executable, str(path)


async def test_process_reads_of_devices_what_is_there() -> None:
    async with running() as scene:
        assert scene.evaluator.pid is None
        for expression in (
            ALIVE,
            f'{ATTRIBUTES}.ok && {ATTRIBUTES}.index == 7 && {ATTRIBUTES}.model != "h100"',
            f'{ATTRIBUTES}.version.isGreaterThan(semver("1.2.0")) && {ALIVE}',
            f'{MEMORY}.compareTo(quantity("80Gi")) == 0 && {ALIVE}',
            f'device.driver == "{DRIVER}" && !device.allowMultipleAllocations && {ALIVE}',
        ):
            assert await scene.verdicts(expression) == [True, False]
        (why, _) = await scene.verdicts(f"{ATTRIBUTES}.lacking == 1")
        assert "no such member" in str(why)
        assert "can't be read" in str(await scene.verdicts("1 +"))


async def test_loop_is_free_while_much_is_evaluated() -> None:
    ten = "[0,1,2,3,4,5,6,7,8,9]"
    async with running() as scene:
        await scene.verdicts("true")
        asking = asyncio.create_task(
            scene.verdicts(f'{ten}.all(x,{ten}.all(y,x+y>=0||{ATTRIBUTES}.model=="b"))')
        )
        turns = 0
        while not asking.done():
            await asyncio.sleep(0)
            turns += 1
        assert await asking == [True, True]
        assert turns > 100


async def test_process_that_is_killed_in_the_middle_is_started_anew_and_asked_again() -> None:
    async with running() as scene:
        await scene.verdicts("true")
        first = scene.evaluator.pid
        assert first is not None
        os.kill(first, signal.SIGSTOP)
        asking = asyncio.create_task(scene.verdicts(ALIVE))
        await asyncio.sleep(0.1)
        os.kill(first, signal.SIGKILL)
        assert await asking == [True, False]
        assert scene.evaluator.pid not in (first, None)


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("hang", module.TOO_LONG),
        ("crash", ENDED),
        ("grow", "needs too much memory"),
        ("babble", "gets an unreadable answer"),
    ],
)
async def test_expression_that_misbehaves_selects_nothing_and_others_are_evaluated(
    what: str, why: str, misbehaving: tuple[str, ...]
) -> None:
    async with running(misbehaving) as scene:
        found = await scene.verdicts(f'"{what}" == ""')
        assert len(set(found)) == 1
        assert why in str(found[0])
        assert await scene.verdicts(ALIVE) == [True, False]


async def test_process_that_only_waits_is_killed_after_a_while(
    misbehaving: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LONGEST", 3.0)
    async with running(misbehaving) as scene:
        (why, _) = await scene.verdicts('"sleep" == ""')
        assert "gets no answer" in str(why)
        monkeypatch.setattr(module, "LONGEST", 60.0)
        assert await scene.verdicts(ALIVE) == [True, False]


async def test_nobody_waits_for_ever_where_no_process_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSE", 0.05)
    async with running(("/nonexistent",)) as scene:
        began = time.monotonic()
        await scene.evaluator.settle(0.3)
        # Verdicts on a selector are kept, so it is one that no other test asks for.
        scene.judge.want("pod", "ns", (f"{ALIVE} || false",))
        await scene.evaluator.settle(0.3)
        assert time.monotonic() - began < 30
        async with asyncio.timeout(30):
            await scene.failed.wait()
        assert scene.evaluator.pid is None


async def test_process_ends_with_the_service() -> None:
    async with running() as scene:
        await scene.verdicts("true")
        pid = scene.evaluator.pid
        assert pid is not None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
