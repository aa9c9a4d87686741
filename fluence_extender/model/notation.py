"""How values are written as text: durations, times, sets of ids, and lists of names.

Every function here is a pure conversion. Kubernetes quantities have a module of their own (`quantity`), because they
are read exactly and in many forms.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime

DURATION_FORM = "a time of more than 0 such as 90, 90s, 15m or 1h30m"
"""What a message tells a user to write where a duration can't be read."""

_SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_BARE_NUMBER = re.compile(r"\d{1,10}(\.\d{1,6})?", re.ASCII)
_DURATION = re.compile(r"(?:\d{1,9}(?:\.\d{1,6})?[dhms]){1,16}")
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)([dhms])")
_CLOCK = re.compile(r"(?:(\d{1,6})-(\d{1,2})(?::(\d{2})(?::(\d{2}))?)?|(\d{1,6}):(\d{2}):(\d{2}))", re.ASCII)
"""As Slurm writes times: ``1-00:00:00``, ``1-12`` and ``01:30:00``. Two numbers, such as 01:30, may mean either."""
_ISO = re.compile(
    r"P(?=\d|T\d)(?:(\d{1,6})D)?(?:T(?=\d)(?:(\d{1,6})H)?(?:(\d{1,9})M)?(?:(\d{1,9})S)?)?", re.ASCII
)
"""As ISO 8601 writes them: ``PT1H30M``, ``P1D``."""
_DIGITS = re.compile(r"([0-9]+)")


def parse_duration(text: str) -> float | None:
    """Return the seconds in ``90``, ``90s``, ``15m``, ``1h30m`` or ``2d``; a bare number counts seconds.

    The notations of Slurm (``1-00:00:00``, ``01:30:00``) and of ISO 8601 (``PT1H30M``) are read, too. Return None for
    any other text, and where the duration is 0.
    """
    trimmed = text.strip()
    seconds, parts = 0.0, tuple[str | None, ...]()
    if _BARE_NUMBER.fullmatch(trimmed):
        seconds = float(trimmed)
    elif _DURATION.fullmatch(trimmed):
        seconds = sum(float(amount) * _SECONDS[unit] for amount, unit in _DURATION_PART.findall(trimmed))
    elif clock := _CLOCK.fullmatch(trimmed):
        parts = clock.groups()[:4] if clock[1] is not None else (None, *clock.groups()[4:])
    elif iso := _ISO.fullmatch(trimmed):
        parts = iso.groups()
    else:
        return None
    if parts:
        seconds = sum(int(part or 0) * size for part, size in zip(parts, _SECONDS.values(), strict=True))
    return seconds if seconds > 0 else None


def parse_seconds(text: str | None) -> int | None:
    """Return a whole number of seconds as a label states it, None for any other text and for 0."""
    if text is None or not re.fullmatch("[0-9]{1,9}", text, re.ASCII):
        return None
    return int(text) or None


def format_duration(seconds: float) -> str:
    """Write seconds in the two largest units that apply: ``1h30m``, ``15m``, ``45s``."""
    left = round(seconds)
    parts = []
    for unit, size in _SECONDS.items():
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts[:2]) or "0s"


def format_time(when: datetime) -> str:
    """Write a UTC time as a Kubernetes Time (RFC 3339, whole seconds): ``2026-06-30T12:00:00Z``."""
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


def format_micro_time(when: datetime) -> str:
    """Write a UTC time as a Kubernetes MicroTime (RFC 3339): ``2026-06-30T12:00:00.000000Z``."""
    return when.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def encode_idset(ids: Iterable[int]) -> str:
    """Write a set of non-negative integers as an RFC 22 idset (``0-3,7``); the empty set is the empty text.

    The text is canonical: ascending, without overlap, and runs of two or more are joined by a dash. Raise `ValueError`
    for a negative id.
    """
    runs: list[tuple[int, int]] = []
    for one in sorted(set(ids)):
        if one < 0:
            raise ValueError(f"an idset holds no negative ids, such as {one}")
        if runs and runs[-1][1] == one - 1:
            runs[-1] = (runs[-1][0], one)
        else:
            runs.append((one, one))
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def natural_order(name: str) -> list[object]:
    """Return a sort key in which runs of digits count as numbers: ``node2`` comes before ``node10``.

    Different names have different keys, so the order of a sorted list doesn't depend on the order of its input. Of
    two numbers, the one that has more digits after its leading zeros is larger.
    """
    # This runs for each member of a gang. A flat list takes a third of the time that a tuple for each part takes.
    first, *others = _DIGITS.split(name)
    key: list[object] = [first]
    for digits, text in zip(others[::2], others[1::2], strict=True):
        number = digits.lstrip("0")
        key += (len(number), number + digits, text)
    return key


def first_few(names: Sequence[str], most: int) -> str:
    """Write the first ``most`` names and how many more there are: ``a, b and 3 more``."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def first_few_in_a_cell(names: Sequence[str], most: int) -> str:
    """Write the first ``most`` names and how many more there are, as a table's cell does: ``a, b +3``."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" +{more}" if more > 0 else "")
