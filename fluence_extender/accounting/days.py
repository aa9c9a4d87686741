"""What a pod used on each day: plain arithmetic on its account."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from fluence_extender.accounting.tables import DAY


class Used(NamedTuple):
    """The key of a row of ``daily``."""

    day: int
    namespace: str
    queue: str
    user_name: str
    account: str
    resource: str
    backend: str


def seconds_by_day(started: int, ended: int) -> Iterator[tuple[int, int]]:
    """Yield each day between two times, with its seconds of them."""
    at = started
    while at < ended:
        day = at // DAY
        until = min((day + 1) * DAY, ended)
        yield day, until - at
        at = until


def used(
    who: tuple[str, str, str, str],
    held: list[tuple[str, str, int]],
    started: int,
    ended: int | None,
) -> Counter[Used]:
    """Return what a pod of ``who`` used by day, with what it ``held``; nothing while it runs."""
    found: Counter[Used] = Counter()
    for day, seconds in seconds_by_day(started, started if ended is None else ended):
        for resource, backend, quantity in held:
            found[Used(day, *who, resource, backend)] += quantity * seconds
    return found
