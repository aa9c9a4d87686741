"""The bind calls that wait for their gang.

kube-scheduler may end a call (its httpTimeout), which doesn't undo a Binding under way. Invariants: a binding that has
begun runs to its end even if its caller disconnects. Every call gets the outcome of its binding, or an error that says
that the service is stopping.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

from fluence_extender.http.scheduler.port import BindRefused

STOPPING = "the extender is stopping; the pod will be tried again"
CANCELLED = "the binding was cancelled; the pod will be tried again"


class PendingBinds:
    """Owns the tasks that bind; lives as long as the listener of the verbs."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = False

    def __len__(self) -> int:
        return len(self._tasks)

    async def run(self, binding: Coroutine[None, None, None]) -> None:
        """Await ``binding``. Raises what it raises, and `BindRefused` if it was cancelled."""
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
            raise BindRefused(STOPPING if self._stopping else CANCELLED) from None

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
            # A caller that has disconnected can't receive the outcome; the next attempt finds it in the cluster.
            task.exception()
