"""The gangs as seen by a replica that doesn't lead.

A standby follows facts as the leader does: bound pods hold their share, so that taking over is quick. Only the leader
makes plans. The standby shows the plans that the leader has written: an ungated, nominated pod is committed to its
node. Invariant: while we stand by, only bound pods hold anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from fluence_extender.gangs.lifecycle.limits import NEVER
from fluence_extender.gangs.lifecycle.reconcile import NOTHING_WRITTEN
from fluence_extender.gangs.lifecycle.refusals import NO_REFUSALS, Refusals
from fluence_extender.gangs.lifecycle.rules import size_of
from fluence_extender.gangs.lifecycle.states import finish, update_state
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.gangs.queue.admission import QueueAdmission
from fluence_extender.model.gang import GangState
from fluence_extender.model.reason import Reason, ReasonCode, waiting
from fluence_extender.room.ledger import Ledger

LEADER_PLACES = Reason(
    ReasonCode.WAITING_FOR_MEMBERS, "waiting for the leader to place it; this replica stands by"
)

UPDATED_WITHIN = 0.004
"""The most seconds that a step spends on gangs that have changed."""


class Standby:
    """Keeps the gangs' states true to the cluster, without deciding anything."""

    def __init__(
        self, registry: Registry, ledger: Ledger, admission: QueueAdmission, clock: Callable[[], float]
    ) -> None:
        self._registry = registry
        self._admission = admission
        self._ledger = ledger
        self._clock = clock

    def begin(self, why: str) -> None:
        """Drop all plans that aren't bound, and fail the waits at barriers with ``why``."""
        for gang in self._registry.gangs.values():
            gang.fail_waits(why)
            gang.gather_anew()
            gang.incomplete_since = None
            back_off = replace(gang.back_off, replans=0, replanned=NEVER, until=0.0)
            gang.remember(back_off=back_off)
            for member in list(gang.members.values()):
                self._forget_plan(gang, member)
        self._registry.dirty.update(self._registry.gangs)

    def _forget_plan(self, gang: Gang, member: Member) -> None:
        if not member.bound:
            self._ledger.release(member.pod.uid)
            gang.take_back(member.pod.uid)
        verdicts = member.refusals.verdicts
        refusals = Refusals(verdicts=verdicts) if verdicts else NO_REFUSALS
        gang.change(member.pod.uid, written=NOTHING_WRITTEN, refusals=refusals)

    def step(self) -> None:
        """Bring the states of gangs that have changed up to date."""
        self._registry.catch_up()
        if self._registry.dirty:
            self._registry.revision += 1
        self._admission.take_up()
        until, dirty = self._clock() + UPDATED_WITHIN, self._registry.dirty
        while dirty and self._clock() <= until:
            gang = self._registry.gangs[dirty.take()]
            self._update(gang)
            self._admission.note(gang)

    def _update(self, gang: Gang) -> None:
        """Bring the state up to date as the leader does, and give gangs that wait for the leader their reason."""
        alive, now = gang.alive(), self._clock()
        if not alive:
            finish(gang, now)
            return
        size = size_of(gang)
        if not isinstance(size, Reason):
            gang.size = size
        update_state(gang, alive, size, now)
        if gang.state is GangState.WAITING and any(member.steered_to for member in alive):
            gang.state = GangState.COMMITTED
        if not isinstance(size, Reason):
            gang.explain(_waits(gang, alive) if gang.state is GangState.WAITING else None, now)
        # The next leader counts how long the gang runs below its minimum from the beginning of its term.
        gang.incomplete_since = None


def _waits(gang: Gang, alive: Sequence[Member]) -> Reason:
    present = len(alive) + gang.ended
    return waiting(present, gang.size) if present < gang.size else LEADER_PLACES
