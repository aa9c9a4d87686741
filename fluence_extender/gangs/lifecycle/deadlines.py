"""When a gang is looked at, and how long it may take to assemble and to be completed.

A gang that doesn't assemble in time only gets another reason. It holds nothing meanwhile, and it is placed once it is
whole. A gang that has begun and can't be completed in time is undone: its bound members are evicted. A limit that the
gang itself states (a PodGroup's scheduleTimeoutSeconds, an annotation) takes precedence over the service's limits.

A step looks at the gangs that have changed and at those whose timers are due. These are few, while a walk through all
gangs at each step would take time in proportion to the cluster. A gang in which nothing happens costs nothing until its
timer is due.

Large gangs aren't looked at each time that they or the cluster change, but at the pace of their namespace. A look takes
some 30 µs for each member, and users may change a gang many times a second. A gang that isn't looked at is put off: it
still counts as changed, and is looked at once its namespace has time again.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Set

from fluence_extender.gangs.lifecycle.limits import NEVER, Limits
from fluence_extender.gangs.membership.gang import ASSEMBLED, Assembly, Gang, Member, shortest_patience
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.model.gang import GangKey, GangState
from fluence_extender.model.pace import Pace

# Limits.


def note_assembly(gang: Gang, alive: Iterable[Member], all_exist: bool, now: float, limits: Limits) -> None:
    """Record whether all members exist and, if they don't, since when and whether that has taken too long."""
    patience = shortest_patience(member.membership for member in alive)
    if all_exist:
        gang.assembly = ASSEMBLED if patience is None else Assembly(patience=patience)
        return
    since = now if gang.assembly.since is None else gang.assembly.since
    limit = limits.assembly if patience is None else patience
    late = limit is not None and now - since >= limit
    gang.assembly = Assembly(since, limit if late else None, patience)


def falls_late(gang: Gang, now: float, limits: Limits) -> bool:
    """Return whether the time to assemble has just run out."""
    return gang.assembly.late_after is None and now >= _late_at(gang, limits)


def _late_at(gang: Gang, limits: Limits) -> float:
    return _deadline(gang.assembly.since, _limit(gang, limits.assembly))


def undone_at(gang: Gang, limits: Limits) -> float:
    """Return when the bound members of a gang that isn't complete are evicted."""
    return _deadline(gang.incomplete_since, _completion_limit(gang, limits))


def _completion_limit(gang: Gang, limits: Limits) -> float | None:
    """Return the limit after which a begun gang is undone; a service without one never undoes a gang."""
    return None if limits.completion is None else _limit(gang, limits.completion)


def _limit(gang: Gang, usual: float | None) -> float | None:
    """Return the limit that the gang itself states, or else the ``usual`` one."""
    return usual if gang.assembly.patience is None else gang.assembly.patience


def _deadline(since: float | None, limit: float | None) -> float:
    return NEVER if since is None or limit is None else since + limit


def undo(gang: Gang, now: float, limits: Limits) -> str:
    """Return why the bound members of a begun gang are evicted now, "" if its limit hasn't run out.

    The limit starts again then, in case the evictions fail.
    """
    if now < undone_at(gang, limits):
        return ""
    gang.incomplete_since = now
    missing = str(gang.reason or "members are missing").removesuffix(at_risk(gang, limits))
    return f"gang {gang.key} could not be completed within {_completion_limit(gang, limits):g} s: {missing}"


def at_risk(gang: Gang, limits: Limits) -> str:
    """Return the end of a reason: what happens to the bound members if the others aren't bound in time."""
    limit = _completion_limit(gang, limits)
    bound = sum(1 for member in gang.alive() if member.bound)
    if gang.was_complete or not bound or limit is None:
        return ""
    are_bound = "member is bound and" if bound == 1 else "members are bound and"
    return f"; {bound} of {gang.size} {are_bound} evicted unless the gang is completed within {limit:g} s"


def given_up_at(member: Member, limits: Limits) -> float:
    """Return when a refused member loses its place unless kube-scheduler requests its node before."""
    if not member.pod.refusal or not member.movable or not member.alive:
        return NEVER
    return member.written.at + limits.unasked


def due(gang: Gang, now: float, limits: Limits) -> float:
    """Return when to look at the gang next if nothing is observed of it.

    At that time a reason is due to be announced, a plan is due to be tried again, or a limit runs out.
    """
    # No pass tries a gang during its back-off.
    times = [max(gang.again_at, gang.back_off.until), undone_at(gang, limits)]
    if gang.back_off.until > now:
        times.append(gang.back_off.until)
    if gang.reason is not None and gang.memory.announced != gang.reason.text:
        times.append(gang.memory.reason_since + limits.announce_after)
    if gang.assembly.late_after is None:
        times.append(_late_at(gang, limits))
    times.extend(given_up_at(member, limits) for member in gang.pending() if member.pod.refusal)
    return min(times)


# Timers.

SETTLED = (GangState.BOUND, GangState.FINISHED)
"""The states of gangs for which nothing has to be done unless they change."""

MOST_DUE = 32
"""The most gangs with due timers that one step looks at, which takes some milliseconds."""


class GangIndex:
    """The gangs of ``registry`` that steps have to look at.

    Each gang has one timer, the earliest that was requested. When it is due, a step looks at the gang.
    """

    def __init__(self, registry: Registry, limits: Limits) -> None:
        self._registry = registry
        self._limits = limits
        self._timers: list[tuple[float, GangKey]] = []
        self._due: dict[GangKey, float] = {}
        self.more_due = False
        """Whether the last `take_due` may have left timers that are due."""

    def update(self, gang: Gang, now: float) -> None:
        """Set the gang's timer."""
        self.look_at(gang.key, due(gang, now, self._limits))

    def look_at(self, key: GangKey, when: float) -> None:
        """Look at the gang at ``when`` (on the controller's clock), or earlier if that was requested before."""
        if when < self._due.get(key, NEVER):
            self._due[key] = when
            heapq.heappush(self._timers, (when, key))

    def take_due(self, now: float) -> set[GangKey]:
        """Remove the first of the timers that are due, `MOST_DUE` of them at most, and return their gangs."""
        due_gangs: set[GangKey] = set()
        while self._timers and self._timers[0][0] <= now and len(due_gangs) < MOST_DUE:
            when, key = heapq.heappop(self._timers)
            if self._due.get(key) == when:
                del self._due[key]
                due_gangs.add(key)
        self.more_due = len(due_gangs) == MOST_DUE
        return due_gangs

    def existing(self, keys: Set[GangKey]) -> list[Gang]:
        """Return the gangs of ``keys`` that still exist, in a stable order."""
        gangs = self._registry.gangs
        return [gangs[key] for key in sorted(keys) if key in gangs]

    def unsettled(self) -> list[Gang]:
        """Return the gangs for which something may still have to be done, in a stable order."""
        gangs = self._registry.gangs
        unsettled = {key for key, gang in gangs.items() if gang.state not in SETTLED}
        return self.existing(unsettled.union(self._registry.dirty))


# Large gangs.

LARGE = 500
"""The fewest members of a large gang."""

LOOKED_AT_FIRST, LOOKED_AT_A_SECOND = 10_000, 5_000
"""How many members of a namespace's large waiting gangs are looked at in one go, and in each second after that."""


class LargeGangs:
    """Says when large gangs may be looked at.

    ``pace`` counts the members that were looked at. ``clock`` gives seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.pace = Pace(LOOKED_AT_FIRST, LOOKED_AT_A_SECOND, clock)

    def copy(self, now: float) -> LargeGangs:
        """Return an independent copy at ``now``."""
        copied = LargeGangs(lambda: now)
        copied.pace = self.pace.copy(now)
        return copied

    def may_look(self, gang: Gang) -> bool:
        """Return whether a gang may be looked at now, and count the look."""
        if len(gang.members) < LARGE or gang.state is not GangState.WAITING:
            return True
        if self.pace.left(gang.key.namespace) <= 0:
            return False
        self.pace.spend(gang.key.namespace, len(gang.members))
        return True
