"""A computation in a thread of its own, which is ended from outside once its time is over.

The question of a user decides how long an answer takes. A computation checks the time in its known long loops, but that
isn't enough: a defect in another loop would keep a core busy forever. So the event loop raises an exception in the
thread. Python does that between two operations of the interpreter, and no library call in such a computation is long.

Invariants: when `computed` returns or raises, its thread has ended. The thread changes no shared state, because it may
end anywhere.
"""

from __future__ import annotations

import asyncio
import ctypes
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

AGAIN = 0.05
"""Seconds until another try to end a thread that still runs."""


class Overrun(Exception):
    """The computation took longer than it may; the message says how long that is."""


class _Ended(BaseException):
    """Raised in a thread to end it. No handler of ordinary exceptions catches it."""


class _Computation(threading.Thread, Generic[T]):
    """Runs ``work`` and then calls ``finished`` on the event loop."""

    def __init__(self, work: Callable[[], T], finished: Callable[[], object]) -> None:
        super().__init__(name="what-if", daemon=True)
        self.result: T | None = None
        self.failure: Exception | None = None
        self._work = work
        self._finished = finished

    def run(self) -> None:
        try:
            self.result = self._work()
        except _Ended:
            pass
        except Exception as error:
            self.failure = error
        finally:
            self._finished()

    def end(self) -> None:
        """Raise `_Ended` in the thread."""
        if self.ident is not None:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.ident), ctypes.py_object(_Ended))


async def computed(work: Callable[[], T], seconds: float) -> T:
    """Return the result of ``work``. Raises what it raises, and `Overrun` if it takes more than ``seconds``."""
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    thread = _Computation(work, lambda: loop.call_soon_threadsafe(over.set))
    thread.start()
    try:
        async with asyncio.timeout(seconds):
            await over.wait()
    except TimeoutError:
        raise Overrun(f"it takes more than {seconds:g} s") from None
    finally:
        await _ended(thread, over)
    if thread.failure is not None:
        raise thread.failure
    return thread.result  # type: ignore[return-value]


async def _ended(thread: _Computation[T], over: asyncio.Event) -> None:
    """Wait until the thread has ended, and end it if its work isn't over."""
    while thread.is_alive():
        if not over.is_set():
            thread.end()
        await asyncio.sleep(0 if over.is_set() else AGAIN)
