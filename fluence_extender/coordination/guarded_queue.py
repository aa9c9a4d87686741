"""Call into a provider's code, which may hang, raise or return nonsense.

Invariants: a call ends within its limit, and its result has the right type. A call that hangs keeps a thread, which
doesn't keep the process alive; while too many calls hang, no more are started.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from fluence_extender.coordination.provider import ProviderError, TaskStatus, VendorQueue, read_id

T = TypeVar("T")

MOST_HANGING = 8
MOST_TASKS = 50


class GuardedQueue:
    """The queue that ``connect`` returns. Each call takes at most ``limit`` seconds and raises only `ProviderError`."""

    def __init__(self, connect: Callable[[], VendorQueue], limit: float) -> None:
        self._connect = connect
        self._limit = limit
        self._queue: VendorQueue | None = None
        self._hanging: list[threading.Thread] = []

    async def find_my_tasks(self, pod_uid: str) -> list[str]:
        """Return the pod's tasks, oldest first; if there are very many, only the newest ones."""
        found = await self._call(lambda queue: queue.find_my_tasks(pod_uid), "look for the pod's tasks")
        if isinstance(found, str | bytes) or not isinstance(found, list | tuple):
            raise ProviderError(
                f"look for the pod's tasks: the provider returned {type(found).__name__}, not a list"
            )
        return list(dict.fromkeys(one for one in map(read_id, found) if one is not None))[-MOST_TASKS:]

    async def status(self, task: str) -> TaskStatus:
        """Return the status of a task."""
        found = await self._call(lambda queue: queue.status(task), f"read task {task}")
        if not isinstance(found, TaskStatus):
            raise ProviderError(
                f"read task {task}: the provider returned {type(found).__name__}, not a Status"
            )
        return found

    async def _call(self, call: Callable[[VendorQueue], T], attempt: str) -> T:
        """Return what ``call`` returns, in a thread of its own."""
        self._hanging = [one for one in self._hanging if one.is_alive()]
        if len(self._hanging) >= MOST_HANGING:
            raise ProviderError(f"{attempt}: {len(self._hanging)} earlier calls hang")
        answer = Future[T]()
        # A call that comes too late still has a future that it may set.
        answer.set_running_or_notify_cancel()

        def run() -> None:
            try:
                if self._queue is None:
                    self._queue = self._connect()
                answer.set_result(call(self._queue))
            except ProviderError as error:
                answer.set_exception(error)
            except BaseException as error:
                answer.set_exception(ProviderError(f"{attempt}: {error!r}"))

        thread = threading.Thread(target=run, name=attempt, daemon=True)
        thread.start()
        try:
            async with asyncio.timeout(self._limit):
                return await asyncio.wrap_future(answer)
        except TimeoutError:
            self._hanging.append(thread)
            raise ProviderError(f"{attempt}: no answer within {self._limit:g} s") from None
