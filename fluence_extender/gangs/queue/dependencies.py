"""What gangs wait for: Jobs and other gangs of their namespace, which have to end first.

Jobs and gangs can be deleted once they have ended. So a dependency that was met stays met for the waiting gang. A
record of it on the gang's workloads and pods outlives a restart, and also counts for later pods of such a workload.

Invariant: the work for one gang is bounded, however long the chains of its dependencies are. Only the first Jobs and
gangs on them are followed to find out whether a chain leads back to the gang, and only when dependencies on it change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.model.dependency import Dependency, EndCondition, Ending, Target, parse_dependencies
from fluence_extender.model.gang import GangKey
from fluence_extender.model.multimap import Multimap
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
        """Return how a gang has ended that others wait for: as was last told, or else as ``find`` says."""
        if (namespace, target) not in self._outcomes:
            self._outcomes[namespace, target] = find()
        return self._outcomes[namespace, target]

    def is_awaited(self, namespace: str, target: Target) -> bool:
        """Return whether a gang waits for a Job or a gang."""
        return (namespace, target) in self._waiting

    def tell(self, namespace: str, target: Target, outcome: Ending | None) -> None:
        """Have the gangs looked at that wait for this one if it has ended, or runs again."""
        if self._outcomes.get((namespace, target), outcome) is not outcome:
            self._look_at(self._waiting.of((namespace, target)))
        self._outcomes[namespace, target] = outcome

    def dependee_changed(self, namespace: str, target: Target) -> None:
        """Have the gangs looked at that wait for a Job or gang which has come, has ended or is gone."""
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

    def _note(self, key: GangKey, way: tuple[Target, ...], own: Names) -> None:
        """Record the circle of a gang. If it is new or gone, have the gangs that wait for this one examined."""
        self._to_follow.discard(key)
        if self._circles.get(key, ()) == way:
            return
        if way:
            self._circles[key] = way
        else:
            del self._circles[key]
        waiting = {one for target in own() for one in self._waiting.of((key.namespace, target))} - {key}
        self._to_follow |= waiting
        self._look_at(waiting)

    def forget(self, key: GangKey, own: Names = frozenset) -> None:
        """Forget a gang with the names ``own`` that waits for nothing or is gone."""
        self._wait(key, ())
        self._note(key, (), own)
