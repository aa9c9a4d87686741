"""The life of each gang: waiting → planned → committed → bound.

A gang is planned when it is whole; it is committed from the first ungate or Binding on, and then either every member
gets its node or, after a limit, the bound ones are evicted. Bindings can't be taken back, so the rest of a begun gang
is always planned beside what is bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fluence_extender.gangs.actions import Action, Clear, Evict, Steer
from fluence_extender.gangs.announce import announcements
from fluence_extender.gangs.assembly import foreign_gates, gang_size, natural
from fluence_extender.gangs.barrier import Barrier
from fluence_extender.gangs.gang import Gang, Member
from fluence_extender.gangs.limits import Limits
from fluence_extender.gangs.registry import Registry
from fluence_extender.ledger.books import Books
from fluence_extender.ledger.holding import Claim
from fluence_extender.model.gang import Convention, GangKey, GangState
from fluence_extender.model.names import GATE
from fluence_extender.model.reason import Reason, Why, waiting
from fluence_extender.placement.eligibility import refusal
from fluence_extender.placement.plan import Planner, Refused, Wish

SETTLED = (GangState.BOUND, GangState.FINISHED)


class Lifecycle:
    """Drives every gang; see the module docstring. All methods are synchronous."""

    def __init__(
        self,
        registry: Registry,
        books: Books,
        planner: Planner,
        limits: Limits,
        clock: Callable[[], float],
    ) -> None:
        self._registry = registry
        self._books = books
        self._planner = planner
        self._limits = limits
        self._clock = clock
        self._clears: list[Clear] = []
        self._active: set[GangKey] = set()

    # What was seen.

    def pod_changed(self, member: Member) -> None:
        """React to a new state of a pod of ours."""
        pod = member.pod
        if pod.finished:
            self._books.release(pod.uid)
            member.assignment = None
        elif pod.node:
            if member.bound != pod.node or not self._books.holds(pod.uid, pod.node):
                member.assignment = self._books.adopt(pod, self._gang_id(pod.uid), Claim.BOUND)
            member.bound = pod.node
            self._books.strengthen(pod.uid, Claim.BOUND)
        elif pod.deleting:
            if not member.bound:
                self._drop_assignment(member)
        else:
            self._nomination_changed(member)

    def _gang_id(self, uid: str) -> object:
        found = self._registry.member(uid)
        return found[0].key if found is not None else uid

    def _nomination_changed(self, member: Member) -> None:
        """Follow our nomination by level: seen, then seen cleared, means that an attempt there failed."""
        if member.assignment is None or member.bound:
            return
        if member.pod.nominated == member.assignment.node:
            member.nominated = True
        elif member.nominated:
            member.nominated = False
            member.steer_wanted = True
            if member.excused:
                member.excused = False
            else:
                self.refused(member.pod.uid, member.assignment.node)

    def node_changed(self, name: str) -> None:
        """Move members away from a node that they can't be bound to any more, and let everyone try again."""
        self._books.changed()
        node = self._planner.node(name)
        for gang in self._unsettled():
            for member in gang.pending():
                if member.assignment is None or member.assignment.node != name:
                    continue
                if node is None or refusal(member.pod, node) is not None:
                    self._replan(gang, member)

    def refused(self, uid: str, node: str) -> None:
        """Take note that an attempt to put the pod on its planned node failed outside."""
        found = self._registry.member(uid)
        if found is None:
            return
        gang, member = found
        if member.bound or member.assignment is None or member.assignment.node != node:
            return
        now = self._clock()
        if member.refusals and now - member.refused_last < self._limits.same_attempt:
            return
        member.refusals += 1
        member.refused_last = now
        if member.refusals == 1:
            member.refused_first = now
        patient = now - member.refused_first >= self._limits.refusal_patience
        if member.refusals >= self._limits.same_node_tries and patient:
            member.barred[node] = now + self._limits.barred_for
            self._replan(gang, member)

    def bound(self, uid: str, node: str) -> None:
        """Take note that our Binding was accepted."""
        found = self._registry.member(uid)
        if found is None:
            return
        gang, member = found
        member.bound = node
        self._books.strengthen(uid, Claim.BOUND)
        self._registry.dirty.add(gang.key)

    def excuse(self, uid: str) -> None:
        """Our own bind refused the pod: the failed attempt says nothing about the node."""
        found = self._registry.member(uid)
        if found is not None:
            found[1].excused = True

    def steer_failed(self, uid: str) -> None:
        """A steer didn't reach the cluster: it is to be done again."""
        found = self._registry.member(uid)
        if found is not None and found[1].assignment is not None and not found[1].bound:
            found[1].steer_wanted = True
            self._registry.dirty.add(found[0].key)

    def committing(self, gang: Gang) -> None:
        """The first Binding is about to go out: from now on the gang's share is its own."""
        for member in gang.members.values():
            if member.assignment is not None:
                self._books.strengthen(member.pod.uid, Claim.COMMITTED)
        if gang.state is GangState.PLANNED:
            gang.state = GangState.COMMITTED

    def look_at_all(self) -> None:
        """Look at every gang again."""
        self._books.changed()
        self._registry.dirty.update(self._registry.gangs)

    # What was already there.

    def replay(self, members: Iterable[Member]) -> None:
        """Take over bound and steered pods after a start, the strongest first."""
        living = [member for member in members if not member.pod.finished]
        bound = [member for member in living if member.pod.node]
        recorded = self._books.devices.recorded
        bound.sort(key=lambda member: (not recorded(member.pod), member.pod.created, member.pod.uid))
        for member in bound:
            self.pod_changed(member)
        for member in sorted(living, key=lambda one: (one.pod.created, one.pod.uid)):
            pod = member.pod
            if pod.node or pod.deleting or not pod.nominated or GATE in pod.gates:
                continue
            member.assignment = self._books.resume(pod, self._gang_id(pod.uid))
            member.nominated = member.assignment is not None
        for gang in self._registry.gangs.values():
            # Nobody waits: what there was to be bound has been bound before.
            gang.whole = not gang.pending()
        self.look_at_all()

    # What is to be done.

    def step(self) -> list[Action]:
        """Look at what has changed and decide."""
        now = self._clock()
        self._relieve_strained()
        for key in list(self._registry.dirty):
            self._registry.dirty.discard(key)
            self._evaluate(self._registry.gangs[key], now)
            self._active.add(key)
        self._place(now)
        actions: list[Action] = []
        for gang in self._unsettled():
            actions.extend(self._steers(gang))
            actions.extend(self._overdue(gang, now))
            actions.extend(announcements(gang, now, self._limits, self._registry))
        self._active = {gang.key for gang in self._unsettled() if gang.state not in SETTLED}
        cleared: list[Action] = list(self._clears)
        self._clears.clear()
        return cleared + actions

    def _unsettled(self) -> list[Gang]:
        """The gangs for which something may still have to be done."""
        gangs = self._registry.gangs
        return [gangs[key] for key in self._active | self._registry.dirty if key in gangs]

    def _relieve_strained(self) -> None:
        """Nodes where somebody else took promised room: who isn't bound there yet goes elsewhere."""
        strained = self._books.strained
        if not strained:
            return
        for gang in self._unsettled():
            for member in gang.pending():
                if member.assignment is not None and member.assignment.node in strained:
                    self._replan(gang, member)

    def _evaluate(self, gang: Gang, now: float) -> None:
        """Settle the state and, where nothing can be planned, the reason."""
        gang.tried = -1
        alive = list(gang.alive())
        if not alive:
            gang.state = GangState.FINISHED
            self._explain(gang, None, now)
            return
        size = gang_size(
            gang.key, (member.pod for member in alive), self._registry.pod_group, self._registry.job
        )
        if isinstance(size, Reason):
            gang.state = GangState.COMMITTED if gang.begun else GangState.WAITING
            self._withdraw(gang)
            self._explain(gang, size, now)
            return
        gang.size = size
        bound = sum(1 for member in alive if member.bound)
        assigned = sum(1 for member in alive if member.assignment is not None)
        gang.expected = assigned - bound
        if bound == len(alive) and (gang.whole or bound + gang.ended >= size):
            gang.state = GangState.BOUND
            gang.whole = True
            gang.incomplete_since = None
            gang.replans = 0
            self._explain(gang, None, now)
        elif bound:
            gang.state = GangState.COMMITTED
            if not gang.whole:
                gang.incomplete_since = gang.incomplete_since or now
        elif not assigned:
            gang.state = GangState.WAITING
            gang.whole = False

    def _withdraw(self, gang: Gang) -> None:
        """Drop the plan of a gang of which nothing is bound."""
        if not gang.begun:
            for member in gang.members.values():
                self._drop_assignment(member)
            gang.barrier.fail("the plan of the gang was withdrawn")
            gang.barrier = Barrier()

    def _place(self, now: float) -> None:
        """Try every gang that waits and might fit, the most important and oldest first."""
        version = self._books.version
        hopeful = [
            gang
            for gang in self._unsettled()
            if gang.tried != version and gang.rest_until <= now and self._needy(gang)
        ]
        hopeful.sort(key=lambda gang: (not gang.begun, -gang.priority, gang.created, gang.key))
        for gang in hopeful:
            gang.tried = self._books.version
            self._try(gang, now)

    def _needy(self, gang: Gang) -> list[Member]:
        return [member for member in gang.pending() if member.assignment is None]

    def _try(self, gang: Gang, now: float) -> None:
        size = gang_size(
            gang.key, (member.pod for member in gang.alive()), self._registry.pod_group, self._registry.job
        )
        if isinstance(size, Reason):
            return
        ready = [member for member in self._needy(gang) if not foreign_gates(member.pod)]
        ready.sort(key=lambda member: natural(member.pod.name))
        settled = sum(1 for member in gang.alive() if member.assignment is not None)
        missing = size - settled - gang.ended
        if not gang.begun and len(ready) < missing:
            self._explain(gang, self._not_whole(gang, size), now)
            return
        broken = next((member.pod for member in ready if member.pod.problem), None)
        if broken is not None:
            self._explain(gang, Reason(Why.INVALID, f"pod {broken.name}: {broken.problem}"), now)
            return
        if not ready:
            gates = self._gates(gang)
            self._explain(gang, gates, now)
            return
        reason = self._plan(gang, ready, now)
        fewest = max(missing, 1)
        if reason is not None and len(ready) > fewest:
            # More members than the minimum: those beyond it come when there is room.
            self._plan(gang, ready[:fewest], now)
        self._explain(gang, reason, now)

    def _not_whole(self, gang: Gang, size: int) -> Reason:
        present = sum(1 for _ in gang.alive()) + gang.ended
        if present < size:
            return waiting(present, size)
        return self._gates(gang) or waiting(present, size)

    def _gates(self, gang: Gang) -> Reason | None:
        names = sorted({gate for member in gang.alive() for gate in foreign_gates(member.pod)})
        if not names:
            return None
        return Reason(Why.GATED, f"waiting for scheduling gates of others: {', '.join(names)}")

    def _plan(self, gang: Gang, members: list[Member], now: float) -> Reason | None:
        wishes = [Wish(member.pod, _still_barred(member, now)) for member in members]
        try:
            assignments = self._planner.plan(wishes, gang.key)
        except Refused as refused:
            return refused.reason
        for member, assignment in zip(members, assignments, strict=True):
            member.assignment = assignment
            member.steer_wanted = True
            member.forget_refusals()
        gang.expected = sum(1 for one in gang.pending() if one.assignment is not None)
        if gang.state in (GangState.WAITING, GangState.BOUND, GangState.FINISHED):
            gang.state = GangState.COMMITTED if gang.begun else GangState.PLANNED
        return None

    def _replan(self, gang: Gang, member: Member) -> None:
        """Find another place for one member; the whole gang moves when it can't be had and nothing is bound."""
        now = self._clock()
        gang.replans += 1
        self._drop_assignment(member)
        self._registry.dirty.add(gang.key)
        if gang.replans > self._limits.replans:
            gang.replans = 0
            gang.rest_until = now + self._limits.rest
            self._withdraw(gang)
            self._explain(gang, _refused_by_filters(gang), now)
            return
        if self._plan(gang, [member], now) is not None:
            self._withdraw(gang)

    def _drop_assignment(self, member: Member) -> None:
        if member.assignment is None or member.bound:
            return
        self._books.release(member.pod.uid)
        member.assignment = None
        member.steer_wanted = False
        if member.nominated or member.pod.nominated:
            self._clears.append(Clear(member.pod))
        member.nominated = False
        member.forget_refusals()

    def _steers(self, gang: Gang) -> list[Action]:
        wanted = [m for m in gang.members.values() if m.steer_wanted and m.assignment is not None]
        actions: list[Action] = []
        for member in wanted:
            member.steer_wanted = False
            if member.assignment is not None and member.pending:
                actions.append(Steer(member.pod, member.assignment.node))
        if any(GATE in member.pod.gates for member in wanted):
            self.committing(gang)
        return actions

    def _overdue(self, gang: Gang, now: float) -> list[Action]:
        """A begun gang that can't be completed within the limit is undone."""
        limit = self._limits.completion
        if limit is None or gang.incomplete_since is None or now - gang.incomplete_since < limit:
            return []
        gang.incomplete_since = now
        why = f"gang {gang.key} could not be completed within {limit:g} s: {gang.reason or 'members are missing'}"
        return [Evict(member.pod, why) for member in gang.alive() if member.bound]

    def _explain(self, gang: Gang, reason: Reason | None, now: float) -> None:
        if gang.reason != reason:
            gang.reason = reason
            gang.reason_since = now


def _still_barred(member: Member, now: float) -> frozenset[str]:
    member.barred = {node: until for node, until in member.barred.items() if until > now}
    return frozenset(member.barred)


def _refused_by_filters(gang: Gang) -> Reason:
    nodes = {node for member in gang.members.values() for node in member.barred}
    single = gang.key.convention is Convention.ALONE
    who = "the pod" if single else "a member"
    return Reason(
        Why.REFUSED,
        f"kube-scheduler's own filters refused {who} on {len(nodes)} of the nodes that have room (see its events)",
    )
