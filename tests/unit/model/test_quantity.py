"""Quantities are read exactly; requests round up, allocatable rounds down."""

import pytest

from fluence_extender.model.quantity import (
    LARGEST,
    InvalidQuantity,
    floor_millicores,
    floor_whole,
    in_binary,
    nanos,
    nanos_to_millicores,
    nanos_to_whole,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("2", 2_000_000_000),
        ("+1.5", 1_500_000_000),
        ("-1.5", -1_500_000_000),
        (".5", 500_000_000),
        ("5.", 5_000_000_000),
        ("100m", 100_000_000),
        ("3u", 3_000),
        ("7n", 7),
        ("1e3", 10**12),
        ("1E3", 10**12),
        ("1e+3", 10**12),
        ("1.5e-3", 1_500_000),
        ("1E", 10**27),
        ("1k", 10**12),
        ("2M", 2 * 10**15),
        ("0.1Gi", 107374182400000000),
        ("1Ki", 1024 * 10**9),
        ("1Ei", 2**60 * 10**9),
        ("007", 7_000_000_000),
    ],
)
def test_each_legal_form_is_read_exactly(text: str, expected: int) -> None:
    assert nanos(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        " 1",
        "1 ",
        ".",
        "+",
        "m",
        "1e",
        "1e3m",
        "1.1.1",
        "1i",
        "1mi",
        "1ki",
        "1K",
        "--1",
        "1e1.5",
        "0x10",
        "1_0",
        "٣",
    ],
)
def test_an_illegal_form_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(InvalidQuantity) as refused:
        nanos(text)
    assert refused.value.text == text
    assert repr(text) in str(refused.value)


@pytest.mark.parametrize("value", [True, float("nan"), float("inf"), None, [], {"a": 1}])
def test_value_that_is_not_a_number_is_refused(value: object) -> None:
    with pytest.raises(InvalidQuantity):
        nanos(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(("value", "expected"), [(2, 2000), (0.1, 100), (1e-07, 1)])
def test_bare_numbers_are_read_as_their_text(value: float, expected: int) -> None:
    assert nanos_to_millicores(nanos(value)) == expected


def test_requests_round_up_and_allocatable_rounds_down() -> None:
    assert (nanos_to_millicores(nanos("100.5m")), floor_millicores("100.5m")) == (101, 100)
    assert (nanos_to_whole(nanos("0.1Gi")), floor_whole("0.1Gi")) == (107374183, 107374182)
    assert (nanos_to_whole(nanos("1n")), floor_whole("1n")) == (1, 0)


def test_finer_than_a_billionth_rounds_away_from_zero() -> None:
    assert nanos("0.0000000001") == 1
    assert nanos("-0.0000000001") == -1
    assert nanos("1e-999999999") == 1


def test_an_amount_beyond_the_largest_counts_as_the_largest() -> None:
    assert nanos_to_whole(nanos("1e999999999")) == nanos_to_whole(nanos("100Ei")) == LARGEST


def test_very_long_text_is_refused_with_a_short_message() -> None:
    with pytest.raises(InvalidQuantity) as refused:
        nanos("1" * 100_000)
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (1023, None),
        (0, None),
        (1024, "1Ki"),
        (3 * 2**29, "1.5Gi"),
        (-(2**30), "-1Gi"),
        (2**60, "1Ei"),
        (1e30, "8.674e+11Ei"),
    ],
)
def test_bytes_are_written_in_the_largest_binary_unit_that_they_reach(
    amount: float, text: str | None
) -> None:
    assert in_binary(amount) == text
