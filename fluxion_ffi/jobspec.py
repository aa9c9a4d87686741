"""Jobspecs, checked for what would hang the library or leave it wrong; the rest is left to its own parser.

Two things are: a count that grows by ``*`` or ``^`` and wraps around 32 bits never ends, and a duration out
of range is refused by the library only after it has made node types exclusive for every later job (fluxion
reference 1.7, 4.2).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from fluxion_ffi.encoding import check_depth, dump, parse
from fluxion_ffi.errors import InvalidRequest
from fluxion_ffi.values import Document

LONGEST_DURATION = 3_153_600_000
"""Seconds: the end of the library's timeline (fluxion reference 1.8)."""

_WRAP = 2**32


def encode_jobspec(jobspec: Document, units: int, eager: bool) -> bytes:
    """Write a jobspec as JSON for the library. Raises `InvalidRequest` with the place.

    ``units``: the sum of all vertex sizes, which bounds what a count can reach. ``eager``: the graph's policy
    or traverser computes the largest value of any count, whatever is there (it always does for slots).

    """
    document = parse(jobspec, "jobspec")
    encoded = dump(document, "jobspec")
    check_depth(document, "jobspec")
    _check_duration(document)
    _check_counts(document.get("resources"), "resources", units, eager)
    return encoded


def _check_duration(document: Mapping[str, Any]) -> None:
    attributes = document.get("attributes")
    system = attributes.get("system") if isinstance(attributes, Mapping) else None
    if not isinstance(system, Mapping) or "duration" not in system:
        return
    given = system["duration"]
    try:
        seconds = math.nan if isinstance(given, bool) else float(given)
    except (TypeError, ValueError, OverflowError):
        seconds = math.nan
    if not 0 <= seconds <= LONGEST_DURATION:
        raise InvalidRequest(
            f"attributes.system.duration: must be seconds from 0 to {LONGEST_DURATION}, not {given!r}"
        )


def _check_counts(resources: Any, place: str, units: int, eager: bool) -> None:
    if not isinstance(resources, (list, tuple)):
        return
    for index, resource in enumerate(resources):
        if not isinstance(resource, Mapping):
            continue
        where = f"{place}[{index}]"
        count = resource.get("count")
        if isinstance(count, Mapping) and count.get("operator") in ("*", "^"):
            unbounded = eager or resource.get("type") in ("slot", "xor_slot")
            _check_growth(count, f"{where}.count", None if unbounded else units)
        _check_counts(resource.get("with"), f"{where}.with", units, eager)


def _check_growth(count: Mapping[str, Any], place: str, available: int | None) -> None:
    """Follow a growing count as the library does, in 32 bits, and refuse it where it would wrap around."""
    for key in ("min", "max", "operand"):
        value = count.get(key)
        if type(value) is not int or not 1 <= value < _WRAP:
            raise InvalidRequest(f"{place}.{key}: must be an integer from 1 to 2^32 - 1, not {value!r}")
    value, operand, power = count["min"], count["operand"], count["operator"] == "^"
    if operand < 2 or (power and value < 2):
        return
    limit = count["max"] if available is None else min(count["max"], available)
    while value <= limit:
        # 2^32 is passed at the 32nd power at the latest, so larger ones need not be worked out.
        value = value ** min(operand, 32) if power else value * operand
        if value >= _WRAP:
            raise InvalidRequest(
                f"{place}: would pass 2^32 before {limit}, which the library never finishes; lower max"
            )
