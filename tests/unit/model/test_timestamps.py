"""Times as the Kubernetes API has them."""

from __future__ import annotations

from datetime import UTC, datetime

from fluence_extender.model.timestamps import in_microseconds, in_seconds

WHEN = datetime(2026, 6, 30, 9, 5, 7, 89_000, UTC)


def test_time_counts_whole_seconds() -> None:
    assert in_seconds(WHEN) == "2026-06-30T09:05:07Z"


def test_micro_time_has_all_six_digits() -> None:
    assert in_microseconds(WHEN) == "2026-06-30T09:05:07.089000Z"
    assert datetime.fromisoformat(in_microseconds(WHEN)) == WHEN
