"""SIGTERM and SIGINT end the demo alike, and its clean-up is left to finish."""

from __future__ import annotations

import signal

import pytest

from fluence_extender.demo.interrupts import ended_by_signals


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_ends_and_the_next_ones_do_not_disturb(first: signal.Signals) -> None:
    cleaned = []

    def interrupted() -> None:
        with ended_by_signals():
            try:
                signal.raise_signal(first)
            finally:
                signal.raise_signal(signal.SIGTERM)
                signal.raise_signal(signal.SIGINT)
                cleaned.append(True)

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert cleaned == [True]


def test_handlers_are_put_back() -> None:
    before = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)]
    with ended_by_signals():
        assert signal.getsignal(signal.SIGTERM) != before[1]
    assert [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)] == before
