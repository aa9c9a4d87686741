"""Durations as people write them."""

from __future__ import annotations

import pytest

from fluence_extender.model.duration import duration, in_words


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("1.5", 1.5), ("45s", 45), ("15m", 900), ("1h30m", 5400), ("2d", 172_800), (" 1h ", 3600)],
)
def test_what_people_write_is_read(text: str, seconds: float) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "0", "0s", "-5", "soon", "1 h", "1h 30m", "5w", "1e9", "9" * 40, "\u0665s\u0665"]
)
def test_anything_else_is_no_duration(text: str) -> None:
    assert duration(text) is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (45.4, "45s"), (900, "15m"), (5400, "1h30m"), (90_061, "1d1h"), (3605, "1h5s")],
)
def test_words_have_two_units(seconds: float, text: str) -> None:
    assert in_words(seconds) == text
