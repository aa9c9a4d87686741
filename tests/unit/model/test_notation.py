"""Values are written as text, and read from it."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import permutations

import pytest

from fluence_extender.model.notation import (
    encode_idset,
    first_few,
    format_duration,
    format_micro_time,
    format_time,
    natural_order,
    parse_duration,
)

WHEN = datetime(2026, 6, 30, 9, 5, 7, 89_000, UTC)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("1.5", 1.5),
        ("45s", 45),
        ("15m", 900),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("2d", 172_800),
        (" 1h ", 3600),
        ("1-00:00:00", 86_400),
        ("1-12", 129_600),
        ("2-03:30", 185_400),
        ("01:30:00", 5400),
        ("PT1H30M", 5400),
        ("P1DT30S", 86_430),
    ],
)
def test_duration_is_read_in_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "0s",
        "-5",
        "soon",
        "1 h",
        "1h 30m",
        "5w",
        "1e9",
        "9" * 40,
        "01:30",
        "1h30",
        "P",
        "PT",
        "00:00:00",
        "\u0665s\u0665",
    ],
)
def test_any_other_text_is_not_a_duration(text: str) -> None:
    assert parse_duration(text) is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (45.4, "45s"), (900, "15m"), (5400, "1h30m"), (90_061, "1d1h"), (3605, "1h5s")],
)
def test_duration_is_written_in_at_most_two_units(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_time_counts_whole_seconds() -> None:
    assert format_time(WHEN) == "2026-06-30T09:05:07Z"


def test_micro_time_has_all_six_digits() -> None:
    assert format_micro_time(WHEN) == "2026-06-30T09:05:07.089000Z"
    assert datetime.fromisoformat(format_micro_time(WHEN)) == WHEN


@pytest.mark.parametrize(
    ("ids", "text"),
    [([], ""), ([3], "3"), ([3, 4], "3-4"), ([7, 0, 1, 2, 3, 1], "0-3,7"), ([0, 2, 4], "0,2,4")],
)
def test_idset_joins_runs_in_ascending_order(ids: list[int], text: str) -> None:
    assert encode_idset(ids) == text


def test_negative_id_is_refused() -> None:
    with pytest.raises(ValueError, match="-1"):
        encode_idset([0, -1])


@pytest.mark.parametrize(
    "ordered",
    [
        ["node2", "node10"],
        ["worker-2", "worker-2-0", "worker-2-1", "worker-10"],
        ["", "2", "10", "a", "a1", "a-b", "b"],
        ["rack1-node9", "rack1-node10", "rack2-node1"],
    ],
)
def test_digits_in_names_are_ordered_as_numbers(ordered: list[str]) -> None:
    assert sorted(reversed(ordered), key=natural_order) == ordered


def test_names_that_differ_only_in_leading_zeros_have_one_order() -> None:
    names = ["n1", "n01", "n001"]
    assert len({tuple(sorted(given, key=natural_order)) for given in permutations(names)}) == 1


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, ""), (1, "n0"), (2, "n0, n1"), (3, "n0, n1 and 1 more"), (5000, "n0, n1 and 4998 more")],
)
def test_list_of_names_shows_the_first_ones_and_counts_the_others(count: int, text: str) -> None:
    assert first_few([f"n{number}" for number in range(count)], 2) == text
