"""What can happen to a gang, as its history names it."""

from __future__ import annotations

from enum import StrEnum


class What(StrEnum):
    """The kinds of entries of a history.

    seen: a member was created; taken-over: it was bound before the service started; whole: enough members are there;
    waiting: it has no place, for the reason in the detail; planned, withdrawn: it got a place, or lost it; committed:
    its places are its own; steered: a member was sent to kube-scheduler for its node; filtered: kube-scheduler asked
    and was told the node; refused: it didn't take the node; bound: the member has its node; complete: all members have;
    failed: a write failed; evicted: a bound member was evicted; released: a member holds nothing any more; finished: no
    member is left running; gone: no pod is left.
    """

    SEEN = "seen"
    TAKEN_OVER = "taken-over"
    WHOLE = "whole"
    WAITING = "waiting"
    PLANNED = "planned"
    WITHDRAWN = "withdrawn"
    COMMITTED = "committed"
    STEERED = "steered"
    FILTERED = "filtered"
    REFUSED = "refused"
    BOUND = "bound"
    COMPLETE = "complete"
    FAILED = "failed"
    EVICTED = "evicted"
    RELEASED = "released"
    FINISHED = "finished"
    GONE = "gone"
