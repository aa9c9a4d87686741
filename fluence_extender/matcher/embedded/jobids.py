"""Flux job ids as people write them (RFC 19): decimal, hexadecimal, dotted hexadecimal, F58, each with or without the
prefix ``job.``. The forms made of words and of emoji aren't read.
"""

from __future__ import annotations

import re

_F58_DIGITS = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_LONGEST_F58 = 12
_DECIMAL = re.compile(r"\+?(\d{1,20})", re.ASCII)
_HEXADECIMAL = re.compile(r"0x([0-9a-fA-F]{1,16})", re.ASCII)
_DOTTED = re.compile(r"[0-9a-fA-F]{1,4}(\.[0-9a-fA-F]{1,4}){3}", re.ASCII)
_ALL = 2**64


def parse_jobid(text: str) -> int | None:
    """The job id, from 0 to 2^64 - 1, or None for what isn't one."""
    text = text.removeprefix("job.")
    if "." in text:
        return _dotted(text)
    if text[:1] in ("f", "ƒ"):
        return _f58(text[1:])
    if match := _HEXADECIMAL.fullmatch(text):
        return int(match[1], 16)
    match = _DECIMAL.fullmatch(text)
    if match is None or int(match[1]) >= _ALL:
        return None
    return int(match[1])


def _dotted(text: str) -> int | None:
    if _DOTTED.fullmatch(text) is None:
        return None
    number = 0
    for part in text.split("."):
        number = number << 16 | int(part, 16)
    return number


def _f58(digits: str) -> int | None:
    if not 0 < len(digits) <= _LONGEST_F58 or any(digit not in _F58_DIGITS for digit in digits):
        return None
    number = 0
    for digit in digits:
        number = number * len(_F58_DIGITS) + _F58_DIGITS.index(digit)
    return number % _ALL
