"""What the gangs of each queue and user use: how many run and wait, what they hold, and what of it counts for quotas.

A gang counts as running from its first place on, and as waiting before. Waiting gangs are kept in the order of their
creation, because a queue that takes a limited number of them takes the oldest.

**Quotas.** A gang counts with all that its members hold, and with the places that are still kept for lost members. So
the quota keeps the amounts of a member that is lost and created anew. If the new member asks for more, the quota needs
room only for the difference. A gang keeps its places even if the quota shrinks. Each place is charged to the queue in
which its member got it, even if the member's labels or owners name another gang or queue later.

Invariants: if no queue has a quota, nothing is counted or computed. Gangs are counted as of the last look at them,
and a gang that gets its places counts at once. So no quota is exceeded within a step.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from typing import TypeVar

from immutables import Map

from fluence_extender.gangs.membership.gang import Gang, Member, foreign_gates
from fluence_extender.gangs.queue.settings import Queues
from fluence_extender.model.gang import GangKey
from fluence_extender.model.names import RESOURCE_PREFIX
from fluence_extender.model.quantity import written_amount
from fluence_extender.model.reason import Reason, over_quota
from fluence_extender.model.resources import NOTHING, PODS, Resources
from fluence_extender.placement.ranks import rank_key
from fluence_extender.queueing.entry import NEVER, Age
from fluence_extender.queueing.quota import Excess, QuotaTree, QuotaUse, grow, states_quota
from fluence_extender.room.capacity import CapacityTable
from fluence_extender.room.ledger import Ledger

# What runs and waits.

Group = tuple[str, str | None]
"""A queue and one of its users; None stands for all users of the queue."""

Ordered = TypeVar("Ordered", tuple[float, GangKey], tuple[Age, GangKey])


def _groups(queue: str, user: str) -> tuple[Group, Group]:
    return (queue, None), (queue, user)


@dataclass(frozen=True, slots=True)
class Place:
    """How a gang counts: in which queue, for which user, and whether it ``runs``.

    ``created`` orders waiting gangs. ``held`` is what the gang holds of its queue's quota. ``asks`` is what it asks for
    while it waits. Both are empty unless some queue has a quota or a weight. Members that got their places in other
    queues are charged to these: ``elsewhere`` has those queues, and what such members hold. ``beyond`` is how many more
    members have places than when the gang began; each counts as one more running gang. ``end`` is when all members have
    ended, by their declared ends. It is `NEVER` if that isn't known, or if no queue keeps capacity for itself.
    """

    queue: str
    user: str
    runs: bool
    created: Age
    held: Resources = NOTHING
    asks: Resources = NOTHING
    elsewhere: tuple[tuple[str, Resources], ...] = ()
    beyond: int = 0
    end: float = NEVER

    @property
    def groups(self) -> tuple[Group, Group]:
        """The groups in which the gang counts."""
        return _groups(self.queue, self.user)

    @property
    def holdings(self) -> tuple[tuple[str, Resources], ...]:
        """The queues to which its members are charged, and what is charged to each."""
        return ((self.queue, self.held), *self.elsewhere) if self.held else self.elsewhere


@dataclass(slots=True)
class Usage:
    """The gangs that run and wait, by queue and user.

    ``revision`` grows with each change. ``held_revision`` grows when what gangs hold has changed, or when they end. The
    list ``ending`` has the known ends of gangs, in order.
    """

    revision: int = 0
    held_revision: int = 0
    ending: list[tuple[float, GangKey]] = field(default_factory=list)
    _places: Map[GangKey, Place] = field(default_factory=Map)
    _running: Counter[Group] = field(default_factory=Counter)
    _held: dict[Group, Resources] = field(default_factory=dict)
    _waiting: dict[Group, list[tuple[Age, GangKey]]] = field(default_factory=dict)

    def copy(self) -> Usage:
        """Return an independent copy."""
        return Usage(
            self.revision,
            self.held_revision,
            list(self.ending),
            self._places,
            self._running.copy(),
            dict(self._held),
            {group: waiting.copy() for group, waiting in self._waiting.items()},
        )

    def put(self, key: GangKey, place: Place | None) -> None:
        """Count a gang as it is now; ``place`` is None if it neither runs nor waits now."""
        before = self._places.get(key)
        if before == place:
            return
        self.revision += 1
        if before is not None:
            self._count(key, before, -1)
        if place is not None:
            self._count(key, place, 1)
        self._places = self._places.delete(key) if place is None else self._places.set(key, place)

    def place(self, key: GangKey) -> Place | None:
        """Return how a gang counts, None if it doesn't count."""
        return self._places.get(key)

    def running(self, group: Group) -> int:
        """Return how many gangs run, and how many more members have places than when their gangs began."""
        return self._running[group]

    def held(self, group: Group) -> Resources:
        """Return what the gangs of the group hold."""
        return self._held.get(group, NOTHING)

    def waiting(self, group: Group) -> int:
        """Return how many gangs wait."""
        return len(self._waiting.get(group, ()))

    def queues(self) -> set[str]:
        """Return the queues in which gangs run or wait, or to which places are charged."""
        return {queue for queue, user in (*self._running, *self._waiting, *self._held) if user is None}

    def are_older(self, key: GangKey, group: Group, count: int) -> bool:
        """Return whether ``count`` waiting gangs of the group are older than this one, which is the youngest if new."""
        place, waiting = self._places.get(key), self._waiting.get(group, ())
        return len(waiting) >= count and (place is None or waiting[count - 1] < (place.created, key))

    def _count(self, key: GangKey, place: Place, sign: int) -> None:
        """Add a gang to all sums and lists, or take it out with a ``sign`` of -1."""
        self.held_revision += bool(place.holdings)
        if place.end < NEVER:
            _put_in(self.ending, (place.end, key), sign)
        for queue, amounts in place.holdings:
            for group in _groups(queue, place.user):
                before = self.held(group)
                self._held[group] = before + amounts if sign > 0 else before - amounts
                if not self._held[group]:
                    del self._held[group]
        for group in place.groups:
            if place.runs:
                self._running[group] += sign * (1 + place.beyond)
                if not self._running[group]:
                    del self._running[group]
                continue
            waiting = self._waiting.setdefault(group, [])
            _put_in(waiting, (place.created, key), sign)
            if not waiting:
                del self._waiting[group]


def _put_in(line: list[Ordered], entry: Ordered, sign: int) -> None:
    """Put an entry in a sorted list, or take it out with a ``sign`` of -1."""
    if sign > 0:
        insort(line, entry)
    else:
        del line[bisect_left(line, entry)]


# Quotas.

Take = Callable[[str, Mapping[str, int], int], None]
"""Counts amounts as used by a queue, or as released with the sign -1."""


class Quotas:
    """Judges gangs by the quotas in ``settings``; ``usage`` has what gangs hold.

    ``version`` grows whenever a queue may have room for more than before.
    """

    def __init__(self, settings: Queues, usage: Usage, ledger: Ledger) -> None:
        self._settings = settings
        self._usage = usage
        self._ledger = ledger
        self._room = ledger.without_foreign
        self._settings_seen = -1
        self._basis: object = None
        self.use = QuotaUse(QuotaTree({}, {}))
        """What the queues use, as of the last `follow`."""
        self._unused: QuotaUse | None = None
        self.active = False
        self.version = 0

    def follow(self) -> None:
        """Read the present settings of the queues, and the capacity of the cluster."""
        if self._settings_seen != self._settings.revision:
            self._settings_seen = self._settings.revision
            self.active = states_quota(self._settings.made.values())
            self._basis = None
        if not self.active:
            # Ends aren't counted from now on, so the old counts must not be used again.
            self.use, self._unused = QuotaUse(QuotaTree({}, {})), None
            return
        room = self._room.now()
        basis = self._room.revision, self._ledger.graph.catalogue
        if self._basis == basis:
            return
        self._basis, self._unused = basis, None
        tree = grow(self._settings.queues, self._capacity(room))
        if tree != self.use.tree:
            self.use = QuotaUse(tree)
            for queue in self._usage.queues():
                self.use.add(queue, self._usage.held((queue, None)))
            self.version += 1

    def for_pass(self, settings: Queues, usage: Usage) -> Quotas:
        """Return a copy for a pass, which counts in ``usage`` what it decides without an effect on this one."""
        copied = copy(self)
        copied._settings, copied._usage = settings, usage
        copied.use, copied._unused = self.use.copy(), self.unused
        return copied

    @property
    def unused(self) -> QuotaUse:
        """The use of the queues if nothing ran, not even foreign pods."""
        if self._unused is None:
            tree = (
                grow(self._settings.queues, self._capacity(self._ledger.whole.now())) if self.active else None
            )
            self._unused = QuotaUse(tree or QuotaTree({}, {}))
        return self._unused

    def _capacity(self, table: CapacityTable) -> dict[str, int]:
        """Return what the nodes of a table have, and the devices of the cluster."""
        amounts = table.free.sum(axis=0).tolist()
        capacity = {kind: max(amounts[column], 0) for kind, column in table.columns.items()}
        for device in self._ledger.graph.catalogue.devices:
            name = f"{RESOURCE_PREFIX}{device.type}"
            capacity[name] = capacity.get(name, 0) + (device.count if device.leaf else 1)
        return capacity

    @property
    def keeps(self) -> bool:
        """Whether a queue keeps something for itself even while it doesn't use it."""
        return self.active and bool(self.use.tree.kept)

    def account(self, queue: str) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Return the amounts that a queue uses, and those that it borrows of them, as quantities."""
        used, tree = self.use.used(queue), self.use.tree
        kinds = {*used, *tree.branch(queue).guaranteed, *tree.branch(queue).limit}
        shown = sorted(kind for kind in kinds if kind != PODS or kind in tree.ruled)
        borrowed = self.use.borrowed(queue)
        return (
            {kind: written_amount(kind, used.get(kind, 0)) for kind in shown},
            {kind: written_amount(kind, borrowed[kind]) for kind in sorted(borrowed)},
        )

    def problems(self, queue: str) -> Sequence[str]:
        """Return the problems of a queue's quota: each names a setting that isn't in force as written, and says why."""
        return self.use.tree.problems.get(queue, ()) if self.active else ()

    def moved(self, before: Place | None, after: Place | None) -> None:
        """Count what a gang holds ``after`` a change, and not what it held ``before``."""
        if not self.active:
            return
        for queue, amounts in () if before is None else before.holdings:
            self.use.add(queue, amounts, -1)
            if not amounts.fits(dict(after.holdings if after is not None else ()).get(queue, NOTHING)):
                self.version += 1
        for queue, amounts in () if after is None else after.holdings:
            self.use.add(queue, amounts)

    @contextmanager
    def pretending(self) -> Iterator[Take]:
        """Yield a function that counts amounts; what it has counted is undone at the end of the context."""
        taken: list[tuple[str, Mapping[str, int], int]] = []

        def take(queue: str, amounts: Mapping[str, int], sign: int) -> None:
            self.use.add(queue, amounts, sign)
            taken.append((queue, amounts, sign))

        try:
            yield take
        finally:
            for queue, amounts, sign in taken:
                self.use.add(queue, amounts, -sign)

    def elsewhere(self, gang: Gang, queue: str) -> tuple[tuple[str, Resources], ...]:
        """Return the amounts that members of a gang of ``queue`` hold of the quotas of other queues."""
        if not self.active:
            return ()
        queues = {member.charged for member in _placed(gang)} - {"", queue}
        return tuple(
            (
                other,
                Resources.total(member.pod.amounts for member in _placed(gang) if member.charged == other),
            )
            for other in sorted(queues)
        )

    def held(self, gang: Gang, queue: str, before: Place | None) -> Resources:
        """Return what a gang of ``queue`` holds of that queue's quota."""
        if not self.active:
            return NOTHING
        held = Resources.total(member.pod.amounts for member in _charged(gang, queue))
        if not gang.must_be_completed:
            return held
        if before is None or not before.held:
            lacking = gang.placeless()
            placed = sum(1 for member in _placed(gang) if member.alive)
            lacking = lacking[: max(gang.size - placed - gang.ended, 0)]
            return held + Resources.total(member.pod.amounts for member in lacking)
        return Resources({kind: max(held[kind], before.held[kind]) for kind in {*held, *before.held}})

    def asks(self, gang: Gang) -> Resources:
        """Return what a gang that holds nothing asks for: as many of its members as make it whole."""
        if not self.active:
            return NOTHING
        size, ready = max(gang.size - gang.ended, 1), gang.pending()
        if len(ready) > size:
            ready = [member for member in ready if not foreign_gates(member.pod)]
            ready.sort(key=lambda one: rank_key(one.pod))
        return Resources.total(member.pod.amounts for member in ready[:size])

    def fitting(
        self, gang: Gang, ready: Sequence[Member], fewest: int, place: Place
    ) -> tuple[int, Reason | None]:
        """Return for how many of the ``ready`` members of a gang its quota has room, and why not for more.

        The ``fewest`` of them need room together. If they have none, the number is 0.
        """
        if not self.active:
            return len(ready), None
        together = ready[:fewest]
        more = self.more(gang, together, place)
        count, excess = 0, self.use.excess(place.queue, more)
        if excess is None:
            count = len(together)
            for member in ready[fewest:]:
                for kind, amount in member.pod.amounts.items():
                    if kind in more:
                        more[kind] += amount
                excess = self.use.excess(place.queue, more)
                if excess is not None:
                    break
                count += 1
        if excess is None:
            return count, None
        return count, excess_reason(excess, place.queue, Resources.total(one.pod.amounts for one in together))

    def allows(
        self,
        gang: Gang,
        members: Sequence[Member],
        place: Place,
        freed: Iterable[tuple[str, Resources]] = (),
    ) -> bool:
        """Return whether there is room for ``members`` of a gang once queues have ``freed`` these amounts."""
        if not self.active:
            return True
        with self.pretending() as take:
            for queue, amounts in freed:
                take(queue, amounts, -1)
            return self.has_room(place.queue, self.more(gang, members, place))

    def more(self, gang: Gang, members: Iterable[Member], place: Place) -> dict[str, int]:
        """Return by how much a gang's places, with some for ``members``, exceed the amounts that are counted for it.

        Each pod may name resources of its own, so only resources with a quota count.
        """
        held = Resources.total(
            (
                *(member.pod.amounts for member in _charged(gang, place.queue)),
                *(member.pod.amounts for member in members),
            )
        )
        return {kind: held[kind] - place.held[kind] for kind in self.use.tree.ruled}

    def obstacle(self, queue: str, requests: Resources) -> Reason | None:
        """Return why a gang without places that asks for ``requests`` would exceed a limit, None if it wouldn't."""
        excess = self.use.excess(queue, requests) if self.active else None
        return None if excess is None else excess_reason(excess, queue, requests)

    def has_room(self, queue: str, more: Mapping[str, int]) -> bool:
        """Return whether a queue may use ``more``: it stays within all limits, and takes nothing that others keep."""
        return self.use.excess(queue, more) is None and self.use.lacking(queue, more) is None


def _placed(gang: Gang) -> list[Member]:
    """Return the members that hold something. One that is being deleted does so until its containers have ended."""
    return [
        member
        for member in gang.members.values()
        if not member.pod.finished and (member.pod.node or (member.assignment is not None and member.alive))
    ]


def _charged(gang: Gang, queue: str) -> list[Member]:
    """Return the members of a gang of ``queue`` whose places are charged to it: those whose record names no other."""
    return [member for member in _placed(gang) if member.charged in ("", queue)]


def excess_reason(excess: Excess, queue: str, asks: Resources) -> Reason:
    """Return why a gang of a queue waits that ``asks`` for so much, and so would exceed a limit."""
    kind = excess.resource
    most, wanted = (f"{written_amount(kind, amount)} {kind}" for amount in (excess.most, asks[kind]))
    whose = (
        f"queue {queue}"
        if excess.queue == queue
        else f"queue {excess.queue}, which queue {queue} is part of,"
    )
    limit = f"{whose} may use {most} (limit.{kind})"
    if asks[kind] > excess.most:
        return over_quota(f"{limit}, and this gang asks for {wanted}; ask for less, or name another queue")
    return over_quota(
        f"{limit}, and with the {wanted} of this gang it would use more; "
        "it starts when enough comes back: wait, ask for less, or name another queue"
    )
