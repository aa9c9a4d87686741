"""The bind calls that wait for their gang.

kube-scheduler may hang up on a call (its httpTimeout), which doesn't undo a Binding under way. Invariants: a binding
once begun runs to its end whoever disconnects; every call gets the outcome of its binding, or is told that we stop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

from fluence_extender.http.port import BindRefused

STOPPING = "the extender is stopping; the pod will be tried again"
GIVEN_UP = "the binding was given up; the pod will be tried again"


class PendingBinds:
    """Owns the tasks that bind; lives as long as the verbs' listener."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = False

    def __len__(self) -> int:
        return len(self._tasks)

    async def run(self, binding: Coroutine[None, None, None]) -> None:
        """Await ``binding``. Raises what it raises, and `BindRefused` when it was stopped."""
        if self._stopping:
            binding.close()
            raise BindRefused(STOPPING)
        task = asyncio.create_task(binding)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if caller is not None and caller.cancelling():
                raise
            raise BindRefused(STOPPING if self._stopping else GIVEN_UP) from None

    async def stop(self, grace: float) -> None:
        """Refuse new bindings, give those under way ``grace`` seconds, then cancel what still waits."""
        self._stopping = True
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace)
        waiting = list(self._tasks)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            # A caller that went away can't take the outcome; the next attempt finds it in the cluster.
            task.exception()
