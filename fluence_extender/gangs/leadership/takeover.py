"""Standing by, and taking over what runs in the cluster.

**Standing by.** A standby follows facts as the leader does: bound pods hold what they use. So taking over is quick.
Only the leader makes plans. The standby shows the plans that the leader has written: a gang with an ungated, nominated
pod is committed.

Invariant: while we stand by, only bound pods hold anything.

**Taking over.** Bound pods are facts, so when a replica begins to lead, they come first, and among them those whose
recorded devices exist. Then pods that were steered get their node again if it still suits them. All other pods are
planned like new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from fluence_extender.gangs.lifecycle.limits import NEVER
from fluence_extender.gangs.lifecycle.reconcile import NOTHING_WRITTEN
from fluence_extender.gangs.lifecycle.refusals import NO_REFUSALS, Refusals
from fluence_extender.gangs.lifecycle.rules import finish, take_size, update_state
from fluence_extender.gangs.membership.gang import Gang, Member, foreign_gates
from fluence_extender.gangs.membership.job_pods import completion_index
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.gangs.queue.admission import QueueAdmission
from fluence_extender.model.gang import GangKey, GangState, HistoryKind
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode, waiting
from fluence_extender.placement.eligibility import refusal
from fluence_extender.room.devices import all_recorded_exist
from fluence_extender.room.holdings import Firmness
from fluence_extender.room.ledger import Ledger

# Standing by.

LEADER_PLACES = Reason(
    ReasonCode.WAITING_FOR_MEMBERS, "waiting for the leader to place it; this replica stands by"
)

UPDATED_WITHIN = 0.004
"""The most seconds that a step spends on gangs that have changed."""


class Standby:
    """Keeps the gangs' states true to the cluster, without deciding anything."""

    def __init__(
        self, registry: Registry, ledger: Ledger, admission: QueueAdmission, clock: Callable[[], float]
    ) -> None:
        self._registry = registry
        self._admission = admission
        self._ledger = ledger
        self._clock = clock

    def begin(self, why: str) -> None:
        """Drop all plans that aren't bound, and fail the waits at barriers with ``why``."""
        for gang in self._registry.gangs.values():
            gang.fail_waits(why)
            gang.gather_anew()
            gang.incomplete_since = None
            back_off = replace(gang.back_off, replans=0, replanned=NEVER, until=0.0)
            gang.remember(back_off=back_off)
            for member in list(gang.members.values()):
                self._forget_plan(gang, member)
        self._registry.dirty.update(self._registry.gangs)

    def _forget_plan(self, gang: Gang, member: Member) -> None:
        if not member.bound:
            self._ledger.release(member.pod.uid)
            gang.unplace(member.pod.uid)
        verdicts = member.refusals.verdicts
        refusals = Refusals(verdicts=verdicts) if verdicts else NO_REFUSALS
        gang.change(member.pod.uid, written=NOTHING_WRITTEN, refusals=refusals)

    def step(self) -> None:
        """Bring the states of gangs that have changed up to date."""
        self._registry.catch_up()
        if self._registry.dirty:
            self._registry.revision += 1
        self._admission.follow()
        until, dirty = self._clock() + UPDATED_WITHIN, self._registry.dirty
        while dirty and self._clock() <= until:
            gang = self._registry.gangs[dirty.take()]
            self._update(gang)
            self._admission.note(gang)

    def _update(self, gang: Gang) -> None:
        """Bring the state of a gang up to date as the leader does, and give a gang that waits its reason."""
        alive, now = gang.alive(), self._clock()
        if not alive:
            finish(gang, now)
            return
        size = take_size(gang)
        update_state(gang, alive, size, now)
        if gang.state is GangState.WAITING and any(member.steered_to for member in alive):
            gang.state = GangState.COMMITTED
        if not isinstance(size, Reason):
            gang.explain(_reason_to_wait(gang, alive) if gang.state is GangState.WAITING else None, now)
        # How long the gang runs below its size counts from the beginning of the next leader's term.
        gang.incomplete_since = None


def _reason_to_wait(gang: Gang, alive: Sequence[Member]) -> Reason:
    present = len(alive) + gang.ended
    return waiting(present, gang.size) if present < gang.size else LEADER_PLACES


# Taking over.


def take_over_bound(registry: Registry, ledger: Ledger) -> list[Member]:
    """Have the ledger hold what the bound pods use, all at once, in the order of certainty. Return their members."""
    gangs = {member.pod.uid: gang for gang, member in registry.members()}
    living = [member for _, member in registry.members() if not member.pod.finished]
    bound = in_order_of_certainty(living, lambda pod: all_recorded_exist(ledger.graph.catalogue, pod))
    pods = ((member.pod, gangs[member.pod.uid].key) for member in bound)
    for member, assignment in zip(bound, ledger.adopt_all(pods, Firmness.BOUND), strict=True):
        pod = member.pod
        gang, detail = gangs[pod.uid], f"bound to {pod.node} before this service started"
        gang.note(HistoryKind.TAKEN_OVER, pod.name, detail)
        gang.bind(pod.uid, assignment)
    return [gangs[member.pod.uid].members[member.pod.uid] for member in bound]


def restore_steered(
    registry: Registry, ledger: Ledger, node: Callable[[str], Node | None], admission: QueueAdmission
) -> None:
    """Have the ledger hold the nodes to which members of committed gangs were steered, the oldest members first.

    A gang is committed once one of its members was placed with it and is bound, or was steered. In such a gang, a
    nomination counts even if the member still has our gate. A gang without any bound member needs room in its queue,
    because its places may have been given to another gang meanwhile. The plan on a Job's template applies to every
    pod that states an index, so each index gets only one place.
    """
    pending: list[tuple[Gang, Member]] = []
    taken: set[tuple[str, int]] = set()
    admission.follow()
    for gang in registry.gangs.values():
        alive = gang.alive()
        gang.was_complete = gang.was_complete or _had_all_nodes(gang)
        admission.note(gang)
        if gang.begun or any(member.steered_to for member in alive):
            pending += ((gang, member) for member in gang.pending())
        taken.update(filter(None, (completion_index(member.pod) for member in alive if member.bound)))
    pending.sort(key=lambda pair: (pair[1].pod.created, pair[1].pod.uid))
    restore_all(pending, ledger, node, admission, taken)


def _had_all_nodes(gang: Gang) -> bool:
    """Return whether no member waits, or only members that were created after others had started.

    Members that begin together are created before any of them is bound. So all these had their nodes, and a member that
    waits now came later or replaces a lost one.
    """
    started = (member.pod.started for member in gang.alive() if member.bound and member.pod.started)
    earliest = min(started, default=NEVER)
    return all(member.pod.created > earliest for member in gang.pending())


def in_order_of_certainty(members: Iterable[Member], recorded: Callable[[Pod], bool]) -> list[Member]:
    """Return the bound members: first those whose recorded devices exist, then by age."""
    bound = [member for member in members if member.pod.node]
    return sorted(bound, key=lambda member: (not recorded(member.pod), member.pod.created, member.pod.uid))


def take_up_devices(registry: Registry, ledger: Ledger) -> None:
    """Let bound pods hold devices that were unknown when the pods were taken over and are there now.

    If the service starts while a device isn't configured, or while its node is gone, the device must not go to another
    pod once it is back. Until then the pod may hold another device of that type, because an annotation isn't proof.
    """
    lacking = list(filter(None, map(registry.member, ledger.lacking_devices)))
    gangs = {member.pod.uid: gang for gang, member in lacking}
    holders = [member for _, member in lacking if not member.pod.finished]
    for member in in_order_of_certainty(holders, lambda pod: all_recorded_exist(ledger.graph.catalogue, pod)):
        gang = gangs[member.pod.uid]
        assignment = ledger.adopt(member.pod, gang.key, Firmness.BOUND)
        gang.bind(member.pod.uid, assignment)


def restore_all(
    members: Iterable[tuple[Gang, Member]],
    ledger: Ledger,
    node: Callable[[str], Node | None],
    admission: QueueAdmission,
    taken: Collection[tuple[str, int]] = (),
) -> None:
    """Have the ledger hold the nodes to which members without a place were steered, if their gangs may run.

    Gangs that have begun may be completed. Other gangs need room in their queues: a Job's plan stays on its template
    while a user suspends the Job, so the plan may be old. ``taken`` are the indexes of Jobs that have pods with places.
    """
    used, may_run = set(taken), dict[GangKey, bool]()
    for gang, member in members:
        index = completion_index(member.pod)
        if gang.key not in may_run:
            may_run[gang.key] = gang.begun or admission.has_room_to_run(gang)
        if member.assignment is not None or index in used or not may_run[gang.key]:
            continue
        if _restore(ledger, node, gang, member):
            if index is not None:
                used.add(index)
            if not admission.runs(gang.key):
                admission.note(gang)


def _restore(ledger: Ledger, find: Callable[[str], Node | None], gang: Gang, member: Member) -> bool:
    """Have the ledger hold the node to which the member was steered, and return whether that is still possible."""
    pod = member.pod
    if foreign_gates(pod) or pod.problem or not pod.nominated:
        return False
    node = find(pod.nominated)
    if node is None or refusal(pod, node) is not None or node.name in ledger.room().open_to(gang.key).closed:
        return False
    if ledger.kept_apart.keeper(pod, node.name):
        return False
    assignment = ledger.restore(pod, gang.key)
    if assignment is None:
        return False
    if member.withheld:
        gang.place(pod.uid, assignment)
    else:
        gang.restore(pod.uid, assignment)
    gang.state = GangState.COMMITTED
    return True
