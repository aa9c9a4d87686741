"""The errors of this package.

* `GangRefused`: a gang has no place; it carries the reason for the user. This is the only one that `Planner` raises.
* `NoPlace`: members have no place within some nodes. It has the data for a reason.
* `SearchBudgetSpent`: a search has spent its budget without an answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fluence_extender.model.reason import Reason

if TYPE_CHECKING:
    from fluence_extender.placement.demand import Group


class GangRefused(Exception):
    """The gang has no place; ``reason`` says why."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.text)
        self.reason = reason


class NoPlace(Exception):
    """There is no place for ``groups``.

    ``devices`` is why the first pod that asks for devices got none. ``ruled`` is how many members have a place if rules
    about other pods decide, too.
    """

    def __init__(
        self,
        groups: Sequence[Group],
        devices: Reason | None = None,
        ruled: int | None = None,
    ) -> None:
        super().__init__("no place")
        self.groups = groups
        self.devices = devices
        self.ruled = ruled


class SearchBudgetSpent(Exception):
    """The budget of a search is spent, so it isn't known whether there is a place."""
