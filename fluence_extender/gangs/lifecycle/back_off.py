"""Back-off: what has failed is tried again after a pause, which is twice as long after each failure in a row.

| what fails | what waits | the pause ends early |
|---|---|---|
| kube-scheduler's filters refuse a pod on its node twice | that node, for that pod (a fixed time) | the node changes |
| a kubelet rejects a pod | that node, for the pods that replace it | the node changes |
| members are refused again and again | their gang | a node changes |
| kube-scheduler doesn't request a member's node | its gang | it requests the node |
| the Binding of a direct pod fails | that Binding | never |
| expected pods aren't created | the expected pods of their namespace | a failure is cancelled after an hour |
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from fluence_extender.gangs.lifecycle.limits import NEVER

MOST_DOUBLINGS = 16
"""The most doublings of a pause: far beyond any limit, and few enough not to overflow a float."""


def pause(first: float, failures: int, longest: float) -> float:
    """Return the seconds to wait after so many failures in a row: ``first``, then doubled each time."""
    return min(first * (1 << min(failures - 1, MOST_DOUBLINGS)), longest)


@dataclass(frozen=True, slots=True)
class BackOff:
    """Until when something waits that has failed, and how often it has failed in a row."""

    until: float = 0.0
    failures: int = 0

    def failed(self, now: float, first: float, longest: float) -> Self:
        """Return the back-off after one more failure."""
        failures = self.failures + 1
        return replace(self, until=now + pause(first, failures, longest), failures=failures)


@dataclass(frozen=True, slots=True)
class GangBackOff(BackOff):
    """The back-off of a gang, which holds no places meanwhile unless it has begun.

    ``replans`` counts the changes of plan since the last back-off began. The first of them since the gang got its
    places was at ``replanned``, `NEVER` if there was none. ``until_requested`` is the uid of the member whose node
    kube-scheduler didn't request. The back-off ends as soon as it does. It is "" for other back-offs.
    """

    replans: int = 0
    replanned: float = NEVER
    until_requested: str = ""


NO_BACK_OFF = GangBackOff()
