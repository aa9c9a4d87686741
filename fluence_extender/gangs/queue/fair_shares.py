"""How much of the cluster queues and users have had, and the entitlements of waiting gangs that follow from it.

`Usage` has what a queue and each of its users hold now. If the root of the queue's tree has a half-life, their past use
counts, too. The cluster doesn't show past use, so it is kept in the status of the Queue.

Invariants: if no queue has a guarantee, a weight or a half-life, all gangs have the same entitlement, and nothing is
computed. Past use is exact at every change, because the time until the change is accounted for first. After a restart,
running gangs count as if they had run since the status was written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy

from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.gangs.queue.quotas import Place, Quotas, Usage
from fluence_extender.gangs.queue.settings import Queues
from fluence_extender.gangs.queue.submissions import entry_key, turn
from fluence_extender.model.gang import GangKey
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.model.resources import NOTHING, Resources
from fluence_extender.objects.queues import PastUse, digest
from fluence_extender.queueing.entry import EQUAL, Entitlement, Rank
from fluence_extender.queueing.shares import Group, Ranking, ShareEntry, Shares, average, later, parts_of

UNABLE_TO_START = frozenset(
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
"""The reasons of gangs that couldn't start in their turn, and so don't count against the gangs behind them."""

MINUTE = 60.0
"""Seconds after which the decay of past use changes the order, although nothing has happened."""

MOST_USERS = 200
"""The most users of a queue whose past use its status keeps: those with the largest use."""

WHOLE = ""
"""Stands for all users of a queue; no digest is empty."""

UNKNOWN = ""
"""Stands for a user that isn't known, and so holds nothing."""


class FairShares:
    """Ranks queues and users by their present and past use. ``calendar`` returns seconds since the epoch."""

    def __init__(self, settings: Queues, quotas: Quotas, usage: Usage, calendar: Callable[[], float]) -> None:
        self._settings = settings
        self._quotas = quotas
        self._usage = usage
        self._calendar = calendar
        self._half_lives: Mapping[str, float] = {}
        self._settings_seen = -1
        self._names: dict[str, str] = {}
        """Users by their digests."""
        self._past: dict[Group, tuple[float, Mapping[str, float]]] = {}
        """By queue and user: a time, and the past use until then."""
        self._resumed: Mapping[Group, tuple[float, Mapping[str, float]]] = {}
        """The past use that was read from the status of the queues, until it is brought up to date."""
        self.ranking: Ranking | None = None
        """The ranking of the last pass, None if all entitlements were equal."""

    def for_pass(
        self, settings: Queues, quotas: Quotas, usage: Usage, calendar: Callable[[], float]
    ) -> FairShares:
        """Return a copy for a pass. What the pass computes has no effect on this one."""
        copied = copy(self)
        copied._settings, copied._quotas, copied._usage = settings, quotas, usage
        copied._calendar, copied._past = calendar, dict(self._past)
        return copied

    # Past use.

    def follow(self) -> None:
        """Read the present settings of the queues."""
        if self._settings_seen == self._settings.revision:
            return
        self._settings_seen = self._settings.revision
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
        return self._usage.held((queue, self._names.get(user, UNKNOWN) if user else None))

    def take_over(self) -> None:
        """Begin to lead: read the past use from the status of the queues."""
        self._past.clear()
        resumed: dict[Group, tuple[float, Mapping[str, float]]] = {}
        for queue in self._settings.made.values():
            past = queue.status.past
            if past is not None:
                resumed[queue.name, WHOLE] = past.at, past.amounts
                resumed.update(((queue.name, user), (past.at, used)) for user, used in past.users.items())
        self._resumed = resumed

    def resume(self) -> None:
        """Account for the time since the status was written, now that all running gangs have been counted."""
        if not self._resumed:
            return
        resumed, self._resumed = self._resumed, {}
        for group, past in resumed.items():
            self._past[group] = past
            self._advance(group)

    def past(self, queue: str) -> PastUse | None:
        """Return the past use of a queue to keep in its status, None if past use doesn't count."""
        if self.half_life(queue) is None or self._resumed:
            return None
        self._advance((queue, WHOLE))
        at, amounts = self._past[queue, WHOLE]
        users: dict[str, Mapping[str, float]] = {}
        for group in [group for group in self._past if group[0] == queue and group[1]]:
            self._advance(group)
            users[group[1]] = self._past[group][1]
        most = sorted(users, key=lambda user: (-max(users[user].values(), default=0.0), user))[:MOST_USERS]
        return PastUse(at, amounts, {user: users[user] for user in most})

    # The order.

    @property
    def compares(self) -> bool:
        """Whether queues are compared by their present and past use."""
        return any(
            queue.weight is not None or queue.half_life is not None for queue in self._settings.made.values()
        )

    @property
    def active(self) -> bool:
        """Whether entitlements may differ."""
        return self._quotas.active and (self.compares or bool(self._quotas.use.tree.guaranteed))

    @property
    def epoch(self) -> int:
        """A number that changes when the decay of past use may have changed the order."""
        return int(self._calendar() / MINUTE) if self._half_lives else 0

    def entitlements(
        self, waiting: Sequence[Gang], ranks: Mapping[GangKey, Rank]
    ) -> dict[GangKey, Entitlement]:
        """Return the entitlements of waiting gangs, none if all are equal. ``ranks`` has the ranks that are known."""
        self.ranking = None
        if not self.active:
            return {}
        entries, by_key = [], {}
        for gang in waiting:
            place = self._usage.place(gang.key)
            if place is None:
                continue
            key, group = entry_key(gang.key), (place.queue, place.user)
            by_key[key] = gang.key
            asks = NOTHING if place.runs or was_unable_to_start(gang.reason) else place.asks
            entries.append(ShareEntry(key, group, (ranks.get(gang.key) or turn(gang))[2:], asks))
        self.ranking = Ranking(self._quotas.use, self._shares(entries) if self.compares else None)
        return {by_key[key]: entitlement for key, entitlement in self.ranking.rank(entries)}

    def newcomer(self, queue: str, user: str, asks: Resources) -> Entitlement:
        """Return the entitlement of a gang that would be submitted now."""
        return EQUAL if self.ranking is None else self.ranking.entitlement((queue, user), asks)

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
            {name: queue.weight for name, queue in self._settings.queues.items() if queue.weight is not None},
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


def was_unable_to_start(reason: Reason | None) -> bool:
    """Return whether a gang with this reason couldn't start in its turn."""
    return reason is not None and reason.code in UNABLE_TO_START
