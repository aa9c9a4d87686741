"""An event loop whose clock jumps to the next timer, so that waiting costs nothing and every run is the same."""

from __future__ import annotations

import asyncio
import selectors
from typing import Any


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


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop in virtual time, beginning at 0 s."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        """Virtual seconds."""
        return self._jumping.now
