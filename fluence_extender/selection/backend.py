"""A backend as selection sees it: a name, numbers to rank by, texts to compare.

Several sources may describe the same backend; `merged` combines them. Some attribute names have short forms (``cost``,
``queue``), which mean the same wherever an attribute is named.

A task of n shots costs ``cost_per_task + n * cost_per_shot`` US dollars if either is known, whatever else the backend
says. A simulator is billed by the minute: ``cost_per_minute`` counts for 0.05 of a minute, which is about the smallest
bill of three seconds, unless a cost is stated.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
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
PER_TASK = "cost_per_task"
PER_SHOT = "cost_per_shot"
PER_MINUTE = "cost_per_minute"
SMALLEST_BILL = 0.05
"""Minutes."""

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
        """Return the number under ``attribute`` or its alias, None if there is none."""
        return _look_up(self.numbers, attribute)

    def text(self, attribute: str) -> str | None:
        """Return the value under ``attribute`` or its alias as text, None if there is none."""
        text = _look_up(self.strings, attribute)
        if text is not None:
            return text
        number = self.number(attribute)
        return None if number is None else number_text(number)


def attribute_key(name: str) -> str:
    """Return the attribute that ``name`` stands for: aliases are resolved, ``-`` and ``_`` mean the same."""
    plain = name.replace("-", "_")
    return ALIASES.get(plain, plain)


def merged(first: Backend, later: Backend) -> Backend:
    """Combine two descriptions of one backend.

    The later one wins, except for the place of the backend (ARN, region): it keeps the first value.
    """
    known = {key: first.strings[key] for key in _IDENTITY if first.strings.get(key)}
    numbers = {key: value for key, value in first.numbers.items() if key not in later.strings}
    strings = {key: value for key, value in first.strings.items() if key not in later.numbers}
    return Backend(first.name, {**numbers, **later.numbers}, {**strings, **later.strings, **known})


def priced(backend: Backend, shots: int) -> Backend:
    """Return ``backend`` with ``cost_usd`` for one task of ``shots`` shots, if its price is known."""
    task, shot, minute = (backend.number(key) for key in (PER_TASK, PER_SHOT, PER_MINUTE))
    if task is not None or shot is not None:
        cost = (task or 0.0) + shots * (shot or 0.0)
    elif minute is not None and backend.number(COST) is None:
        cost = minute * SMALLEST_BILL
    else:
        return backend
    # Decimal prices don't add up exactly in binary: 0.1 + 0.2 must be shown and compared as 0.3.
    return replace(backend, numbers={**backend.numbers, COST: round(cost, 12)})


def parse_number(text: str) -> float | None:
    """Return the finite decimal number that ``text`` is, None if it is anything else (``10abc``)."""
    if not _NUMBER.fullmatch(text.strip()):
        return None
    value = float(text)
    return value if math.isfinite(value) else None


def number_text(number: float) -> str:
    """Return a number for people: a whole one without a decimal point."""
    return f"{number:.10g}"


def _look_up(values: Mapping[str, T], attribute: str) -> T | None:
    if attribute in values:
        return values[attribute]
    wanted = attribute_key(attribute)
    if wanted in values:
        return values[wanted]
    return next((values[key] for key in sorted(values) if attribute_key(key) == wanted), None)
