"""When a pass is due, and what becomes of its decisions.

A pass decides on a view while the event loop goes on. So a decision is carried out only if it still holds: the gang is
as it was, and its nodes still have the room. Otherwise the gang is planned again at once.

Reservations are only plans: the ledger holds nothing for them. So they can be lost at any time, and they are found anew
from the cluster's state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, fields
from operator import attrgetter

from fluence_extender.gangs.lifecycle.places import Places
from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.gangs.membership.workloads import WorkloadIndex, owner_topology
from fluence_extender.gangs.planning.reservations import Blocked
from fluence_extender.gangs.planning.view import Decided, LiveParts, Plan, View, Views
from fluence_extender.gangs.queue.book import is_blocked, shown_time
from fluence_extender.gangs.queue.submissions import RANK, ToTry, declared, unlike, waits
from fluence_extender.model.accounting import MovedStart
from fluence_extender.model.gang import GangKey, HistoryKind
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason
from fluence_extender.queueing.entry import NEVER, Entitlement, Rank, Reservation

IGNORED = {"resource_version", "nominated", "refusal", "undecided", "failure", "told"}
"""The fields of a pod on which no pass depends: kube-scheduler and we report in them while the pod waits."""

# The fields of gangs, members and pods on which a pass depends.
OF_GANG = attrgetter("size", "queue", "back_off.until", "was_complete", "obstacle", "asks_since")
OF_MEMBER = attrgetter("bound", "binding", "assignment", "record", "refusals.excluded")
OF_POD = attrgetter(*(one.name for one in fields(Pod) if one.compare and one.name not in IGNORED))

DEFERRED_AT_ONCE = 512
"""The most gangs that one pass tries because earlier passes have deferred them."""

RECOUNTED_AFTER = 5.0
"""Seconds after a gang got places until all others are tried again, to tell how many of their members still fit."""

TOLD_AT_ONCE = 500
"""The most gangs that get only another reason in one step, so that other work has its turn between steps."""


@dataclass(frozen=True, slots=True)
class _State:
    """Revisions of the ledger and the nodes.

    While they stay the same, the decisions of a pass hold for all gangs that haven't changed.
    """

    version: int
    ledger_journal: int
    node_journal: int
    held_nodes: int
    claim_rooms: int
    placed_pods: int


@dataclass(frozen=True, slots=True)
class _Begun:
    """A pass that has begun: the gangs that were ``looked_at`` before it, and what the cluster was like then.

    If `Passes._present` differs from ``basis``, room may have grown since. If ``state`` is the same, nothing that a
    decision depends on has changed.
    """

    looked_at: Set[GangKey]
    basis: object
    state: _State


@dataclass(frozen=True, slots=True)
class _Since:
    """Whether ``anything`` has happened since a pass began, and on which ``nodes``, None if it could be any node."""

    anything: bool
    nodes: set[str] | None


class Passes:
    """Takes views for passes over the gangs in line, and carries out what they decide."""

    def __init__(self, parts: LiveParts, places: Places) -> None:
        self._parts = parts
        self._places = places
        self._views = Views(parts)
        self._begun: _Begun | None = None
        """The pass under way, None if there is none."""
        self._void = False
        """Whether the plan of the pass under way is thrown away."""
        self._basis: object = None
        """What `_present` returned when the last pass began, None if all gangs have to be tried."""
        self._cut: Rank | None = None
        """Where the last pass cut the line."""
        self._journal_seen = -1
        """The end of the ledger's journal when the last plan was applied."""
        self._ends_seen = -1
        """The revision of the known ends when `begin` was last called while no pass was under way."""
        self._last_begun = 0.0
        """When a pass last began while no deferred gangs were left to try."""
        self._placed_at = NEVER
        """When a gang first got places since all gangs were last tried, `NEVER` if none did."""
        self._deferred: list[GangKey] = []
        """The gangs that passes have deferred to the next ones."""
        self._looked_at: set[GangKey] = set()
        """The gangs that were looked at since the last pass began."""
        self._new_reasons: list[tuple[GangKey, Reason]] = []
        """Gangs for which the last pass has found only another reason, which they don't have yet."""
        self._new_entitlements: list[tuple[GangKey, Entitlement]] = []
        """Gangs for which it has found another entitlement, which they don't have yet."""

    @property
    def restless(self) -> bool:
        """Whether a pass is wanted at once: gangs were looked at or deferred, or room may have grown since the last."""
        if self._begun is not None:
            return False
        return bool(self._looked_at or self._deferred) or self._grew(self._present())

    @property
    def unfinished(self) -> bool:
        """Whether gangs don't have the reasons and entitlements yet that the last pass has found."""
        return bool(self._new_reasons or self._new_entitlements)

    def untried_for(self, now: float) -> float:
        """Return for how many seconds gangs have waited for a pass that is due."""
        return now - self._last_begun if self._begun is not None or self.restless else 0.0

    def _present(self) -> tuple[object, ...]:
        """Return a value that changes whenever room may have grown, except by the end of a reservation."""
        parts, queue = self._parts, self._parts.queue
        return (
            parts.ledger.version,
            queue.settings.revision,
            queue.admission.version,
            queue.admission.quotas.version,
            queue.lost_reservations,
            queue.admission.shares.epoch,
            queue.closed.over(),
        )

    def _grew(self, present: object) -> bool:
        """Return whether all gangs have to be tried: room may have grown since the last pass, or reasons are old.

        Room also grows by what isn't reserved any more.
        """
        queue = self._parts.queue
        moved = self._ends_seen != queue.known_ends.revision
        # A pod that has not ended when it should have is expected to end later.
        overrun = queue.cluster is not None and queue.cluster.timeline.overruns(queue.now())
        dropped = any(queue.turns.find(blocked.key) is None for blocked in queue.blocked)
        recount = bool(queue.turns.ready) and queue.now() >= self._placed_at + RECOUNTED_AFTER
        # The pass has cut the line by the entitlements that it found, which the gangs may not have yet.
        cut = not self._new_entitlements and self._cut != queue.cut()
        return (
            self._basis != present
            or (bool(queue.blocked) and (moved or overrun))
            or dropped
            or recount
            or cut
        )

    def note(self, looked_at: Set[GangKey]) -> None:
        """Note gangs that were looked at, and may have changed."""
        self._looked_at |= looked_at
        self._parts.queue.put_in_line(looked_at)

    def begin(self, now: float) -> View | None:
        """Return the view for a pass if one is due; its plan has to be applied or dropped before the next one."""
        if self._begun is not None:
            return None
        parts, queue = self._parts, self._parts.queue
        present = self._present()
        # A gang isn't tried during its back-off. When that is over, its timer has it looked at again.
        looked_at = {key for key in self._looked_at if not self._backs_off(key, now)}
        grew = self._grew(present)
        if self._deferred and not grew:
            looked_at.update(key for key in self._deferred[:DEFERRED_AT_ONCE] if key in parts.registry.gangs)
            del self._deferred[:DEFERRED_AT_ONCE]
        due = [] if grew else self._due(looked_at, now)
        # Each gang that has changed may change the order of all, also if a rule keeps it waiting.
        reorders = queue.admission.shares.active
        if due or grew or (looked_at and reorders):
            queue.admission.shares.resume()
            everyone = grew or reorders
            try:
                view = self._views.take(queue.turns.ready.copy() if everyone else due, grew, now)
            except Exception:
                # Some changes may be taken but not copied yet, so the next view copies everything.
                self._views = Views(parts)
                raise
            self._begun = _Begun(looked_at, present, self._state())
            if not self._deferred:
                self._last_begun = now
        else:
            view = None
            queue.untried -= looked_at
        self._looked_at, self._ends_seen = set(), queue.known_ends.revision
        return view

    def simulation_view(self, now: float) -> View:
        """Return a view without gangs in line, for a simulation."""
        self.follow()
        return self._views.for_simulation(now)

    def follow(self) -> None:
        """Take in what has changed, so that the next view has less to copy."""
        if self._begun is None:
            self._views.follow()

    def _backs_off(self, key: GangKey, now: float) -> bool:
        gang = self._parts.registry.gangs.get(key)
        return gang is not None and gang.back_off.until > now

    def _due(self, looked_at: Set[GangKey], now: float) -> list[ToTry]:
        """Return, in order, the blocked gangs and those that have to be tried although room has only shrunk."""
        queue = self._parts.queue
        places = filter(None, map(queue.turns.find, looked_at))
        keys = {
            place.gang.key
            for place in places
            if (place.gang.key in queue.untried or place.gang.again_at <= now)
            and place.gang.key not in self._parts.registry.dirty
        }
        if not keys and not (queue.blocked and self._parts.ledger.journal.now != self._journal_seen):
            return []
        keys.update(blocked.key for blocked in queue.blocked)
        due = ((key, queue.turns.find(key)) for key in keys)
        return sorted((ToTry(place.rank, key) for key, place in due if place is not None), key=RANK)

    # Applying.

    def drop(self) -> None:
        """Drop the pass that is over, so that another one is due."""
        if self._begun is not None:
            self._looked_at |= self._begun.looked_at
        self._begun = self._basis = None
        self._void = False

    def void(self) -> None:
        """Throw away the plan of a pass under way once it is made, because its view was taken in an earlier term."""
        self._void = self._begun is not None

    def apply(self, plan: Plan, now: float) -> set[GangKey]:
        """Carry out what a pass has decided, as far as it still holds; return the gangs that have changed."""
        parts, queue, begun, view = self._parts, self._parts.queue, self._begun, plan.view
        assert begun is not None, "a plan is applied once, after the pass was begun"
        if self._void:
            self.drop()
            return set()
        self._begun = None
        ledger_unchanged = parts.ledger.journal.now == begun.state.ledger_journal
        changed = self._changed_since(view)
        # The pass hasn't tried gangs that had to be looked at again when the view was taken.
        looked_at = begun.looked_at - view.unevaluated
        done = {key for key in queue.untried if key in plan.tried or key in looked_at}
        queue.untried.difference_update(done - plan.skipped - changed - self._looked_at)
        queue.untried.update(plan.deferred)
        self._deferred = [*plan.deferred, *(() if view.grew else self._deferred)]
        # Reasons that an earlier pass has found still go to their gangs, except to those that this pass has tried.
        still_right = (pair for pair in self._new_reasons if pair[0] not in plan.tried)
        self._new_reasons = [*(pair for pair in plan.explained if pair[0] not in changed), *still_right]
        self._new_entitlements, self._cut = list(plan.entitled), plan.cut
        for key in plan.postponed:
            if key in parts.registry.gangs:
                parts.registry.dirty.postpone(key)
        for namespace, members in plan.large:
            parts.large.pace.spend(namespace, members)
        self._learn(view)
        since = self._since(begun)
        some_undone = False
        for decided in plan.decided:
            if decided.key in changed:
                parts.registry.look_at({decided.key})
                some_undone = True
            elif not self._carry_out(decided, since, now):
                some_undone = True
        before = [blocked for blocked in view.ends.blocked.values() if blocked.key in parts.registry.gangs]
        queue.blocked = [blocked for blocked in plan.blocked if blocked.key in parts.registry.gangs]
        queue.cluster = plan.cluster
        # What has happened on nodes during the pass may be in the way of reservations.
        self._journal_seen = parts.ledger.journal.now if ledger_unchanged else begun.state.ledger_journal
        if view.grew:
            self._placed_at = NEVER
        if any(decided.placed for decided in plan.decided):
            self._placed_at = min(self._placed_at, queue.now())
            # Nothing is reserved for gangs that limits of their queues now keep from starting.
            some_undone = some_undone or queue.reserves_in_vain()
        self._record_starts(before, queue.blocked, now)
        # Gangs behind may use what a gang was given in vain, or what a lost reservation has kept free.
        freed = some_undone or (not view.grew and _is_lost(before, plan.blocked))
        self._basis = None if freed or plan.unsettled else begun.basis
        return {decided.key for decided in plan.decided}

    def _state(self) -> _State:
        """Return the present revisions."""
        ledger, eligibility = self._parts.ledger, self._parts.planner.eligibility
        return _State(
            version=ledger.version,
            ledger_journal=ledger.journal.now,
            node_journal=eligibility.journal.now,
            held_nodes=ledger.held_nodes.revision,
            claim_rooms=ledger.claim_rooms.revision,
            placed_pods=ledger.kept_apart.placed.revision,
        )

    def _since(self, begun: _Begun) -> _Since:
        """Return what has happened in the cluster since a pass began."""
        before, present = begun.state, self._state()
        if before == present:
            return _Since(False, set())
        taken = self._parts.ledger.journal.since(before.ledger_journal)
        changed = self._parts.planner.eligibility.journal.since(before.node_journal)
        is_known = taken is not None and changed is not None and before.held_nodes == present.held_nodes
        return _Since(True, {*(taken or ()), *(changed or ())} if is_known else None)

    def _changed_since(self, view: View) -> Set[GangKey]:
        """Return the gangs that have changed since a view was taken, in what a pass depends on."""
        registry, viewed, settings = self._parts.registry, view.registry, self._parts.queue.settings
        restated = registry.workloads.revision != viewed.workloads.revision
        # A gang that changed settings concern is looked at again, and its decision may break a limit now.
        settings_changed = settings.revision != view.queues.settings.revision
        return {
            *registry.dirty,
            *(
                key
                for key in registry.uncopied
                if (gang := registry.gangs.get(key)) is None
                or (copied := viewed.gangs.get(key)) is None
                or settings_changed
                or not _is_same(gang, copied)
                or (restated and not _asks_the_same(gang, registry.workloads, viewed.workloads))
            ),
        }

    def explain(self, now: float) -> list[Gang]:
        """Give some gangs the entitlements and reasons that the last pass has found; return those with a new reason."""
        registry, queue = self._parts.registry, self._parts.queue
        for key, entitlement in self._new_entitlements[:TOLD_AT_ONCE]:
            gang = registry.gangs.get(key)
            if gang is not None:
                gang.entitlement = entitlement
                queue.turns.put(gang)
        del self._new_entitlements[:TOLD_AT_ONCE]
        explained = []
        for key, reason in self._new_reasons[:TOLD_AT_ONCE]:
            gang = registry.gangs.get(key)
            # The next pass tries a gang that has changed meanwhile.
            if gang is None or key in registry.dirty or key in queue.untried:
                continue
            if gang.again_at < NEVER:
                gang.remember(again_at=NEVER)
            gang.explain(reason, now)
            explained.append(gang)
        del self._new_reasons[:TOLD_AT_ONCE]
        self.follow()
        return explained

    def _learn(self, view: View) -> None:
        """Take over what a pass has found out."""
        queue, placed = self._parts.queue, view.room.facts.kept_apart.placed
        self._parts.quotas.note_refused(view.quotas)
        self._parts.ledger.kept_apart.placed.watch(placed)
        queue.reclaims.learn(view.queues.reclaims)
        queue.admission.shares.ranking = view.queues.admission.shares.ranking

    def _carry_out(self, decided: Decided, since: _Since, now: float) -> bool:
        """Carry out a decision if its nodes still have room; return whether they have."""
        parts, after = self._parts, decided.after
        gang = parts.registry.gangs.get(decided.key)
        if gang is None:
            return False
        gang.remember(again_at=after.again_at)
        if decided.became_whole:
            gang.note(HistoryKind.WHOLE, "", decided.became_whole)
        if decided.withdrawn:
            self._places.withdraw(gang)
        failed = self._give(gang, decided, since, now) if decided.placed else None
        if decided.again or failed is not None:
            parts.registry.dirty.add(gang.key)
        gang.explain(failed or after.reason, now)
        for considered in decided.considered:
            parts.preemption.decide(gang, considered, now)
        if gang.reason is not None:
            gang.forget_first_change()
        if not waits(gang):
            gang.remember(starts_about=None)
        if decided.placed:
            parts.queue.admission.note(gang)
            parts.quotas.note(gang)
        return failed is None

    def _give(self, gang: Gang, decided: Decided, since: _Since, now: float) -> Reason | None:
        """Give members the places that were decided, or others on these nodes; return why there are none."""
        members = [gang.members[member.pod.uid] for member in decided.placed]
        places = [member.assignment for member in decided.placed if member.assignment is not None]
        nodes = {place.node for place in places}
        # Rules about other pods, claims, devices and ports may depend on what happened on other nodes.
        wide = any(
            member.pod.ruled or member.pod.claims or member.pod.devices or member.pod.host_ports
            for member in members
        )
        stands = not (since.anything and wide) and since.nodes is not None and since.nodes.isdisjoint(nodes)
        if stands:
            return self._places.give(gang, members, places)
        if since.nodes is not None:
            since.nodes.update(nodes)
        return self._places.plan(gang, members, now, within=nodes)

    # Expected starts.

    def _record_starts(self, before: Sequence[Blocked], blocked: Sequence[Blocked], now: float) -> None:
        """Record when ``blocked`` gangs are expected to start, and which of them start later than ``before``."""
        queue, registry = self._parts.queue, self._parts.registry
        present = {one.key: one for one in blocked}
        for old in before:
            new = present.get(old.key)
            if old.reservation is None or (new is not None and new.alike != old.alike):
                continue
            gang = registry.gangs[old.key]
            start = NEVER if new is None or new.reservation is None else new.reservation.start
            if new is None or new.reservation is None:
                gang.remember(starts_about=None)
            if start > old.reservation.start and waits(gang) and is_blocked(gang):
                self._record_delay(gang, old.reservation, start)
        earlier = {one.key: one for one in before}
        for one in blocked:
            reservation, gang = one.reservation, registry.gangs[one.key]
            at = one.looks_again_at(queue.now(), queue.settings.policy.starvation_after)
            if queue.now() < at < NEVER:
                gang.remember(again_at=min(gang.again_at, now + at - queue.now()))
            if reservation is not None:
                self._record_start(gang, reservation, earlier)

    def _record_start(self, gang: Gang, reservation: Reservation, earlier: Mapping[GangKey, Blocked]) -> None:
        """Record when a gang is expected to start, if that is known."""
        about = shown_time(reservation.start)
        if about is not None:
            self._parts.registry.revision += gang.starts_about != about
            gang.remember(starts_about=about)
            old = earlier.get(gang.key)
            if old is None or old.reservation is not reservation:
                reserved_starts = gang.memory.reserved_starts.with_first(reservation.start)
                gang.remember(reserved_starts=reserved_starts)

    def _record_delay(self, gang: Gang, reservation: Reservation, start: float) -> None:
        """Record that a gang starts later than its reservation said, at ``start``."""
        if reservation.start != NEVER:
            later = None if start == NEVER else int(start)
            moved = MovedStart(int(self._parts.queue.now()), int(reservation.start), later)
            gang.remember(reserved_starts=gang.memory.reserved_starts.with_move(moved))
        gang.note(HistoryKind.DELAYED, "", "it is expected to start later")
        if start == NEVER:
            gang.remember(starts_about=None)


def _is_lost(before: Iterable[Blocked], after: Iterable[Blocked]) -> bool:
    """Return whether one of the reservations from before is gone."""
    kept = {id(one.reservation) for one in after}
    return any(blocked.reservation is not None and id(blocked.reservation) not in kept for blocked in before)


def _asks_the_same(gang: Gang, workloads: WorkloadIndex, before: WorkloadIndex) -> bool:
    """Return whether the workloads of a gang ask the same for its pods as before."""
    return all(
        owner_topology(workloads, pod) == owner_topology(before, pod)
        and declared(pod, workloads) == declared(pod, before)
        for pod in unlike(member.pod for member in gang.members.values())
    )


def _is_same(gang: Gang, copied: Gang) -> bool:
    """Return whether a gang is still as its copy in what a pass depends on."""
    if OF_GANG(gang) != OF_GANG(copied) or gang.members.keys() != copied.members.keys():
        return False
    for uid, member in gang.members.items():
        before = copied.members[uid]
        if member is before:
            continue
        if OF_MEMBER(member) != OF_MEMBER(before):
            return False
        if member.pod is not before.pod and OF_POD(member.pod) != OF_POD(before.pod):
            return False
    return True
