"""Running what takes long beside the event loop.

Invariant: a process that ends waits for none of it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

RunInThread = Callable[[Callable[[], None]], Awaitable[None]]
"""How such work is run: the awaitable ends when the work has, and raises what it raises."""


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
            # The loop has been closed: nobody waits any more.
            return

    threading.Thread(target=run, name="rebuild", daemon=True).start()
    await done
