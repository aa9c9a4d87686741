"""SIGINT and SIGTERM as one request to end, which the clean-up that follows it isn't disturbed by."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """The first of the signals raises `KeyboardInterrupt` within, those after it do nothing. Main thread only."""
    before = {one: signal.signal(one, _end) for one in SIGNALS}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _end(number: int, frame: FrameType | None) -> None:
    for one in SIGNALS:
        signal.signal(one, signal.SIG_IGN)
    raise KeyboardInterrupt
