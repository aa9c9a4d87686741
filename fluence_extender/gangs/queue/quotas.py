"""The quotas of the cluster's queues, and what gangs hold of them.

A gang counts from its first place on. It counts with all that its members hold, and with the places that it is still
promised. So the quota keeps the share of a member that is lost and created anew; if the new member asks for more, the
quota needs room only for the difference. A gang keeps its places even if the quota shrinks. Each place is charged to
the queue in which its member got it, even if the member's labels or owners name another gang or queue later.

Invariants: if no queue has a quota, nothing is counted or computed. Gangs are counted as of the last look at them,
and a gang that gets its places counts at once, so no quota is exceeded within a step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy

from fluence_extender.gangs.membership.assembly import foreign_gates
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.queue.settings import Queues
from fluence_extender.gangs.queue.usage import Place, Usage
from fluence_extender.model.names import RESOURCE_PREFIX
from fluence_extender.model.quantity import written_amount
from fluence_extender.model.reason import Reason, over_quota
from fluence_extender.model.resources import NOTHING, PODS, Resources
from fluence_extender.placement.ranks import rank_key
from fluence_extender.queueing.quota import Excess, QuotaUse
from fluence_extender.queueing.tree import QuotaTree, grow, states_quota
from fluence_extender.room.capacity import CapacityTable
from fluence_extender.room.ledger import Ledger

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
        self._stated = -1
        self._basis: object = None
        self.use = QuotaUse(QuotaTree({}, {}))
        """What the queues use, as of the last `follow`."""
        self._unused: QuotaUse | None = None
        self.active = False
        self.version = 0

    def follow(self) -> None:
        """Read the present settings of the queues, and the capacity of the cluster."""
        if self._stated != self._settings.revision:
            self._stated = self._settings.revision
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
        """How the queues would stand if nothing ran, foreign pods included."""
        if self._unused is None:
            tree = (
                grow(self._settings.queues, self._capacity(self._ledger.whole.now())) if self.active else None
            )
            self._unused = QuotaUse(tree or QuotaTree({}, {}))
        return self._unused

    def _capacity(self, table: CapacityTable) -> dict[str, int]:
        """Return what the nodes of a table have, and the devices of the cluster."""
        amounts = table.free.sum(axis=0).tolist()
        found = {kind: max(amounts[column], 0) for kind, column in table.columns.items()}
        for device in self._ledger.graph.catalogue.devices:
            name = f"{RESOURCE_PREFIX}{device.type}"
            found[name] = found.get(name, 0) + (device.count if device.leaf else 1)
        return found

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
        """Count a gang's holdings ``after`` a change in place of those ``before`` it."""
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
        """Give a function that counts amounts until the end of the context."""
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
        queues = {one.charged for one in _placed(gang)} - {"", queue}
        return tuple(
            (other, Resources.total(one.pod.amounts for one in _placed(gang) if one.charged == other))
            for other in sorted(queues)
        )

    def held(self, gang: Gang, queue: str, before: Place | None) -> Resources:
        """Return what a gang of ``queue`` holds of that queue's quota."""
        if not self.active:
            return NOTHING
        found = Resources.total(one.pod.amounts for one in _charged(gang, queue))
        if not gang.must_be_completed:
            return found
        if before is None or not before.held:
            lacking = gang.placeless()
            placed = sum(1 for one in _placed(gang) if one.alive)
            lacking = lacking[: max(gang.size - placed - gang.ended, 0)]
            return found + Resources.total(one.pod.amounts for one in lacking)
        return Resources({kind: max(found[kind], before.held[kind]) for kind in {*found, *before.held}})

    def asks(self, gang: Gang) -> Resources:
        """Return what a gang that holds nothing asks for: as many of its members as make it whole."""
        if not self.active:
            return NOTHING
        size, ready = max(gang.size - gang.ended, 1), gang.pending()
        if len(ready) > size:
            ready = [one for one in ready if not foreign_gates(one.pod)]
            ready.sort(key=lambda one: rank_key(one.pod))
        return Resources.total(one.pod.amounts for one in ready[:size])

    def fitting(
        self, gang: Gang, ready: Sequence[Member], fewest: int, place: Place
    ) -> tuple[int, Reason | None]:
        """Return for how many of the ``ready`` members of a gang its quota has room, and why not for more.

        The ``fewest`` of them need room together, so it is 0 if they have none.
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
                *(one.pod.amounts for one in _charged(gang, place.queue)),
                *(one.pod.amounts for one in members),
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
    """Return the members that hold something; a member that is being deleted does until its containers have ended."""
    return [
        one
        for one in gang.members.values()
        if not one.pod.finished and (one.pod.node or (one.assignment is not None and one.alive))
    ]


def _charged(gang: Gang, queue: str) -> list[Member]:
    """Return the members of a gang of ``queue`` whose places are charged to it: those whose record names no other."""
    return [one for one in _placed(gang) if one.charged in ("", queue)]


def excess_reason(excess: Excess, queue: str, asks: Resources) -> Reason:
    """Return why a gang of a queue waits that asks for so much, and would exceed a limit."""
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
