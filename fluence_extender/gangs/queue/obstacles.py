"""What other than a lack of room keeps a gang from starting: holds, stopped queues, and work that has to end first.

Each decision is a plain function of values. Nothing here applies to a gang that has begun, because it has to be
completed.

**Dependencies.** A gang may wait for the end of Jobs and other gangs of its namespace. Jobs and gangs can be deleted
once they have ended. So a dependency that was met stays met for the waiting gang. A record of it on the gang's
workloads and pods outlives a restart, and also counts for later pods of such a workload.

Invariant: the work for one gang is bounded, however long the chains of its dependencies are. Only the first Jobs and
gangs on them are followed to find out whether a chain leads back to the gang, and only when dependencies on it change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.gangs.queue.quotas import Usage
from fluence_extender.model.dependency import Dependency, EndCondition, Ending, Target, parse_dependencies
from fluence_extender.model.gang import GangKey
from fluence_extender.model.multimap import Multimap
from fluence_extender.model.names import AFTER_ANNOTATION, HOLD_ANNOTATION
from fluence_extender.model.notation import format_duration
from fluence_extender.model.reason import (
    Reason,
    ReasonCode,
    held,
    over_user_limit,
    queue_stopped,
    queued,
    waits_for,
)
from fluence_extender.model.submission import NO_RECORD, Submission
from fluence_extender.objects.queues import Queue, Stop
from fluence_extender.queueing.entry import Age

# Holds, stopped queues and limits.

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
    longest = max((seconds for seconds in declared if seconds is not None), default=None)
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
    """Return the limit on gangs in line that keeps a gang of ``user`` out of the line, None if none does."""
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


# Dependencies.

MOST_FOLLOWED = 256
"""The most Jobs and gangs that are looked at to find a circle."""

MOST_SHOWN = 3
"""The most dependencies that a reason names."""

_WAITING = {EndCondition.OK: "to succeed", EndCondition.ANY: "to end", EndCondition.FAILED: "to fail"}
_NAMES = {"job": "Job", "gang": "gang"}


@dataclass(frozen=True, slots=True)
class Dependee:
    """How a Job or gang for which others may wait has ended, None until then."""

    outcome: Ending | None


Look = Callable[[Target], Dependee | None]
"""Returns the state of a Job or a gang of the namespace, None if none has that name."""

Follow = Callable[[Target], Iterable[Target]]
"""Returns what a Job or a gang of the namespace waits for, nothing if it has ended."""

Names = Callable[[], Set[Target]]
"""Returns the names under which others wait for a gang."""


def unmet(dependencies: Iterable[Dependency], look: Look) -> Iterator[tuple[Dependency, str]]:
    """Yield the dependencies that aren't met, each with its description for a reason."""
    for dependency in dependencies:
        dependee, named = (
            look(dependency.target),
            f"{_NAMES[dependency.target.kind]} {dependency.target.name}",
        )
        if dependee is None:
            yield (
                dependency,
                f"{named}, which doesn't exist: create it, or change annotation {AFTER_ANNOTATION}",
            )
        elif dependee.outcome is None:
            yield dependency, f"{named} {_WAITING[dependency.wanted]}"
        elif not dependency.wanted.met_by(dependee.outcome):
            yield (
                dependency,
                f"{named} {_WAITING[dependency.wanted]}, but it has {dependee.outcome.value}: "
                f"create it anew, or change annotation {AFTER_ANNOTATION}",
            )


def circle(own: Set[Target], targets: Iterable[Target], follow: Follow) -> tuple[Target, ...]:
    """Return a chain of dependencies that leads from a gang with the names ``own`` back to it.

    It is empty if there is no such chain, or none among the first `MOST_FOLLOWED` Jobs and gangs. Dependencies of what
    has ended aren't followed.
    """
    previous: dict[Target, Target | None] = dict.fromkeys(targets)
    followed = list(previous)
    for target in followed:
        if target in own:
            return _chain(target, previous)
        for further in follow(target) if len(followed) <= MOST_FOLLOWED else ():
            if further not in previous:
                previous[further] = target
                followed.append(further)
    return ()


def _chain(target: Target, previous: Mapping[Target, Target | None]) -> tuple[Target, ...]:
    """Return the chain that ends at ``target``; ``previous`` names the predecessor of each of its parts."""
    chain = [target]
    while (before := previous[chain[-1]]) is not None:
        chain.append(before)
    return tuple(reversed(chain))


class Dependencies:
    """What gangs wait for, and which of them wait for themselves.

    A circle closes or opens when a gang on it changes its dependencies. So that gang is examined first, and then the
    gangs that wait for it. ``look_at`` has gangs looked at again.
    """

    def __init__(self, look_at: Callable[[Iterable[GangKey]], None]) -> None:
        self._look_at = look_at
        self._targets: dict[GangKey, tuple[Target, ...]] = {}
        self._waiting: Multimap[tuple[str, Target], GangKey] = Multimap()
        self._outcomes: dict[tuple[str, Target], Ending | None] = {}
        """How gangs that others wait for had ended when they were last looked at."""
        self._to_follow: set[GangKey] = set()
        """The gangs whose chains of dependencies may have become circles, or whose circles may have opened."""
        self._circles: dict[GangKey, tuple[Target, ...]] = {}

    def targets(self, key: GangKey) -> Sequence[Target]:
        """Return what a gang waits for."""
        return self._targets.get(key, ())

    def outcome(self, namespace: str, target: Target, find: Callable[[], Ending | None]) -> Ending | None:
        """Return how a gang that others wait for has ended: as `tell` last said, or else as ``find`` says."""
        if (namespace, target) not in self._outcomes:
            self._outcomes[namespace, target] = find()
        return self._outcomes[namespace, target]

    def is_awaited(self, namespace: str, target: Target) -> bool:
        """Return whether a gang waits for a Job or a gang."""
        return (namespace, target) in self._waiting

    def tell(self, namespace: str, target: Target, outcome: Ending | None) -> None:
        """Have the gangs that wait for this one looked at if it has ended, or runs again."""
        if self._outcomes.get((namespace, target), outcome) is not outcome:
            self._look_at(self._waiting.of((namespace, target)))
        self._outcomes[namespace, target] = outcome

    def dependee_changed(self, namespace: str, target: Target) -> None:
        """Have the gangs that wait for a Job or gang looked at, because it is new, has ended or is gone."""
        waiting = self._waiting.of((namespace, target))
        self._outcomes.pop((namespace, target), None)
        self._to_follow |= waiting
        self._look_at(waiting)

    def obstacle(
        self, gang: Gang, submission: Submission, own: Names, look: Look, follow: Follow
    ) -> Reason | None:
        """Return why a gang with the names ``own`` has to wait for others, None if its dependencies are met."""
        dependencies = parse_dependencies(submission.after or "")
        if isinstance(dependencies, str) or not dependencies:
            self.forget(gang.key, own)
            gang.met = NO_RECORD
            return Reason(ReasonCode.INVALID_REQUEST, dependencies) if isinstance(dependencies, str) else None
        met = gang.met | submission.met
        not_met = dict(unmet((dependency for dependency in dependencies if str(dependency) not in met), look))
        gang.met = frozenset(str(dependency) for dependency in dependencies if dependency not in not_met)
        if not not_met:
            self.forget(gang.key, own)
            return None
        cycle = self._follow(gang.key, [dependency.target for dependency in not_met], own, follow)
        if cycle:
            through = ", ".join(map(str, cycle))
            return waits_for(
                f"itself, in a circle ({through}): change annotation {AFTER_ANNOTATION} of one of them"
            )
        texts = list(not_met.values())
        more = f"; and {len(texts) - MOST_SHOWN} more" if len(texts) > MOST_SHOWN else ""
        return waits_for("; for ".join(texts[:MOST_SHOWN]) + more)

    def _follow(
        self, key: GangKey, targets: Sequence[Target], own: Names, follow: Follow
    ) -> tuple[Target, ...]:
        """Record what a gang waits for, and return the circle that leads back to it, if there is one."""
        if self._wait(key, tuple(dict.fromkeys(targets))) or key in self._to_follow:
            self._note(key, circle(own(), targets, follow), own)
        return self._circles.get(key, ())

    def _wait(self, key: GangKey, targets: tuple[Target, ...]) -> bool:
        """Record what a gang waits for, in place of what it waited for before; return whether that differs."""
        before = self._targets.pop(key, ())
        if targets:
            self._targets[key] = targets
        if before == targets:
            return False
        for target in before:
            self._waiting.discard((key.namespace, target), key)
        for target in targets:
            self._waiting.add((key.namespace, target), key)
        for target in before:
            if not self.is_awaited(key.namespace, target):
                self._outcomes.pop((key.namespace, target), None)
        return True

    def _note(self, key: GangKey, cycle: tuple[Target, ...], own: Names) -> None:
        """Record the circle of a gang. If it is new or gone, have the gangs that wait for this one examined."""
        self._to_follow.discard(key)
        if self._circles.get(key, ()) == cycle:
            return
        if cycle:
            self._circles[key] = cycle
        else:
            del self._circles[key]
        waiting = {one for target in own() for one in self._waiting.of((key.namespace, target))} - {key}
        self._to_follow |= waiting
        self._look_at(waiting)

    def forget(self, key: GangKey, own: Names = frozenset) -> None:
        """Forget a gang with the names ``own`` that waits for nothing or is gone."""
        self._wait(key, ())
        self._note(key, (), own)
