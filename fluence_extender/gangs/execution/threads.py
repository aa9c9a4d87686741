"""Running long work in a thread, so that the event loop stays free.

Invariant: a process that ends doesn't wait for such work. (`asyncio.to_thread` and executors would make it wait.)
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future

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
