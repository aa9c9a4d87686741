"""SIGTERM and SIGINT both end the demo, and its clean-up can finish."""

from __future__ import annotations

import signal

import pytest

from fluence_extender.demo.run import ended_by_signals


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
def test_first_signal_ends_the_demo_and_later_ones_are_ignored(first: signal.Signals) -> None:
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


def test_signal_handlers_are_restored() -> None:
    before = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)]
    with ended_by_signals():
        assert signal.getsignal(signal.SIGTERM) != before[1]
    assert [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)] == before
