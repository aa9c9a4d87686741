"""Kubernetes quantities, read exactly.

A quantity (``250m``, ``1.5Gi``, ``1e3``) is a decimal number with a suffix. Accounts need integers in a fixed unit, and
a binary float would lose the last digits. So a text is read straight into an integer number of billionths, which is the
finest unit of a quantity: apimachinery rounds anything finer away from zero when it parses.

Invariant: equal amounts written in different forms give equal integers; amounts of pods and nodes round up, limits of
quotas round down.
"""

from __future__ import annotations

import re
from functools import lru_cache

from fluence_extender.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY
from fluence_extender.model.wording import shortened

LARGEST = 2**63 - 1
"""The largest amount in whole units. A larger one counts as this, as apimachinery does for binary suffixes."""

_LONGEST_TEXT = 256
_NANOS_EXPONENT = 9
_NANO = 1_000_000_000
_MICRO_TO_MILLI = 10**6
_MILLIS = 1000

_DECIMAL_EXPONENTS = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_EXPONENTS = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_FORM = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?([numkMGTPE]?|[KMGTPE]i|[eE][+-]?\d+)", re.ASCII)

Quantity = str | int | float
"""A quantity in JSON. The API server always writes text; users also write bare numbers."""


class InvalidQuantity(ValueError):
    """``text`` isn't a quantity of the apimachinery grammar."""

    def __init__(self, text: object, why: str = "") -> None:
        self.text = text
        super().__init__(
            f"{shortened(repr(text), 80)} isn't a quantity{why or ' (such as 2, 500m, 1.5Gi or 1e3)'}"
        )


def nanos(quantity: Quantity) -> int:
    """Return the amount in billionths of its unit, rounded away from zero below that. Raise `InvalidQuantity`."""
    if isinstance(quantity, str):
        return _parse(quantity)
    if isinstance(quantity, bool) or not isinstance(quantity, int | float):
        raise InvalidQuantity(quantity)
    return _parse(repr(quantity))


def floor_millicores(quantity: Quantity) -> int:
    """Return allocatable CPU in thousandths of a core, rounded down."""
    return _down(nanos(quantity), _MICRO_TO_MILLI)


def floor_whole(quantity: Quantity) -> int:
    """Return allocatable bytes or devices, rounded down."""
    return _down(nanos(quantity), _NANO)


def nanos_to_millicores(amount: int) -> int:
    """Round a sum of `nanos` up to thousandths of a core, as ``Quantity.MilliValue`` does."""
    return up(amount, _MICRO_TO_MILLI)


def nanos_to_whole(amount: int) -> int:
    """Round a sum of `nanos` up to whole bytes or devices, as ``Quantity.Value`` does."""
    return up(amount, _NANO)


def in_binary(amount: float) -> str | None:
    """Return the amount to four digits in the largest binary unit that it reaches (``1.5Gi``); None below 1Ki."""
    for suffix, exponent in reversed(_BINARY_EXPONENTS.items()):
        if abs(amount) >= 2**exponent:
            return f"{amount / 2**exponent:.4g}{suffix}"
    return None


def in_exact_binary(amount: int) -> str:
    """Return the exact amount in the largest binary unit that divides it (``1536Mi``), or without a unit."""
    for suffix, exponent in reversed(_BINARY_EXPONENTS.items()):
        if amount and amount % 2**exponent == 0:
            return f"{amount >> exponent}{suffix}"
    return str(amount)


def read_amount(resource: str, quantity: Quantity) -> int:
    """Return an amount of a resource in the unit in which it is counted, rounded down. Raise `InvalidQuantity`."""
    return floor_millicores(quantity) if resource == CPU else floor_whole(quantity)


def written_amount(resource: str, amount: int) -> str:
    """Return an amount of a resource as a quantity: ``1500m``, ``64Gi`` or ``2``."""
    if resource == CPU:
        return f"{amount}m" if amount % _MILLIS else str(amount // _MILLIS)
    in_bytes = resource in (MEMORY, EPHEMERAL_STORAGE) or resource.startswith("hugepages-")
    return in_exact_binary(amount) if in_bytes else str(amount)


def up(amount: int, unit: int) -> int:
    """Divide by ``unit`` and round away from zero."""
    return -(-amount // unit) if amount >= 0 else amount // unit


def _down(amount: int, unit: int) -> int:
    return amount // unit if amount >= 0 else -(-amount // unit)


@lru_cache(maxsize=8192)
def _parse(text: str) -> int:
    if len(text) > _LONGEST_TEXT:
        raise InvalidQuantity(text, f": it is longer than {_LONGEST_TEXT} characters")
    form = _FORM.fullmatch(text)
    if form is None:
        raise InvalidQuantity(text)
    sign, units, fraction, suffix = form.groups()
    fraction = fraction or ""
    if not units and not fraction:
        raise InvalidQuantity(text)
    magnitude = min(_scale(int(units + fraction), len(fraction), suffix), LARGEST * _NANO)
    return -magnitude if sign == "-" else magnitude


def _scale(digits: int, decimals: int, suffix: str) -> int:
    exponent = _NANOS_EXPONENT - decimals
    if suffix in _BINARY_EXPONENTS:
        digits <<= _BINARY_EXPONENTS[suffix]
    elif suffix in _DECIMAL_EXPONENTS:
        exponent += _DECIMAL_EXPONENTS[suffix]
    else:
        # A text of this length reaches the largest or the smallest amount within these exponents.
        exponent += max(-2 * _LONGEST_TEXT, min(2 * _LONGEST_TEXT, int(suffix[1:])))
    power = int(10 ** abs(exponent))
    return digits * power if exponent >= 0 else up(digits, power)
