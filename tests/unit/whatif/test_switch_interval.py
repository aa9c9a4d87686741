"""While a question is answered other threads have short turns, and afterwards those they had before."""

from __future__ import annotations

import sys

import pytest

from fluence_extender.whatif.simulator import SWITCH_INTERVAL, short_switch_interval


def test_switch_interval_is_short_until_the_last_computation_ends() -> None:
    before = sys.getswitchinterval()
    first, second = short_switch_interval(), short_switch_interval()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert sys.getswitchinterval() == pytest.approx(SWITCH_INTERVAL)
    second.__exit__(None, None, None)
    assert sys.getswitchinterval() == pytest.approx(before)


def test_switch_interval_is_restored_after_a_failure() -> None:
    before = sys.getswitchinterval()
    with pytest.raises(ValueError, match="bad"), short_switch_interval():
        raise ValueError("bad")
    assert sys.getswitchinterval() == pytest.approx(before)
