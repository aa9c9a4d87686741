"""What gangs wait for: Jobs and other gangs of their namespace, which have to end first.

Jobs and gangs can be deleted once they have ended. So a dependency that was met stays met for the gang that waits. It
is recorded on the gang's Jobs and its pods. A service that starts anew reads it there, and the next pods of such a Job
go by it, too.

Invariant: the work for one gang is bounded, however its dependencies lead on to others. Only the first of them are
followed to find out whether they lead back to the gang.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass

from fluence_extender.gangs.membership.awaited import Awaited
from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.model.dependency import Dependency, EndCondition, Ending, Target, parse_dependencies
from fluence_extender.model.gang import GangKey
from fluence_extender.model.names import AFTER_ANNOTATION
from fluence_extender.model.reason import Reason, ReasonCode, waits_for
from fluence_extender.model.submission import NO_RECORD, Submission

MOST_FOLLOWED = 256
"""Jobs and gangs that are looked at to find a circle."""

MOST_SHOWN = 3
"""Dependencies that a reason names."""

_WAITING = {EndCondition.OK: "to succeed", EndCondition.ANY: "to end", EndCondition.FAILED: "to fail"}
_NAMES = {"job": "Job", "gang": "gang"}


@dataclass(frozen=True, slots=True)
class Dependee:
    """A Job or a gang for which others may wait: how it has ended, None before, and what it waits for itself."""

    outcome: Ending | None
    after: str = ""


Look = Callable[[Target], Dependee | None]
"""Returns what is known of a Job or a gang of the namespace, None where there is none of that name."""


def unmet(dependencies: Iterable[Dependency], look: Look) -> Iterator[tuple[Dependency, str]]:
    """Yield the dependencies that aren't met, each with what it waits for, in words."""
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


def circle(own: Set[Target], dependencies: Iterable[Dependency], look: Look) -> list[Target]:
    """Return the way on which the dependencies of something with the names ``own`` lead back to it.

    It is empty where none does within the first `MOST_FOLLOWED`. What has ended leads nowhere.
    """
    ways = [[one.target] for one in dependencies]
    seen: set[Target] = set()
    for way in ways:
        target = way[-1]
        if target in own:
            return way
        found = look(target) if target not in seen else None
        seen.add(target)
        if found is None or found.outcome is not None or len(ways) > MOST_FOLLOWED:
            continue
        following = parse_dependencies(found.after)
        ways += [[*way, one.target] for one in following] if not isinstance(following, str) else []
    return []


class Dependencies:
    """What gangs wait for, recorded in ``awaited``."""

    def __init__(self, awaited: Awaited) -> None:
        self._awaited = awaited

    def obstacle(self, gang: Gang, said: Submission, own: Set[Target], look: Look) -> Reason | None:
        """Return why the gang with the names ``own``, which says this of itself, has to wait for others."""
        dependencies = parse_dependencies(said.after or "")
        if isinstance(dependencies, str) or not dependencies:
            self.forget(gang.key)
            gang.met = NO_RECORD
            return Reason(ReasonCode.INVALID_REQUEST, dependencies) if isinstance(dependencies, str) else None
        met = gang.met | said.met
        left = dict(unmet((one for one in dependencies if str(one) not in met), look))
        self._awaited.put(gang.key, (one.target for one in left))
        gang.met = frozenset(str(one) for one in dependencies if one not in left)
        if not left:
            return None
        way = circle(own, left, look)
        if way:
            through = ", ".join(map(str, way))
            return waits_for(
                f"itself, in a circle ({through}): change annotation {AFTER_ANNOTATION} of one of them"
            )
        texts = list(left.values())
        more = f"; and {len(texts) - MOST_SHOWN} more" if len(texts) > MOST_SHOWN else ""
        return waits_for("; for ".join(texts[:MOST_SHOWN]) + more)

    def forget(self, key: GangKey) -> None:
        """Forget a gang that waits for nothing or is gone."""
        self._awaited.put(key, ())
