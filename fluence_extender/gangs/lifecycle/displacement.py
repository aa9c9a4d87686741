"""Pinned members that are displaced: for how long, and what their gangs are told.

Invariants: nobody is replaced who hasn't been displaced for a while, and is so at the end of it; once one of a gang was
replaced nobody else of it is pinned, so that no member is replaced twice; a Job never fails of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fluence_extender.gangs.execution.actions import Evict
from fluence_extender.gangs.lifecycle.failures import Failures
from fluence_extender.gangs.lifecycle.limits import NEVER, Limits
from fluence_extender.gangs.lifecycle.member_states import update
from fluence_extender.gangs.lifecycle.pins import may_be_pinned, outlived, outlived_at, pinned, replacing
from fluence_extender.gangs.lifecycle.places import Places
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.model.notation import first_few, natural_order
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode

MOST_PARTS = 16
"""So many members beyond those that make a gang whole are looked at, each by itself."""

SHOWN = 4
"""So many members, and nodes, are named."""


class Displacement:
    """See the module docstring."""

    def __init__(self, places: Places, failures: Failures, limits: Limits) -> None:
        self._places = places
        self._failures = failures
        self._limits = limits

    def look(
        self, gang: Gang, lacking: Sequence[Sequence[Member]], reason: Reason, now: float
    ) -> tuple[Reason, bool]:
        """See who of those ``lacking`` a place (the members of each part need theirs together) is displaced.

        Returns why the gang waits, ``reason`` if that is something else, and whether members will be replaced. It is
        looked when a gang turns out to have no place, and again before anybody is replaced: besides two plans of all
        it takes one of each pinned member.
        """
        parts = [part for part in lacking if any(map(pinned, part))][:MOST_PARTS]
        waiting = [member for part in parts for member in part if pinned(member)]
        if not any(
            member.displaced_since <= now < member.displaced_since + self._limits.unasked
            for member in waiting
        ):
            found = {uid for part in parts for uid in self._places.displaced(gang, part, now)}
            for member in waiting:
                since = min(member.displaced_since, now) if member.pod.uid in found else NEVER
                update(member, displaced_since=since)
        going = [member for member in waiting if member.displaced_since < NEVER]
        if not going:
            return reason, False
        gang.try_again_at = min(gang.try_again_at, outlived_at(gang, self._limits))
        pods = sorted((member.pod for member in going), key=lambda pod: natural_order(pod.name))
        job = self._failures.unbearable(pods)
        if job:
            return Reason(reason.code, f"{reason.text}; {_kept(pods, job)}"), False
        return Reason(ReasonCode.BUSY, f"busy: {_replaced(pods)}"), True

    def replacements(self, gang: Gang, now: float) -> list[Evict]:
        """Who of ``gang`` is evicted now, so that a successor takes its place; none whose Job might fail of it."""
        pods = [member.pod for member in outlived(gang, now, self._limits)]
        if not pods or self._failures.unbearable(pods):
            return []
        self._failures.count(pods)
        gang.unpinned = True
        return [replacing(pod) for pod in pods]

    def may_pin(self, gang: Gang, pod: Pod) -> bool:
        """Whether a member that is to be ungated may be confined to its node: it may have to be replaced for it."""
        return not gang.unpinned and may_be_pinned(pod) and not self._failures.unbearable((pod,))


def _replaced(pods: Sequence[Pod]) -> str:
    was, they, are = ("was", "it", "is") if len(pods) == 1 else ("were", "they", "are")
    return (
        f"{first_few([pod.name for pod in pods], SHOWN)} {was} confined to {_nodes(pods)} when {they} {was} ungated, "
        f"without room there now; {they} {are} replaced unless that changes"
    )


def _kept(pods: Sequence[Pod], job: str) -> str:
    return (
        f"{first_few([pod.name for pod in pods], SHOWN)} could be placed elsewhere, but not without failing Job {job}: "
        f"{'it waits' if len(pods) == 1 else 'they wait'} for {_nodes(pods)}"
    )


def _nodes(pods: Iterable[Pod]) -> str:
    return first_few(sorted({name for pod in pods for name in pod.confined_to}, key=natural_order), SHOWN)
