"""A backend as selection sees it: a name, numbers to rank by, texts to compare.

Several sources may describe the same backend; `merged` makes one of them. Attribute names have short forms (``cost``,
``queue``) that mean the same wherever an attribute is named.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")

ALIASES = {"cost": "cost_usd", "queue": "queue_size"}
"""Short form -> attribute."""

COST = "cost_usd"
QUEUE = "queue_size"
QUBITS = "qubits"
STATUS = "status"
DEVICE_ARN = "device_arn"
REGION = "region"

_IDENTITY = (DEVICE_ARN, REGION)
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Backend:
    """One backend; ``numbers`` and ``strings`` share no key."""

    name: str
    numbers: Mapping[str, float] = field(default_factory=dict)
    strings: Mapping[str, str] = field(default_factory=dict)

    @property
    def described(self) -> bool:
        """Whether anything but its name is known."""
        return bool(self.numbers or self.strings)

    def number(self, attribute: str) -> float | None:
        """The number under ``attribute`` or its alias, None where there is none."""
        return _look_up(self.numbers, attribute)

    def text(self, attribute: str) -> str | None:
        """The value under ``attribute`` or its alias as text, None where there is none."""
        text = _look_up(self.strings, attribute)
        if text is not None:
            return text
        number = self.number(attribute)
        return None if number is None else shown(number)

    def keys(self) -> set[str]:
        """The attributes it has, in the form that policies use."""
        return {attribute_key(key) for key in (*self.numbers, *self.strings)}


def attribute_key(name: str) -> str:
    """The attribute that ``name`` stands for: aliases are resolved, ``-`` and ``_`` mean the same."""
    plain = name.replace("-", "_")
    return ALIASES.get(plain, plain)


def merged(first: Backend, later: Backend) -> Backend:
    """Two descriptions of one backend as one.

    What comes later counts, but for where the backend is (ARN, region), which is only filled in.
    """
    known = {key: first.strings[key] for key in _IDENTITY if first.strings.get(key)}
    numbers = {key: value for key, value in first.numbers.items() if key not in later.strings}
    strings = {key: value for key, value in first.strings.items() if key not in later.numbers}
    return Backend(first.name, {**numbers, **later.numbers}, {**strings, **later.strings, **known})


def parse_number(text: str) -> float | None:
    """A finite decimal number, None for anything else; there may be nothing behind it (``10abc`` is none)."""
    if not _NUMBER.fullmatch(text.strip()):
        return None
    value = float(text)
    return value if math.isfinite(value) else None


def shown(number: float) -> str:
    """A number for people: whole ones without a decimal point."""
    return f"{number:.10g}"


def _look_up(values: Mapping[str, T], attribute: str) -> T | None:
    if attribute in values:
        return values[attribute]
    wanted = attribute_key(attribute)
    if wanted in values:
        return values[wanted]
    return next((values[key] for key in sorted(values) if attribute_key(key) == wanted), None)
