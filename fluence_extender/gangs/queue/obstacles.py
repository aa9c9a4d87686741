"""What keeps a gang from starting apart from room: holds, limits, and stopped queues.

Each decision is a plain function of values. Nothing here applies to a gang that has begun, because it has to be
completed.
"""

from __future__ import annotations

from collections.abc import Iterable

from fluence_extender.gangs.queue.usage import Usage
from fluence_extender.model.gang import GangKey
from fluence_extender.model.names import HOLD_ANNOTATION
from fluence_extender.model.notation import format_duration
from fluence_extender.model.queue import Queue, Stop
from fluence_extender.model.reason import Reason, ReasonCode, held, over_user_limit, queue_stopped, queued
from fluence_extender.queueing.entry import Age

LONGEST_SHOWN = 40
"""The most characters of an invalid value that a message quotes."""


def hold_obstacle(text: str | None) -> Reason | None:
    """Return why a gang with this text in its annotation ``hold`` is held, None if it isn't held."""
    if text is None or text == "false":
        return None
    if text == "true":
        return held(f"annotation {HOLD_ANNOTATION} is true; kubectl fluence queue release takes it off")
    shown = text[:LONGEST_SHOWN]
    return Reason(
        ReasonCode.INVALID_REQUEST, f"annotation {HOLD_ANNOTATION} is {shown!r}: it must be true or false"
    )


def duration_obstacle(queue: Queue, declared: Iterable[float | None]) -> Reason | None:
    """Return why a queue doesn't take a gang whose pods declare these durations in seconds, None if it does."""
    most = queue.max_duration
    if most is None:
        return None
    longest = max((one for one in declared if one is not None), default=None)
    if longest is None or longest <= most:
        return None
    stated, allowed = format_duration(longest), format_duration(most)
    return Reason(
        ReasonCode.INVALID_REQUEST,
        f"it declares that it runs for {stated}, and queue {queue.name} takes work of at most {allowed}",
    )


def stop_obstacle(queue: Queue, created: Age) -> Reason | None:
    """Return why a stopped queue keeps a gang of this age from starting, None if it doesn't.

    A draining queue still starts gangs that are older than the stop.
    """
    if queue.stop in (Stop.HOLD, Stop.EVICT):
        return queue_stopped(queue.name, f"none of its work starts (stop: {queue.stop})")
    if queue.stop is Stop.DRAIN and queue.stopped_since is not None and created[0] > queue.stopped_since:
        return queue_stopped(queue.name, f"it takes no new work (stop: {queue.stop})")
    return None


def limit_obstacle(key: GangKey, queue: Queue, user: str, usage: Usage) -> Reason | None:
    """Return the limit of its queue that keeps a gang of ``user`` waiting, None if none does."""
    return line_obstacle(key, queue, user, usage) or running_obstacle(queue, user, usage)


def line_obstacle(key: GangKey, queue: Queue, user: str, usage: Usage) -> Reason | None:
    """Return which limit on the waiting gangs of a queue leaves out a gang of ``user``, None if none does."""
    limits, name = queue.limits, queue.name
    whole, own = (name, None), (name, user)
    if limits.queued and usage.are_older(key, whole, limits.queued):
        return queued(f"queue {name} has as many gangs in line as it takes (max.queued: {limits.queued})")
    if limits.queued_per_user and usage.are_older(key, own, limits.queued_per_user):
        return over_user_limit(
            name,
            f"{user} has as many gangs in line as one user may (max.queuedPerUser: {limits.queued_per_user})",
        )
    return None


def running_obstacle(queue: Queue, user: str, usage: Usage, more: int | None = None) -> Reason | None:
    """Return why a queue may not run more gangs of ``user`` now, None if it may.

    A gang counts as one, and so does each of its places beyond those with which it began. For such a place, ``more`` is
    the number of those that are given at the same time.
    """
    joining = (
        "" if more is None else "; a member that joins a gang beyond what it was promised counts as one more"
    )
    limits, name = queue.limits, queue.name
    whole, own = (name, None), (name, user)
    if limits.running and usage.running(whole) + (more or 0) >= limits.running:
        return queued(f"queue {name} runs as many gangs as it may (max.running: {limits.running}){joining}")
    if limits.running_per_user and usage.running(own) + (more or 0) >= limits.running_per_user:
        most = f"max.runningPerUser: {limits.running_per_user}"
        return over_user_limit(name, f"{user} runs as many gangs as one user may ({most}){joining}")
    return None
