"""Running long work in a thread, so that the event loop stays free.

Invariant: a process that ends doesn't wait for such work. (`asyncio.to_thread` would make it wait.)
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

RunInThread = Callable[[Callable[[], None]], Awaitable[None]]
"""How such work is run: the awaitable ends when the work does, and raises what the work raises."""


async def run_in_thread(work: Callable[[], None]) -> None:
    """Run ``work`` in a daemon thread."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def settle(error: BaseException | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    def run() -> None:
        failed: BaseException | None = None
        try:
            work()
        except BaseException as error:
            failed = error
        try:
            loop.call_soon_threadsafe(settle, failed)
        except RuntimeError:
            # The loop has been closed, so nothing awaits the result any more.
            return

    threading.Thread(target=run, name="rebuild", daemon=True).start()
    await done
