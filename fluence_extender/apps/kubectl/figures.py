"""Amounts and times for people."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from fluence_extender.model.quantity import in_binary

_AGES = (("d", 86400), ("h", 3600), ("m", 60))
_BYTES = ("memory", "ephemeral-storage")

BAR = 20
"""Characters of a bar."""


def amount(name: str, value: float) -> str:
    """One amount as manifests write it: ``1500m``, ``4Gi``, ``2``."""
    if name == "cpu":
        return f"{value:g}" if value == int(value) else f"{value * 1000:.0f}m"
    if name in _BYTES or name.startswith("hugepages-"):
        return in_binary(value) or f"{value:g}"
    return f"{value:g}"


def amounts(values: Mapping[str, float], *leave_out: str) -> str:
    """Several: ``1500m cpu, 4Gi memory``."""
    return ", ".join(
        f"{amount(name, value)} {name}" for name, value in values.items() if name not in leave_out
    )


def age(text: str | None, now: datetime) -> str:
    """How long ago a time is, as kubectl writes it: ``45s``, ``12m``, ``5h``, ``3d``."""
    if not text:
        return ""
    return span((now - moment(text)).total_seconds())


def until(text: str | None, now: datetime) -> str:
    """How long it is until a time that is expected, ``0s`` once it has passed."""
    return span((moment(text) - now).total_seconds()) if text else ""


def span(seconds: float) -> str:
    """A length of time in its largest unit."""
    for suffix, size in _AGES:
        if seconds >= 2 * size:
            return f"{int(seconds // size)}{suffix}"
    return f"{max(int(seconds), 0)}s"


def moment(text: str) -> datetime:
    """A time of the state API."""
    return datetime.fromisoformat(text)


def now() -> datetime:
    """The time here."""
    return datetime.now(UTC)


def bar(whole: float, held: float, others: float, width: int = BAR) -> str:
    """What of a whole is held by us (#), used by others (+) and free (.), no share too small to be seen."""
    if whole <= 0:
        return "[" + " " * width + "]"
    ours = _cells(held, whole, width)
    theirs = min(_cells(others, whole, width), width - ours)
    return "[" + "#" * ours + "+" * theirs + "." * (width - ours - theirs) + "]"


def _cells(part: float, whole: float, width: int) -> int:
    if part <= 0:
        return 0
    return min(max(round(part / whole * width), 1), width)
