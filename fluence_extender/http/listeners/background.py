"""What goes on beside the serving, for as long as that lasts.

Invariant: what fails in the background ends the serving, and nothing of it goes on after that.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager


@asynccontextmanager
async def background(work: Mapping[str, Coroutine[object, object, None]]) -> AsyncIterator[None]:
    """Run ``work`` as tasks of these names, begun in this order, until the context ends.

    Raises an `ExceptionGroup` of what failed.
    """
    async with asyncio.TaskGroup() as tasks:
        begun = [tasks.create_task(one, name=name) for name, one in work.items()]
        yield
        for task in begun:
            task.cancel()
