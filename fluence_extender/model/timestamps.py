"""Times as the Kubernetes API has them (RFC 3339): a Time counts seconds, a MicroTime microseconds.

Both are of UTC, and so are the times that they are made from.
"""

from __future__ import annotations

from datetime import datetime


def in_seconds(when: datetime) -> str:
    """A Time: ``2026-06-30T12:00:00Z``."""
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


def in_microseconds(when: datetime) -> str:
    """A MicroTime: ``2026-06-30T12:00:00.000000Z``."""
    return when.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
