"""The state of a gang, which follows from the states of its members. Nothing is decided here.

A gang is whole once as many members are bound as its size requires, and it stays whole: members that end or come later
don't make it incomplete again. A pod that its kubelet rejects is one that ends. But its gang isn't bound, and so has a
reason, until it has enough members again. The bound members of a gang that isn't whole run below its minimum, and the
gang records since when.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fluence_extender.gangs.lifecycle.limits import NEVER
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.model.gang import GangState, HistoryKind
from fluence_extender.model.reason import Reason


def have_nodes(bound: int) -> str:
    """Return in words that so many members are bound."""
    return "1 member has its node" if bound == 1 else f"{bound} members have their nodes"


def finish(gang: Gang, now: float) -> None:
    """Finish a gang without living members. If members come again, it begins anew."""
    if gang.state is not GangState.FINISHED:
        gang.note(HistoryKind.FINISHED, "", "no member is left running")
    gang.state = GangState.FINISHED
    gang.begin_anew()
    gang.explain(None, now)


def settle(gang: Gang, alive: Sequence[Member], size: int | Reason, now: float) -> bool:
    """Settle the state of a gang with living members, and return whether all of them have their nodes from now on.

    ``size`` is its size, or why that is no longer known. In the latter case bound members stay where they are.
    """
    bound = sum(1 for member in alive if member.bound)
    assigned = any(member.assignment is not None for member in alive)
    gang.count_gathering()
    enough = bound + gang.ended >= gang.size
    whole = gang.whole or (enough and not isinstance(size, Reason))
    replaced = enough or not any(one.pod.rejected for one in gang.members.values())
    if bound == len(alive) and whole and replaced:
        completes = gang.state is not GangState.BOUND
        if completes:
            gang.note(HistoryKind.COMPLETE, "", have_nodes(bound))
        gang.state = GangState.BOUND
        gang.whole = True
        gang.incomplete_since = None
        gang.back_off = replace(gang.back_off, replans=0, replanned=NEVER, failures=0, until_requested="")
        gang.explain(None, now)
        return completes
    if bound:
        gang.state = GangState.COMMITTED if gang.begun else _state_beside_foreign(gang, alive)
        # Members beyond the size may come and go: those that wait don't endanger those that run.
        gang.whole = whole
        if gang.whole:
            gang.incomplete_since = None
        elif gang.incomplete_since is None:
            gang.incomplete_since = now
    elif not gang.begun:
        gang.incomplete_since = None
        gang.whole = False
        if not assigned:
            gang.state = GangState.WAITING
            gang.begin_anew()
    if isinstance(size, Reason):
        gang.explain(size, now)
    return False


def _state_beside_foreign(gang: Gang, alive: Sequence[Member]) -> GangState:
    """Return the state of a gang none of whose bound members was placed with it."""
    if not any(one.assignment is not None and not one.bound for one in alive):
        return GangState.WAITING
    return GangState.COMMITTED if gang.state is GangState.COMMITTED else GangState.PLANNED
