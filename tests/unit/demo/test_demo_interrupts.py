"""SIGTERM and SIGINT both end the demo, and its clean-up can finish."""

from __future__ import annotations

import signal
import subprocess
import sys
from itertools import takewhile

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


@pytest.mark.parametrize(
    "moment",
    [
        "fluence_extender.apps\n",
        "|   click",
        "numpy",
        "aiohttp",
        "fluence_extender.demo.embedded",
        "Starting an embedded cluster.",
        "An embedded cluster with 6 nodes",
    ],
)
def test_interrupt_ends_the_command_without_a_traceback_whenever_it_comes(moment: str) -> None:
    command = [sys.executable, "-X", "importtime", "-c", COMMAND]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as demo:
        assert demo.stdout
        before = list(takewhile(lambda line: moment not in line, demo.stdout))
        demo.send_signal(signal.SIGINT)
        after = [line for line in demo.stdout if not line.startswith("import time:")]
    assert before
    assert "Traceback" not in "".join(after)
    # A shell shows 130 for both.
    assert demo.returncode in (130, -signal.SIGINT), after


COMMAND = """
import sys
from fluence_extender.__main__ import main
sys.argv = ["fluence-extender", "demo"]
main()
"""
"""What the installed script does."""
