"""An event loop whose clock jumps to the next timer, so that waiting costs nothing and every run is the same."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class _Jumping(selectors.SelectSelector):
    """Never blocks: the time that would have been waited is added to ``now``."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise RuntimeError("the loop would wait for ever: no timer is set")
            self.now += max(timeout, 0.0)
        return ready


class _AtOnce(ThreadPoolExecutor):
    """Runs work when it is submitted: a thread would end at another virtual time in each run."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        done: Future[T] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except Exception as error:
            done.set_exception(error)
        return done


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop in virtual time, beginning at 0 s."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)
        self.set_default_executor(_AtOnce(max_workers=1))

    def time(self) -> float:
        """Virtual seconds."""
        return self._jumping.now
