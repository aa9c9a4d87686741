"""How long something runs, as people write it: ``90``, ``90s``, ``15m``, ``1h30m``, ``2d``."""

from __future__ import annotations

import re

_UNITS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0}
_WHOLE = re.compile(r"(?:\d{1,9}(?:\.\d{1,6})?[dhms])+")
_PART = re.compile(r"(\d+(?:\.\d+)?)([dhms])")

READABLE = "a time of more than 0 such as 90, 90s, 15m or 1h30m"
"""What is to be written instead of what can't be read, for messages."""


def duration(text: str) -> float | None:
    """Seconds, more than 0; a bare number counts seconds. None for anything else."""
    trimmed = text.strip()
    if re.fullmatch(r"\d{1,10}(\.\d{1,6})?", trimmed, re.ASCII):
        seconds = float(trimmed)
    elif _WHOLE.fullmatch(trimmed):
        seconds = sum(float(amount) * _UNITS[unit] for amount, unit in _PART.findall(trimmed))
    else:
        return None
    return seconds if seconds > 0 else None


def in_words(seconds: float) -> str:
    """Seconds as people write them, to two units: ``1h30m``, ``15m``, ``45s``."""
    left = round(seconds)
    parts = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts[:2]) or "0s"
