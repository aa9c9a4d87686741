"""Running long work in a thread, so that the event loop stays free.

Invariant: a process that ends doesn't wait for such work. (`asyncio.to_thread` and executors would make it wait.)
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager

SWITCH_INTERVAL = 0.0005
"""Seconds after which a computing thread hands the interpreter over to one that waits for it."""

_intervals_before: list[float] = []
"""The switch interval before the first computation, once for each computation that is under way."""

RunInThread = Callable[[Callable[[], None]], Awaitable[None]]
"""Runs such work. The awaitable ends when the work does, and raises what the work raises."""


async def run_in_thread(work: Callable[[], None]) -> None:
    """Run ``work`` in a daemon thread."""
    done: Future[None] = Future()
    # From now on the future can't be cancelled, and neither can the work.
    done.set_running_or_notify_cancel()

    def run() -> None:
        try:
            work()
        except BaseException as error:
            done.set_exception(error)
        else:
            done.set_result(None)

    threading.Thread(target=run, name="beside", daemon=True).start()
    await asyncio.wrap_future(done)


@contextmanager
def short_switch_interval() -> Iterator[None]:
    """Set the short switch interval within this context. Only the event loop's thread may enter and leave it."""
    _intervals_before.append(_intervals_before[0] if _intervals_before else sys.getswitchinterval())
    sys.setswitchinterval(SWITCH_INTERVAL)
    try:
        yield
    finally:
        before = _intervals_before.pop()
        if not _intervals_before:
            sys.setswitchinterval(before)
