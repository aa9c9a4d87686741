"""While a question is answered other threads have short turns, and afterwards those they had before."""

from __future__ import annotations

import sys

import pytest

from fluence_extender.whatif.turns import TURN, short_turns


def test_turns_are_short_until_the_last_has_ended() -> None:
    before = sys.getswitchinterval()
    first, second = short_turns(), short_turns()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert sys.getswitchinterval() == pytest.approx(TURN)
    second.__exit__(None, None, None)
    assert sys.getswitchinterval() == pytest.approx(before)


def test_turns_are_as_before_after_a_failure() -> None:
    before = sys.getswitchinterval()
    with pytest.raises(ValueError, match="bad"), short_turns():
        raise ValueError("bad")
    assert sys.getswitchinterval() == pytest.approx(before)
