"""Quantities against decimal arithmetic and the grammar that apimachinery documents."""

import decimal
import re
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluence_extender.model.quantity import (
    InvalidQuantity,
    floor_millicores,
    floor_whole,
    nanos,
    nanos_to_millicores,
    nanos_to_whole,
)

SUFFIXES = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    **{letter: Decimal(1000) ** power for power, letter in enumerate("kMGTPE", 1)},
    **{f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", 1)},
}
NUMBER = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
GRAMMAR = re.compile(rf"{NUMBER}(?:[numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?")

numbers = st.tuples(
    st.sampled_from(["", "+", "-"]),
    st.one_of(
        st.from_regex(r"[0-9]{1,15}", fullmatch=True),
        st.from_regex(r"[0-9]{0,8}\.[0-9]{1,12}", fullmatch=True),
        st.from_regex(r"[0-9]{1,8}\.", fullmatch=True),
    ),
)
exponents = st.builds(
    lambda letter, sign, size: f"{letter}{sign}{size}",
    st.sampled_from("eE"),
    st.sampled_from(["", "+", "-"]),
    st.integers(0, 15),
)


def exact(text: str) -> Decimal:
    """Return the value by decimal arithmetic, in units, with apimachinery's cap."""
    form = re.fullmatch(rf"({NUMBER})(.*)", text)
    assert form is not None
    number, suffix = Decimal(form[1]), form[2]
    factor = SUFFIXES[suffix] if suffix in SUFFIXES else Decimal(10) ** int(suffix[1:])
    value = number * factor
    return max(min(value, Decimal(2**63 - 1)), Decimal(-(2**63 - 1)))


@given(numbers, st.one_of(st.sampled_from(sorted(SUFFIXES)), exponents))
def test_amounts_agree_with_decimal_arithmetic(number: tuple[str, str], suffix: str) -> None:
    text = "".join(number) + suffix
    with decimal.localcontext(prec=120):
        value = exact(text)
        in_nanos = (value * 10**9).to_integral_value(decimal.ROUND_UP)
        assert nanos(text) == in_nanos
        assert nanos_to_whole(nanos(text)) == value.to_integral_value(decimal.ROUND_UP)
        assert nanos_to_millicores(nanos(text)) == (value * 1000).to_integral_value(decimal.ROUND_UP)
        assert floor_whole(text) == (in_nanos / 10**9).to_integral_value(decimal.ROUND_DOWN)
        assert floor_millicores(text) == (in_nanos / 10**6).to_integral_value(decimal.ROUND_DOWN)


@given(st.text("+-.0123456789eEinumkKMGTP ", max_size=10))
def test_exactly_the_grammar_is_accepted(text: str) -> None:
    try:
        nanos(text)
    except InvalidQuantity:
        assert not GRAMMAR.fullmatch(text)
    else:
        assert GRAMMAR.fullmatch(text)


@given(st.integers(0, 2**62), st.integers(0, 2**62))
def test_a_larger_amount_never_reads_smaller(one: int, other: int) -> None:
    assert (one <= other) == (nanos(f"{one}n") <= nanos(f"{other}n"))


@given(st.integers(1, 10**9), st.sampled_from(["", "m", "k", "Mi", "e3"]))
def test_every_way_to_write_an_amount_reads_the_same(number: int, suffix: str) -> None:
    forms = [
        f"{number}{suffix}",
        f"+{number}{suffix}",
        f"0{number}{suffix}",
        f"{number}.{suffix}",
        f"{number}.0{suffix}",
    ]
    assert len({nanos(form) for form in forms}) == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        " 1",
        "1 ",
        "1e3m",
        "1Kim",
        "1ki",
        "1K",
        "0x10",
        "1e",
        "1e+",
        "1e1.5",
        "--1",
        "1,5",
        "1_000",
        "\u0661",
        "inf",
        "nan",
    ],
)
def test_what_the_grammar_does_not_have_is_refused(text: str) -> None:
    with pytest.raises(InvalidQuantity):
        nanos(text)
