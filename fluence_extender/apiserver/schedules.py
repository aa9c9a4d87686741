"""Why the API server refuses the schedule of a CronJob.

Sources: Kubernetes pkg/apis/batch/validation (validateScheduleFormat), robfig/cron v3 (parser.go).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from fluence_extender.model.syntax import invalid

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
FIELDS: tuple[tuple[int, int, Mapping[str, int]], ...] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, {name: number for number, name in enumerate(MONTHS, 1)}),
    (0, 6, {name: number for number, name in enumerate(DAYS)}),
)
"""The least and the greatest number of each field, and the names that numbers have."""

DESCRIPTORS = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
EVERY = "@every "
_DURATION = re.compile(r"[-+]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)")
_DIGITS = re.compile(r"[0-9]{1,9}")


def schedule_fault(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with when a CronJob with this spec runs. Whether its time zone exists isn't known."""
    schedule, zone = spec.get("schedule") or "", spec.get("timeZone")
    if not schedule:
        yield "spec.schedule: Required value"
    elif "TZ" in schedule:
        yield invalid(
            "spec.schedule", schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        )
    elif why := _fault(schedule):
        yield invalid("spec.schedule", schedule, why)
    if zone is not None and zone.lower() in ("", "local"):
        yield invalid("spec.timeZone", zone, "must be a time zone of https://www.iana.org/time-zones")


def _fault(schedule: str) -> str:
    if schedule.startswith("@"):
        known = schedule in DESCRIPTORS or (
            schedule.startswith(EVERY) and _DURATION.fullmatch(schedule.removeprefix(EVERY))
        )
        return (
            "" if known else f"must have five fields or be one of {', '.join(DESCRIPTORS)} or @every DURATION"
        )
    fields = schedule.split()
    if len(fields) != len(FIELDS):
        return f"expected exactly {len(FIELDS)} fields, found {len(fields)}"
    for field, (least, greatest, names) in zip(fields, FIELDS, strict=True):
        for part in filter(None, set(field.split(","))):
            if why := _part_fault(part, least, greatest, names):
                return why
    return ""


def _part_fault(part: str, least: int, greatest: int, names: Mapping[str, int]) -> str:
    """Return what is wrong with a number or a range of a field, "" if nothing is."""
    numbers, *steps = part.split("/")
    first, *others = numbers.split("-")
    if len(steps) > 1 or len(others) > 1:
        return f"{part} has too many slashes or dashes"
    if first in ("*", "?"):
        low, high = least, greatest
    else:
        low = _number(first, names)
        high = _number(others[0], names) if others else greatest if steps and low >= 0 else low
    if low < 0 or high < 0:
        return f"{part} is neither a number nor a range"
    if steps and _number(steps[0], {}) <= 0:
        return f"the step of {part} is not a positive number"
    if not least <= low <= high <= greatest:
        return f"{part} is not within {least} and {greatest}"
    return ""


def _number(text: str, names: Mapping[str, int]) -> int:
    """Return the number that a text stands for, -1 if it stands for none."""
    return names.get(text.lower(), int(text) if _DIGITS.fullmatch(text) else -1)
