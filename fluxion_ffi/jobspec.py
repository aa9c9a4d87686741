"""Jobspecs, checked for what would hang the library or leave it wrong; its own parser checks the rest.

A count that grows by ``*`` or ``^`` and wraps around 32 bits never ends. A duration out of range is refused by the
library only after it has made node types exclusive for every later job.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from fluxion_ffi.encoding import check_depth, dump, parse
from fluxion_ffi.errors import InvalidRequest, shown
from fluxion_ffi.options import GraphOptions
from fluxion_ffi.values import Document

LONGEST_DURATION = 3_153_600_000
"""Seconds: the end of the library's timeline."""

_WRAP = 2**32
_DECIMAL = re.compile(r"[1-9][0-9]{0,9}", re.ASCII)

_SLOTS = ("slot", "xor_slot")


def encode_jobspec(jobspec: Document, units: int, options: GraphOptions) -> bytes:
    """Write a jobspec as JSON for the library. Raises `InvalidRequest` with the place.

    ``units``: the sum of all vertex sizes, which bounds what a count can reach.
    """
    document = parse(jobspec, "jobspec")
    encoded = dump(document, "jobspec")
    check_depth(document)
    _check_duration(document)
    _check_resources(document.get("resources"), "resources", units, options)
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
            f"attributes.system.duration: must be seconds from 0 to {LONGEST_DURATION}, not {shown(given)}"
        )


def _check_resources(resources: Any, place: str, units: int, options: GraphOptions) -> None:
    if not isinstance(resources, (list, tuple)):
        return
    for index, entry in enumerate(resources):
        if not isinstance(entry, Mapping):
            continue
        count = entry.get("count")
        if isinstance(count, Mapping) and count.get("operator") in ("*", "^"):
            # The largest value of a slot's count is worked out whatever is there; other counts stop at what is there.
            unbounded = entry.get("type") in _SLOTS or options.stops_early
            _check_growth(count, f"{place}[{index}].count", None if unbounded else units)
        _check_resources(entry.get("with"), f"{place}[{index}].with", units, options)


def _check_growth(count: Mapping[str, Any], place: str, available: int | None) -> None:
    """Follow a growing count as the library does, in 32 bits, and refuse it where it would wrap around."""
    for key in ("min", "max", "operand"):
        value = count.get(key)
        if isinstance(value, str) and _DECIMAL.fullmatch(value):
            value = int(value)
        if type(value) is not int or not 1 <= value < _WRAP:
            raise InvalidRequest(f"{place}.{key}: must be an integer from 1 to 2^32 - 1, not {shown(value)}")
    value, most, operand = (int(count[key]) for key in ("min", "max", "operand"))
    power = count["operator"] == "^"
    if operand < 2 or (power and value < 2):
        return
    limit = most if available is None else min(most, available)
    while value <= limit:
        # 2^32 is passed at the 32nd power at the latest, so larger ones need not be worked out.
        value = value ** min(operand, 32) if power else value * operand
        if value >= _WRAP:
            raise InvalidRequest(
                f"{place}: would pass 2^32 before {limit}, which the library never finishes; lower max"
            )
