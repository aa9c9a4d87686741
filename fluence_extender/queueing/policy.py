"""Queue policies, named as flux-sched names them.

An entry that can't start is blocked. Under ``fcfs`` nothing behind it starts. Under the others the first blocked
entries get reservations, and entries behind them start if they leave every reservation's room free. These policies
differ in the number of blocked entries with reservations.
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

    The first ``reservation_depth`` blocked entries get reservations; None stands for the number in `DEPTHS`. A pass
    looks at ``queue_depth`` entries, or at all if that is None. If no declared end helps one of these blocked entries,
    nodes are drained for it once it has waited ``starvation_after`` seconds.
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
