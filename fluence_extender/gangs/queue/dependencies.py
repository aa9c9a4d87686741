"""What gangs wait for: Jobs and other gangs of their namespace, which have to end first.

Jobs and gangs can be deleted once they have ended. So a dependency that was met stays met for the waiting gang. A
record of it on the gang's workloads and pods outlives a restart, and also counts for later pods of such a workload.

Invariant: the work for one gang is bounded, however long the chains of its dependencies are. Only the first Jobs and
gangs on them are followed to find out whether a chain leads back to the gang.
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
"""The most Jobs and gangs that are looked at to find a circle."""

MOST_SHOWN = 3
"""The most dependencies that a reason names."""

_WAITING = {EndCondition.OK: "to succeed", EndCondition.ANY: "to end", EndCondition.FAILED: "to fail"}
_NAMES = {"job": "Job", "gang": "gang"}


@dataclass(frozen=True, slots=True)
class Dependee:
    """A Job or a gang for which others may wait: how it ended, None until then, and its own annotation ``after``."""

    outcome: Ending | None
    after: str = ""


Look = Callable[[Target], Dependee | None]
"""Returns the state of a Job or a gang of the namespace, None if none has that name."""


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


def circle(own: Set[Target], dependencies: Iterable[Dependency], look: Look) -> list[Target]:
    """Return a chain of dependencies that leads from a gang with the names ``own`` back to it.

    The chain is empty where none is found within `MOST_FOLLOWED` steps. It ends at Jobs and gangs that have ended.
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

    def obstacle(self, gang: Gang, submission: Submission, own: Set[Target], look: Look) -> Reason | None:
        """Return why a gang with the names ``own`` has to wait for others, None if its dependencies are met."""
        dependencies = parse_dependencies(submission.after or "")
        if isinstance(dependencies, str) or not dependencies:
            self.forget(gang.key)
            gang.met = NO_RECORD
            return Reason(ReasonCode.INVALID_REQUEST, dependencies) if isinstance(dependencies, str) else None
        met = gang.met | submission.met
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
