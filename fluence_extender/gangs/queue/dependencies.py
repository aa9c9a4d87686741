"""What gangs wait for: Jobs and other gangs of their namespace, which have to end first.

Jobs and gangs can be deleted once they have ended. So a dependency that was met stays met for the waiting gang. A
record of it on the gang's workloads and pods outlives a restart, and also counts for later pods of such a workload.

Invariant: the work for one gang is bounded, however long the chains of its dependencies are. Only the first Jobs and
gangs on them are followed to find out whether a chain leads back to the gang, and only when dependencies on it change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from fluence_extender.gangs.membership.awaited import Awaited
from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.model.dependency import Dependency, EndCondition, Ending, Target, parse_dependencies
from fluence_extender.model.gang import GangKey
from fluence_extender.model.names import AFTER_ANNOTATION
from fluence_extender.model.reason import Reason, ReasonCode, waits_for
from fluence_extender.model.submission import NO_RECORD, Submission

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
    for one in dependencies:
        found, named = look(one.target), f"{_NAMES[one.target.kind]} {one.target.name}"
        if found is None:
            yield one, f"{named}, which doesn't exist: create it, or change annotation {AFTER_ANNOTATION}"
        elif found.outcome is None:
            yield one, f"{named} {_WAITING[one.wanted]}"
        elif not one.wanted.met_by(found.outcome):
            yield (
                one,
                f"{named} {_WAITING[one.wanted]}, but it has {found.outcome.value}: "
                f"create it anew, or change annotation {AFTER_ANNOTATION}",
            )


def circle(own: Set[Target], targets: Iterable[Target], follow: Follow) -> tuple[Target, ...]:
    """Return a chain of dependencies that leads from a gang with the names ``own`` back to it.

    The chain is empty where none is followed within `MOST_FOLLOWED` steps. It ends at Jobs and gangs that have ended.
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
    """What gangs wait for, recorded in ``awaited``, and which of them wait for themselves.

    A circle closes or opens when a gang on it changes its dependencies. So that gang is examined first, and then the
    gangs that wait for it. ``look_at`` has gangs looked at again.
    """

    def __init__(self, awaited: Awaited, look_at: Callable[[Iterable[GangKey]], None]) -> None:
        self._awaited = awaited
        self._look_at = look_at
        self._circles: dict[GangKey, tuple[Target, ...]] = {}

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
        left = dict(unmet((one for one in dependencies if str(one) not in met), look))
        gang.met = frozenset(str(one) for one in dependencies if one not in left)
        if not left:
            self.forget(gang.key, own)
            return None
        way = self._follow(gang.key, [one.target for one in left], own, follow)
        if way:
            through = ", ".join(map(str, way))
            return waits_for(
                f"itself, in a circle ({through}): change annotation {AFTER_ANNOTATION} of one of them"
            )
        texts = list(left.values())
        more = f"; and {len(texts) - MOST_SHOWN} more" if len(texts) > MOST_SHOWN else ""
        return waits_for("; for ".join(texts[:MOST_SHOWN]) + more)

    def _follow(
        self, key: GangKey, targets: Sequence[Target], own: Names, follow: Follow
    ) -> tuple[Target, ...]:
        """Record what a gang waits for, and return the circle that leads back to it, if there is one."""
        if self._awaited.put(key, targets) or key in self._awaited.to_follow:
            self._note(key, circle(own(), targets, follow), own)
        return self._circles.get(key, ())

    def _note(self, key: GangKey, way: tuple[Target, ...], own: Names) -> None:
        """Record the circle of a gang. If it is new or gone, have the gangs that wait for this one examined."""
        self._awaited.to_follow.discard(key)
        if self._circles.get(key, ()) == way:
            return
        if way:
            self._circles[key] = way
        else:
            del self._circles[key]
        waiting = {one for target in own() for one in self._awaited.by(key.namespace, target)} - {key}
        self._awaited.to_follow |= waiting
        self._look_at(waiting)

    def forget(self, key: GangKey, own: Names = frozenset) -> None:
        """Forget a gang with the names ``own`` that waits for nothing or is gone."""
        self._awaited.put(key, ())
        self._note(key, (), own)
