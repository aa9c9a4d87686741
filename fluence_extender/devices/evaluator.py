"""Has users' selectors evaluated in a separate process, which it starts, asks and, if need be, kills.

The process starts when there is something to evaluate, and again after it has ended. If it ends during a question, a
new process gets the question once more. If that one ends too, or if the first says that the question took too long, the
expression selects nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Sequence

import msgspec
import structlog

from fluence_extender.devices.evaluation import Findings
from fluence_extender.devices.judge import Judge, Piece
from fluence_extender.devices.worker import PROCESSOR_SECONDS, Question, describe

log = structlog.get_logger(__name__)

COMMAND = (sys.executable, "-m", "fluence_extender.devices.worker")

LONGEST = 20.0
"""Seconds after which a process that doesn't answer is killed; the limit on processor time mostly ends it earlier."""

PAUSE = 5.0
"""Seconds to wait after a process couldn't be started."""

BREAK = 0.005
"""Seconds for which other work has the loop, between looks at many asks."""

LOOK = 0.5
"""Seconds between looks at namespaces that have used up their steps."""

LARGEST = 2**24
"""The most bytes of an answer."""

INHERITED = ("LD_LIBRARY_PATH", "PATH", "PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV")
"""The environment of the process: what it needs to start, and nothing that is secret."""

TOO_LONG = f"takes more than {PROCESSOR_SECONDS:g} s"
ENDED = "ended the process that evaluates it"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Findings).decode


class _Lost(Exception):
    """The process has ended, or was killed, during a question; the text says why."""


class Evaluator:
    """Has the asks of a judge evaluated.

    ``decided`` is called when there is news, and ``on_failure`` each time that the process can't be started.
    ``command`` starts it.
    """

    def __init__(
        self,
        judge: Judge,
        decided: Callable[[], None],
        on_failure: Callable[[], None] = lambda: None,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self._judge = judge
        self._decided = decided
        self._on_failure = on_failure
        self._command = command
        self._work = asyncio.Event()
        self._process: Process | None = None
        self._known: set[int] = set()
        self._rests = asyncio.Event()
        judge.on_work = self._work.set

    @property
    def pid(self) -> int | None:
        """The process id, None if there is no process."""
        return self._process.pid if self._process is not None else None

    async def run(self) -> None:
        """Evaluate until cancelled."""
        try:
            while True:
                piece = self._judge.next(time.monotonic())
                if self._judge.has_news:
                    self._decided()
                if piece is not None:
                    await self._evaluate(piece)
                elif self._judge.has_more_to_look_at:
                    await asyncio.sleep(BREAK)
                else:
                    await self._wait()
        finally:
            if self._process is not None:
                await self._ended(self._process)

    async def settle(self, seconds: float) -> None:
        """Wait until nothing is left to be evaluated, but no longer than so many seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._rests.wait()

    async def _wait(self) -> None:
        """Wait for work, but only shortly while asks wait until their namespace has steps again."""
        idle = self._judge.idle
        if idle:
            self._rests.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if idle else LOOK):
                await self._work.wait()
        self._rests.clear()
        self._work.clear()

    async def _evaluate(self, piece: Piece) -> None:
        for last in (False, True):
            try:
                answer = await self._answer(piece)
            except OSError as error:
                log.error("the process that evaluates selectors can't be started", error=str(error))
                self._on_failure()
                await asyncio.sleep(PAUSE)
                return
            except _Lost as lost:
                log.warning("the process that evaluates selectors has ended", why=str(lost))
                if last or str(lost) == TOO_LONG:
                    self._judge.lose(piece, str(lost), time.monotonic())
                    return
            else:
                self._judge.take(piece, answer, time.monotonic())
                return

    async def _answer(self, piece: Piece) -> Findings:
        process = await self._started()
        assert process.stdin is not None, "it is a pipe"
        assert process.stdout is not None, "it is a pipe"
        new = [values for values in piece.values if values.serial not in self._known]
        described = [describe(values.serial, values.device) for values in new]
        question = Question(piece.table.expression, [values.serial for values in piece.values], described)
        try:
            async with asyncio.timeout(LONGEST):
                process.stdin.write(_encode(question) + b"\n")
                await process.stdin.drain()
                line = await process.stdout.readline()
        except (TimeoutError, ConnectionError, ValueError) as error:
            raise await self._lost(f"gets no answer: {error}" if str(error) else "gets no answer") from None
        if not line.endswith(b"\n"):
            raise await self._lost(ENDED)
        self._known.update(values.serial for values in new)
        try:
            return _decode(line)
        except msgspec.MsgspecError as error:
            raise await self._lost(f"gets an unreadable answer: {error}") from None

    async def _started(self) -> Process:
        if self._process is None or self._process.returncode is not None:
            self._known.clear()
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=PIPE,
                stdout=PIPE,
                limit=LARGEST,
                env={name: os.environ[name] for name in INHERITED if name in os.environ},
            )
        return self._process

    async def _lost(self, why: str) -> _Lost:
        """End the process, and return the error for the question that it was asked."""
        process, self._process = self._process, None
        assert process is not None, "it was asked"
        code = await self._ended(process, kill=why != ENDED)
        return _Lost(TOO_LONG if code == -signal.SIGPROF else why)

    @staticmethod
    async def _ended(process: Process, kill: bool = True) -> int:
        """Wait until the process has ended, and return its status."""
        if kill and process.returncode is None:
            process.kill()
        if process.stdin is not None:
            process.stdin.close()
        return await process.wait()
