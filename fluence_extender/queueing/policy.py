"""Queue policies, named as flux-sched names them.

An entry that can't start is blocked. Under ``fcfs`` nothing behind it starts. Under the others the first blocked
entries get reservations, and entries behind them start if they keep out of the way of every reservation. The policies
differ in how many blocked entries that are.
"""

from __future__ import annotations

from dataclasses import dataclass

from fluence_extender.model.queue import PolicyName

__all__ = ["DEPTHS", "PolicyName", "QueuePolicy"]

SIX_HOURS = 21_600.0


DEPTHS = {PolicyName.FCFS: 0, PolicyName.EASY: 1, PolicyName.HYBRID: 64, PolicyName.CONSERVATIVE: 256}
"""How many blocked entries get a reservation unless the queue says otherwise."""


@dataclass(frozen=True, slots=True)
class QueuePolicy:
    """The policy of a queue.

    ``reservation_depth`` is how many blocked entries get a reservation (None: `DEPTHS`), ``queue_depth`` how many
    entries a pass looks at (None: all). A blocked entry among the first ``reservation_depth`` which has waited
    ``starvation_after`` seconds has nodes drained for it if no declared end helps it.
    """

    policy: PolicyName = PolicyName.EASY
    reservation_depth: int | None = None
    queue_depth: int | None = None
    starvation_after: float = SIX_HOURS

    @property
    def depth(self) -> int:
        """How many blocked entries get a reservation; ``fcfs`` gives none."""
        if self.policy is PolicyName.FCFS or self.reservation_depth is None:
            return DEPTHS[self.policy]
        return self.reservation_depth
