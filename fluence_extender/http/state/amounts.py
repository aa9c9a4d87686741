"""Exact amounts as they are shown."""

from __future__ import annotations

from datetime import UTC, datetime

from fluence_extender.model.resources import CPU, Resources


def amounts(resources: Resources) -> dict[str, float]:
    """Amounts by resource name: ``cpu`` in cores, the rest as `Resources` has them."""
    return {name: amount / 1000 if name == CPU else amount for name, amount in sorted(resources.items())}


def moment(seconds: float) -> datetime:
    """A time since the epoch, to the millisecond."""
    return datetime.fromtimestamp(round(seconds, 3), UTC)
