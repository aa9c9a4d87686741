"""How much of the cluster queues and users have had, and the entitlements of waiting gangs that follow from it.

`Usage` has what a queue and each of its users hold now. If the root of the queue's tree has a half-life, their past use
counts, too. The cluster doesn't show past use, so it is kept in the status of the Queue.

Invariants: if no queue has a guarantee, a weight or a half-life, all gangs have the same entitlement, and nothing is
computed. Past use is exact at every change, because the time until the change is accounted for first. After a restart,
running gangs count as if they had run since the status was written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.gangs.queue.quotas import Quotas
from fluence_extender.gangs.queue.settings import Queues
from fluence_extender.gangs.queue.turns import Turns, entry_key
from fluence_extender.gangs.queue.usage import Place, Usage
from fluence_extender.model.gang import GangKey
from fluence_extender.model.queue import PastUse, digest
from fluence_extender.model.reason import ReasonCode
from fluence_extender.model.resources import NOTHING, Resources
from fluence_extender.queueing.decay import average, later
from fluence_extender.queueing.entry import EQUAL, Entitlement
from fluence_extender.queueing.shares import Group, Ranking, ShareEntry, Shares, parts_of

ASIDE = frozenset(
    {
        ReasonCode.HELD,
        ReasonCode.WAITS_FOR,
        ReasonCode.QUEUE_STOPPED,
        ReasonCode.NO_QUEUE,
        ReasonCode.INVALID_REQUEST,
        ReasonCode.WAITING_FOR_MEMBERS,
        ReasonCode.WAITING_FOR_GATES,
        ReasonCode.TIMED_OUT,
        ReasonCode.UNSATISFIABLE,
        ReasonCode.NO_BACKEND,
    }
)
"""The reasons of gangs that couldn't start in their turn, and so don't count against those behind them."""

MINUTE = 60.0
"""Seconds after which the decay of past use changes the order, although nothing has happened."""

MOST_USERS = 200
"""The most users of a queue whose past use its status keeps: those who used the most."""

WHOLE = ""
"""Stands for all users of a queue; no digest is empty."""

NOBODY = ""
"""A user who has nothing."""


class FairShares:
    """Ranks queues and users by their present and past use. ``calendar`` returns seconds since the epoch."""

    def __init__(self, settings: Queues, quotas: Quotas, usage: Usage, calendar: Callable[[], float]) -> None:
        self._settings = settings
        self._quotas = quotas
        self._usage = usage
        self._calendar = calendar
        self._half_lives: Mapping[str, float] = {}
        self._stated = -1
        self._basis: object = None
        self._ranked = False
        self._aside: set[GangKey] = set()
        self._names: dict[str, str] = {}
        """Users by their digests."""
        self._past: dict[Group, tuple[float, Mapping[str, float]]] = {}
        self._resumed: Mapping[Group, tuple[float, Mapping[str, float]]] = {}
        self._ranking: Ranking | None = None
        self._rest: Iterator[None] | None = None

    # The past.

    def follow(self) -> None:
        """Read the present settings of the queues."""
        if self._stated == self._settings.revision:
            return
        self._stated = self._settings.revision
        for group in list(self._past):
            self._advance(group)
        self._half_lives = {
            name: queue.half_life
            for name, queue in self._settings.queues.items()
            if queue.half_life is not None and not queue.parent
        }

    def half_life(self, queue: str) -> float | None:
        """Return the half-life that holds for a queue: that of the root of its tree."""
        if not self._half_lives:
            return None
        return self._half_lives.get(self._quotas.use.tree.branch(queue).path[-1])

    def changes(self, before: Place | None, after: Place | None) -> None:
        """Account for the time until now, in which a gang held ``before``."""
        if not self._half_lives:
            return
        for place in (before, after):
            if place is not None:
                self._names.setdefault(digest(place.user), place.user)
                if not self._resumed:
                    self._advance((place.queue, WHOLE))
                    self._advance((place.queue, digest(place.user)))

    def _advance(self, group: Group) -> None:
        half_life, now = self.half_life(group[0]), self._calendar()
        if half_life is None:
            self._past.pop(group, None)
            return
        at, used = self._past.get(group, (now, {}))
        if now > at or group not in self._past:
            self._past[group] = now, later(used, self._held(group), now - at, half_life)

    def _held(self, group: Group) -> Resources:
        queue, user = group
        return self._usage.held((queue, self._names.get(user, NOBODY) if user else None))

    def take_over(self) -> None:
        """Begin to lead: read the past use from the status of the queues."""
        self._past.clear()
        found: dict[Group, tuple[float, Mapping[str, float]]] = {}
        for queue in self._settings.made.values():
            past = None if queue.status is None else queue.status.past
            if past is not None:
                found[queue.name, WHOLE] = past.at, past.amounts
                found.update(((queue.name, user), (past.at, used)) for user, used in past.users.items())
        self._resumed = found

    def _resume(self) -> None:
        """Account for the time since the status was written, once all running gangs have been counted."""
        if not self._resumed:
            return
        resumed, self._resumed = self._resumed, {}
        for group, found in resumed.items():
            self._past[group] = found
            self._advance(group)

    def past(self, queue: str) -> PastUse | None:
        """Return the past use of a queue to keep in its status, None if past use doesn't count."""
        if self.half_life(queue) is None or self._resumed:
            return None
        self._advance((queue, WHOLE))
        at, amounts = self._past[queue, WHOLE]
        users: dict[str, Mapping[str, float]] = {}
        for group in [one for one in self._past if one[0] == queue and one[1]]:
            self._advance(group)
            users[group[1]] = self._past[group][1]
        most = sorted(users, key=lambda one: (-max(users[one].values(), default=0.0), one))[:MOST_USERS]
        return PastUse(at, amounts, {user: users[user] for user in most})

    # The order.

    @property
    def compares(self) -> bool:
        """Whether queues are compared by their present and past use."""
        return any(
            one.weight is not None or one.half_life is not None for one in self._settings.made.values()
        )

    @property
    def unfinished(self) -> bool:
        """Whether some waiting gangs have yet to get their entitlements."""
        return self._rest is not None

    def rank(
        self, gangs: Callable[[], Iterable[Gang]], turns: Turns, is_late: Callable[[], bool] = lambda: False
    ) -> bool:
        """Give waiting gangs their entitlements, and return whether any may have changed.

        Once it ``is_late``, the remaining gangs are left for the next calls, even if the order changes in between.
        Until then they keep the entitlements that they have.
        """
        self._resume()
        tree = self._quotas.use.tree
        compares = self.compares
        if not self._quotas.active or not (compares or tree.guaranteed):
            changed, self._ranked, self._rest = self._ranked, False, None
            for gang in gangs() if changed else ():
                self._set(gang, EQUAL, turns)
            return changed
        minute = int(self._calendar() / MINUTE) if self._half_lives else 0
        basis = self._usage.revision, self._settings.revision, tree, minute
        if self._rest is None:
            if self._ranked and self._basis == basis:
                return False
            self._basis, self._ranked = basis, True
            self._rest = self._rank_all(list(gangs()), compares, turns)
        for _ in self._rest:
            if is_late():
                return True
        self._rest = None
        return True

    def _rank_all(self, waiting: Sequence[Gang], compares: bool, turns: Turns) -> Iterator[None]:
        """Give gangs their entitlements, and yield often."""
        found, aside, by_key = [], set(), {}
        for gang in waiting:
            yield
            if _is_set_aside(gang):
                aside.add(gang.key)
            by_key[entry_key(gang.key)] = gang
            place = self._usage.place(gang.key)
            if place is None:
                self._set(gang, EQUAL, turns)
                continue
            asks = NOTHING if place.runs or gang.key in aside else place.asks
            group = place.queue, place.user
            found.append(ShareEntry(entry_key(gang.key), group, turns.of(gang)[2:], asks))
        self._aside = aside
        self._ranking = Ranking(self._quotas.use, self._shares(found) if compares else None)
        for key, entitlement in self._ranking.rank(found):
            self._set(by_key[key], entitlement, turns)
            yield

    def explained(self, gang: Gang) -> None:
        """Take in a gang's new reason. If it changes whether the gang counts against others, rank all anew."""
        if self._ranked and _is_set_aside(gang) != (gang.key in self._aside):
            self._basis = None

    def newcomer(self, queue: str, user: str, asks: Resources) -> Entitlement:
        """Return the entitlement of a gang that would be submitted now."""
        return (
            EQUAL
            if self._ranking is None or not self._ranked
            else self._ranking.entitlement((queue, user), asks)
        )

    def _set(self, gang: Gang, entitlement: Entitlement, turns: Turns) -> None:
        if gang.entitlement != entitlement:
            gang.entitlement = entitlement
            turns.put_again(gang)

    def share(self, queue: str) -> float:
        """Return the share of a queue."""
        return self._shares(()).of(queue)

    def _shares(self, waiting: Sequence[ShareEntry]) -> Shares:
        use, capacity = self._quotas.use, self._quotas.use.tree.capacity
        counted = {*use.tree.branches, *self._usage.queues()}
        had: dict[str, dict[str, float]] = {name: dict(use.used(name)) for name in counted}
        for name in counted:
            mean = self._mean((name, WHOLE))
            for above in use.tree.branch(name).path:
                for kind, amount in mean.items():
                    had[above][kind] = had[above].get(kind, 0.0) + amount
        users: dict[Group, Mapping[str, float]] = {}
        for group in {one.group for one in waiting}:
            mean, held = self._mean((group[0], digest(group[1]))), self._usage.held(group)
            users[group] = parts_of(
                {kind: mean.get(kind, 0.0) + held[kind] for kind in {*mean, *held}}, capacity
            )
        return Shares(
            capacity,
            {name: parts_of(amounts, capacity) for name, amounts in had.items()},
            users,
            {name: one.weight for name, one in self._settings.queues.items() if one.weight is not None},
        )

    def _mean(self, group: Group) -> Mapping[str, float]:
        """Return the average of past use, in which older use counts less by the half-life.

        If only some trees have a half-life, the others count as if they had always held what they hold now.
        """
        if not self._half_lives:
            return {}
        half_life = self.half_life(group[0])
        if half_life is None:
            return dict(self._held(group))
        self._advance(group)
        return average(self._past[group][1], half_life)


def _is_set_aside(gang: Gang) -> bool:
    return gang.reason is not None and gang.reason.code in ASIDE
