"""Amounts and times as kubectl writes them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from fluence_extender.model.quantity import in_binary

_UNITS = (("d", 86400), ("h", 3600), ("m", 60))
_BYTES = ("memory", "ephemeral-storage")

BAR = 20
"""Characters of a bar."""


def amount(name: str, value: float) -> str:
    """Return the amount ``value`` of the resource ``name`` as manifests write it: ``1500m``, ``4Gi``, ``2``."""
    if name == "cpu":
        return f"{value:g}" if value == int(value) else f"{value * 1000:.0f}m"
    if name in _BYTES or name.startswith("hugepages-"):
        return in_binary(value) or f"{value:g}"
    return f"{value:g}"


def amounts(values: Mapping[str, float], *leave_out: str) -> str:
    """Return several amounts as one text: ``1500m cpu, 4Gi memory``."""
    return ", ".join(
        f"{amount(name, value)} {name}" for name, value in values.items() if name not in leave_out
    )


def age(text: str | None, now: datetime) -> str:
    """Return how long before ``now`` a time is: ``45s``, ``12m``, ``5h``, ``3d``; empty for no time."""
    if not text:
        return ""
    return span((now - moment(text)).total_seconds())


def until(text: str | None, now: datetime) -> str:
    """Return how long after ``now`` a time is: ``0s`` once it has passed; empty for no time."""
    return span((moment(text) - now).total_seconds()) if text else ""


def span(seconds: float) -> str:
    """Return a length of time in its largest unit of which it has at least two."""
    for suffix, size in _UNITS:
        if seconds >= 2 * size:
            return f"{int(seconds // size)}{suffix}"
    return f"{max(int(seconds), 0)}s"


def moment(text: str) -> datetime:
    """Return the time that the state API writes as ``text``."""
    return datetime.fromisoformat(text)


def now() -> datetime:
    """Return this machine's time."""
    return datetime.now(UTC)


def bar(total: float, held: float, others: float, width: int = BAR) -> str:
    """Return a bar of what gangs hold (#), other pods use (+) and is free (.).

    A share above zero has at least one character.
    """
    if total <= 0:
        return "[" + " " * width + "]"
    ours = _cells(held, total, width)
    theirs = min(_cells(others, total, width), width - ours)
    return "[" + "#" * ours + "+" * theirs + "." * (width - ours - theirs) + "]"


def _cells(part: float, total: float, width: int) -> int:
    if part <= 0:
        return 0
    return min(max(round(part / total * width), 1), width)
