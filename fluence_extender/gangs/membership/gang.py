"""A gang and its members, with their state, and the number of members that makes it whole."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import cast

import msgspec

from fluence_extender.gangs.execution.barrier import Barrier
from fluence_extender.gangs.lifecycle.limits import NEVER
from fluence_extender.gangs.lifecycle.reconcile import NOTHING_WRITTEN, Written
from fluence_extender.gangs.lifecycle.refusals import NO_BACK_OFF, NO_REFUSALS, GangBackOff, Refusals
from fluence_extender.gangs.reporting.history import History
from fluence_extender.kinds.membership import LARGEST_SIZE, Membership
from fluence_extender.kinds.replicas import deployment_of
from fluence_extender.model.accounting import ReservedStarts
from fluence_extender.model.assignment import Assignment
from fluence_extender.model.gang import Convention, GangKey, GangState, HistoryKind
from fluence_extender.model.names import GATE, PLACED_ANNOTATION
from fluence_extender.model.pod import ENDED as ENDED_PHASES
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode, timed_out
from fluence_extender.model.wording import WithNames
from fluence_extender.queueing.entry import EQUAL, Entitlement
from fluence_extender.room.records import PlaceRecord, recorded_queue

# How many members make a gang whole, and what keeps them waiting.


def agreed_size(key: GangKey, memberships: Iterable[tuple[str, Membership]]) -> int | Reason:
    """Return the size that all memberships state, or why they don't agree on one; 1 if there are none.

    Each membership comes with the name of its pod.
    """
    by_size: dict[int, list[tuple[str, Membership]]] = {}
    for name, membership in memberships:
        if isinstance(membership.size, Reason):
            return membership.size
        if membership.size > LARGEST_SIZE:
            stating = membership.source.replace("{pod}", name)
            return Reason(
                ReasonCode.INVALID_REQUEST,
                f"{stating} says {membership.size}: the largest gang has {LARGEST_SIZE} members",
            )
        by_size.setdefault(membership.size, []).append((name, membership))
    if len(by_size) <= 1:
        return next(iter(by_size), 1)
    stated = {
        size: min(membership.source.replace("{pod}", name) for name, membership in stating)
        for size, stating in by_size.items()
    }
    (least, first), *_, (most, last) = sorted(stated.items())
    return Reason(
        ReasonCode.INVALID_REQUEST,
        f"members of gang {key} disagree on its size: {first} says {least}, {last} says {most}",
    )


def required_size(key: GangKey, members: Sequence[Member]) -> int | Reason:
    """Return the size that all members state or, where pods of one controller differ, that its newest pods state.

    Such a difference means that the controller's template was changed, and what the older pods carry is out of date.
    """
    stating = members
    if members:
        # The pods of a gang usually share one membership (`Registry`). Then the first of them speaks for all.
        first = members[0].membership
        if all([member.membership is first for member in members]):
            stating = members[:1]
    size = agreed_size(key, ((member.pod.name, member.membership) for member in stating))
    if not isinstance(size, Reason) or size.code is not ReasonCode.INVALID_REQUEST:
        return size
    newest: dict[str, tuple[float, bool]] = {}
    for member in members:
        controller, age = _controller(member.pod), _age(member.pod)
        newest[controller] = max(newest.get(controller, age), age)
    newest_members = (member for member in members if _age(member.pod) == newest[_controller(member.pod)])
    size_of_newest = agreed_size(key, ((member.pod.name, member.membership) for member in newest_members))
    return size if isinstance(size_of_newest, Reason) else size_of_newest


def _age(pod: Pod) -> tuple[float, bool]:
    """Return a sort key by which pods are ordered from old to young.

    Creation times are whole seconds; of two equal ones, the pod without a node is the younger.
    """
    return pod.created, not pod.node


def _controller(pod: Pod) -> str:
    """Return what creates such pods, or the pod itself if it has no controller.

    All ReplicaSets of one Deployment count as one controller.
    """
    if pod.owner is None:
        return f"Pod {pod.uid}"
    deployment = deployment_of(pod)
    return f"Deployment {deployment}" if deployment else pod.owner.uid


def shortest_patience(memberships: Iterable[Membership]) -> float | None:
    """Return the shortest time in seconds that a membership allows for assembly, or None if none states one."""
    stated = (membership.patience for membership in memberships)
    return min((patience for patience in stated if patience is not None), default=None)


def foreign_gates(pod: Pod) -> tuple[str, ...]:
    """Return the pod's scheduling gates that aren't ours to remove."""
    return tuple(gate for gate in pod.gates if gate != GATE)


def waiting_for_gates(members: Iterable[Member]) -> Reason | None:
    """Return the reason of members that wait for scheduling gates of others, None if they have no such gates."""
    names = sorted({gate for member in members for gate in foreign_gates(member.pod)})
    if not names:
        return None
    return Reason(ReasonCode.WAITING_FOR_GATES, f"waiting for scheduling gates of others: {', '.join(names)}")


# Members.

UNSEEN = -1
"""Stands for the resourceVersion of a pod that is first seen now."""


_set = msgspec.Struct.__setattr__


class Member(msgspec.Struct, frozen=True, gc=False):
    """One pod of a gang, as it is at one moment. `Gang.change` puts another state of it in its place.

    ``membership`` is what the pod states about the gang. ``assignment`` is the member's planned or actual place. The
    ``record`` says with which gang the member got it. It is None if the member got no place with a gang, or was bound
    by other means. Only `Registry.take_over` changes the pod and the gang that these two name.

    ``written`` is what was last written to the cluster for it, and ``accepted`` the node to which the API server has
    accepted our Binding. ``held_node`` is the node that is held for it while victims leave, "" if none is. ``refusals``
    records its failed attempts. ``trouble`` is why its node can't be written to the cluster. ``first_seen`` is the
    resourceVersion of its pod when it was first seen, 0 if it was there when the service started. ``submitted`` is the
    place in line of the work that the pod belongs to, as in `Gang.created`, and None if the pod itself was submitted.
    ``told_at`` is when its pod's condition was last written, on the controller's clock.
    """

    pod: Pod
    membership: Membership
    assignment: Assignment | None = None
    record: PlaceRecord | None = None
    written: Written = NOTHING_WRITTEN
    accepted: str = ""
    held_node: str = ""
    refusals: Refusals = NO_REFUSALS
    trouble: str = ""
    submitted: tuple[float, int] | None = None
    told_at: float = -NEVER
    first_seen: int = UNSEEN

    def __post_init__(self) -> None:
        if self.first_seen == UNSEEN:
            msgspec.structs.force_setattr(self, "first_seen", self.pod.revision)

    @property
    def alive(self) -> bool:
        """Whether the pod still counts as a member: neither ended nor being deleted."""
        pod = self.pod
        return not pod.deleting and pod.phase not in ENDED_PHASES

    @property
    def age(self) -> tuple[float, int]:
        """When it was created or submitted (`Gang.created`)."""
        return self.submitted or (self.pod.created, self.first_seen)

    @property
    def pending(self) -> bool:
        """Whether it still needs a node."""
        return not self.bound and self.alive

    @property
    def bound(self) -> str:
        """The node it is bound to, or ran on, "" if none. Our own Binding is known before the watch shows it."""
        return self.pod.node or self.accepted

    @property
    def runs(self) -> bool:
        """Whether it is bound and hasn't ended."""
        return bool(self.bound) and not self.pod.finished

    @property
    def binding(self) -> bool:
        """Whether a Binding is under way, so that its place can't be taken from it."""
        return self.written.binding and not self.bound and not self.pod.finished

    @property
    def movable(self) -> bool:
        """Whether it has a place that can be taken from it."""
        return self.assignment is not None and not (self.bound or self.written.binding)

    @property
    def steered(self) -> bool:
        """Whether its place has been written to the cluster, or is being written."""
        return self.assignment is not None and self.written.node == self.assignment.node

    @property
    def withheld(self) -> bool:
        """Whether it gets no node before a write of ours: a nomination only holds a node for it."""
        return self.pod.withheld and not self.pod.expected

    @property
    def steered_to(self) -> str:
        """The node to which a leader has steered it with its gang, "" if none has or if it is bound.

        A pod that never had our gate has a nomination and no record.
        """
        pod = self.pod
        if not self.pending or self.withheld or self.clearing:
            return ""
        recorded = PLACED_ANNOTATION not in pod.annotations or PlaceRecord.recorded(pod, self.membership.key)
        return pod.nominated if recorded else ""

    @property
    def charged(self) -> str:
        """The queue to which its place is charged, "" if that isn't recorded or it has none."""
        if self.record is not None:
            return self.record.queue
        return recorded_queue(self.pod) if self.bound else ""

    @property
    def binding_failure(self) -> str:
        """Why the Binding on its place failed, "" if none has failed."""
        return "" if self.bound else self.written.failure

    @property
    def clearing(self) -> bool:
        """Whether a nomination of ours is being taken back."""
        return self.written.node == "" and not self.written.is_shown(self.pod)


def _has_node(member: Member) -> bool:
    """Return whether the member is bound, or about to be."""
    return member.binding or (member.alive and bool(member.bound))


JOB_SET_UID = "jobset.sigs.k8s.io/jobset-uid"
RESTART_ATTEMPT = "jobset.sigs.k8s.io/restart-attempt"


def run_of(pod: Pod) -> str:
    """Return the run of its owner that the pod belongs to, "" without an owner.

    A run goes on without the members that have succeeded. All Jobs of a JobSet belong to one run, until a restart
    creates all of them again.
    """
    job_set = pod.labels.get(JOB_SET_UID)
    if job_set:
        return f"{job_set}/{pod.labels.get(RESTART_ATTEMPT, '')}"
    return pod.owner.uid if pod.owner is not None else ""


# Gangs.


@dataclass(frozen=True, slots=True)
class Assembly:
    """How long a gang has waited for its members to exist.

    It has lacked members since ``since``, None if it lacks none. ``late_after`` is the limit, in seconds, that it has
    exceeded, None if it isn't late. ``patience`` is the limit that its own objects state, None if they state none.
    """

    since: float | None = None
    late_after: float | None = None
    patience: float | None = None


# Thousands of waiting gangs may have these values, so they share one object.
ASSEMBLED, NO_RESERVED_STARTS = Assembly(), ReservedStarts()


class Memory(msgspec.Struct, frozen=True, gc=False):
    """What is remembered of a gang. A service that has forgotten it decides the same, apart from back-offs.

    ``reason`` is why the gang waits, ``reason_since`` when that began. From ``again_at`` on another attempt may succeed
    although no room has come free. ``back_off`` says until when the gang isn't tried, because its places were held in
    vain. These times are those of the controller's clock.

    The next three are in seconds since the epoch. ``starts_about`` is when the gang is expected to get its places, None
    if that isn't known. Its pods have asked autoscalers for nodes since ``asks_since``, 0 if they don't ask.
    ``reserved_starts`` are the starts that the queue has told it, for the account of past work.

    The others are about what was reported. ``announced`` is the text of the reason that was announced last.
    ``group_scheduled``: its PodGroup was reported as scheduled. ``job_problem`` is why it can't be placed, as last
    reported to its members' Jobs: "" if it can, None before the first report. ``in_line``: an Event has said that it
    waits for its turn. ``reserved``: an Event has said that nodes are kept free for it. ``remarked``: it was checked
    for labels and annotations without an effect. ``starting``: an Event has yet to say where its members run, once it
    is complete.
    """

    reason: Reason | None = None
    reason_since: float = 0.0
    again_at: float = NEVER
    back_off: GangBackOff = NO_BACK_OFF
    starts_about: float | None = None
    asks_since: float = 0.0
    reserved_starts: ReservedStarts = NO_RESERVED_STARTS
    announced: str = ""
    group_scheduled: bool = False
    job_problem: str | None = None
    in_line: bool = False
    reserved: bool = False
    remarked: bool = False
    starting: bool = False


NOTHING_REMEMBERED = Memory()

READ_BY_PASSES = frozenset({"reason", "again_at", "back_off", "asks_since"})
"""What passes read of a gang's memory."""


def priority_of(pods: Collection[Pod], usual: int | None) -> int:
    """Return the highest priority of ``pods``, or ``usual`` if that is higher and none has a PriorityClass."""
    highest = max((pod.priority for pod in pods), default=0)
    if usual is None or any(pod.priority_class for pod in pods):
        return highest
    return max(highest, usual)


# No reference cycle outlives a wait at the barrier, so the garbage collector needn't look at thousands of gangs.
class Gang(msgspec.Struct, gc=False):
    """One gang.

    Members and memory are values. `change` and `remember` put others in their places, so a copy of the gang stays as
    it is.

    State: ``memory`` is what is remembered of it. ``was_complete`` says that at some time as many members as it
    requires were bound. It has run below its size since ``incomplete_since``, None if it doesn't. ``undone_about`` is
    when its bound members are evicted, in seconds since the epoch, None if they aren't. ``to_gather`` is how many
    members gather at the barrier: those that have a place, aren't bound and aren't direct. ``gathering`` is its
    `barrier` once it is used.

    Queue: ``queue`` is the name of its queue, "" if that queue doesn't exist. ``usual_priority`` is the priority that
    the queue gives to work without a PriorityClass, and ``usual_duration`` how many seconds work without a declared
    duration runs there; each is None if the queue states none. ``head_start`` is how many seconds of waiting its
    priority is worth, None if the higher priority always comes first. ``entitlement`` is that of its queue with this
    gang. ``met`` are its dependencies that were met, each as its annotation names it. ``obstacle`` is the rule that
    keeps it from being tried, None if it may be tried.

    ``uncopied`` is the registry's set of gangs that have changed since the last view, None for a copy. A change that
    passes don't read isn't recorded there. ``shared``: a copy has the same ``members``, so they are copied before one
    of them changes.
    """

    key: GangKey
    members: Mapping[str, Member] = msgspec.field(default_factory=dict)
    size: int = 1
    state: GangState = GangState.WAITING
    memory: Memory = NOTHING_REMEMBERED
    assembly: Assembly = ASSEMBLED
    was_complete: bool = False
    incomplete_since: float | None = None
    to_gather: int = 0
    undone_about: float | None = None
    usual_priority: int | None = None
    usual_duration: float | None = None
    head_start: float | None = None
    entitlement: Entitlement = EQUAL
    queue: str = ""
    gathering: Barrier | None = None
    history: History = msgspec.field(default_factory=History)
    met: frozenset[str] = frozenset()
    obstacle: Reason | None = None
    uncopied: set[GangKey] | None = None
    shared: bool = False

    def __setattr__(self, name: str, value: object) -> None:
        """Set a field, and note that the gang has changed."""
        if self.uncopied is not None:
            self.uncopied.add(self.key)
        _set(self, name, value)

    def copy(self) -> Gang:
        """Return a copy, which a pass may change: it has the same members until one of the two changes them."""
        copied = copy(self)
        _set(copied, "uncopied", None)
        _set(copied, "shared", True)
        _set(self, "shared", True)
        return copied

    def put(self, member: Member) -> Member:
        """Put a member in its place, as it is now; return it."""
        self._unshared_members()[member.pod.uid] = member
        return member

    def change(self, uid: str, **changes: object) -> Member:
        """Change fields of a member; return the member as it is then."""
        return self.put(msgspec.structs.replace(self.members[uid], **changes))

    def remove(self, uid: str) -> Member:
        """Take a member out of the gang; return it."""
        return self._unshared_members().pop(uid)

    def _unshared_members(self) -> dict[str, Member]:
        """Return the members, in a mapping that no copy of the gang shares."""
        members = dict(self.members) if self.shared else cast(dict[str, Member], self.members)
        self.members, self.shared = members, False
        return members

    def place(self, uid: str, assignment: Assignment, record: PlaceRecord | None = None) -> Member:
        """Give a member a place that the cluster hasn't been told yet; return the member."""
        record = record or PlaceRecord(self.key, self.size, self.queue)
        written = self.members[uid].written.unplaced()
        return self.change(uid, assignment=assignment, record=record, held_node="", written=written)

    def restore(self, uid: str, assignment: Assignment) -> Member:
        """Give a member the place to which an earlier leader has steered it, as its pod records; return the member."""
        record = PlaceRecord.recorded(self.members[uid].pod, self.key)
        self.place(uid, assignment, record)
        return self.change(uid, written=Written(assignment.node))

    def unplace(self, uid: str) -> Member:
        """Take the place of a member back; return the member."""
        written = self.members[uid].written.unplaced()
        return self.change(uid, assignment=None, record=None, written=written)

    def write_again(self, uid: str) -> None:
        """Have a member's node written again. A Binding of a direct pod is repeated where it is made."""
        pod, written = self.members[uid].pod, self.members[uid].written
        if not (written.binding and pod.direct and not pod.expected):
            self.change(uid, written=written.again())

    def bind(self, uid: str, assignment: Assignment | None) -> Member:
        """Give a member the place where it is bound; return the member. ``assignment`` is None if it has that place.

        A pod that is first seen with a node was placed by an earlier leader, as it records, or not by us at all.
        """
        member = self.members[uid]
        record = member.record or PlaceRecord.recorded(member.pod, self.key)
        return self.change(uid, assignment=assignment or member.assignment, record=record, held_node="")

    def alive(self) -> list[Member]:
        """Return the members that count."""
        # Each step walks the members of its gangs some ten times. A call for each member would take most of the step.
        return [
            member
            for member in self.members.values()
            if not member.pod.deleting and member.pod.phase not in ENDED_PHASES
        ]

    def pending(self) -> list[Member]:
        """Return the members that still need a node or a Binding."""
        return [
            member
            for member in self.members.values()
            if not (
                member.pod.node or member.accepted or member.pod.deleting or member.pod.phase in ENDED_PHASES
            )
        ]

    def placeless(self) -> list[Member]:
        """Return the members that still need a place."""
        return [member for member in self.pending() if member.assignment is None]

    def forget_first_change(self) -> None:
        """Forget when its plan first changed, if it holds no places: the limit for changes then starts again."""
        if self.back_off.replanned < NEVER and len(self.placeless()) == len(self.alive()):
            self.remember(back_off=replace(self.back_off, replanned=NEVER))

    def remember(self, **changes: object) -> None:
        """Change fields of what is remembered of the gang."""
        memory = msgspec.structs.replace(self.memory, **changes)
        if READ_BY_PASSES.isdisjoint(changes):
            _set(self, "memory", memory)
        else:
            self.memory = memory

    @property
    def reason(self) -> Reason | None:
        """Why it waits, None if it doesn't."""
        return self.memory.reason

    @property
    def again_at(self) -> float:
        """When another attempt may succeed although no room has come free."""
        return self.memory.again_at

    @property
    def back_off(self) -> GangBackOff:
        """Until when it waits because its places were held in vain."""
        return self.memory.back_off

    @property
    def starts_about(self) -> float | None:
        """When it is expected to get its places, None if unknown."""
        return self.memory.starts_about

    @property
    def asks_since(self) -> float:
        """Since when its pods have asked autoscalers for nodes, 0 if they don't."""
        return self.memory.asks_since

    @property
    def has_nodes(self) -> bool:
        """Whether a member is bound or a Binding is under way, whatever placed it."""
        return any(map(_has_node, self.members.values()))

    @property
    def begun(self) -> bool:
        """Whether a member that we placed with this gang is bound, or its Binding is under way.

        If so, the plan for the other members has to take it into account.
        """
        return any(
            member.record is not None and _has_node(member) and member.record.gang == self.key
            for member in self.members.values()
        )

    @property
    def must_be_completed(self) -> bool:
        """Whether the gang has to be completed before others are served: it has begun as large as it is now."""
        if self.was_complete or not (self.state is GangState.COMMITTED or self.begun):
            return False
        return any(
            member.record is not None
            and member.record.size >= self.size
            and member.record.gang == self.key
            and member.alive
            for member in self.members.values()
        )

    def explain(self, reason: Reason | None, now: float) -> None:
        """Record why the gang waits now, and whether it has waited for its members for too long."""
        if (
            reason is not None
            and reason.code is ReasonCode.WAITING_FOR_MEMBERS
            and self.assembly.late_after is not None
        ):
            reason = timed_out(self.assembly.late_after, reason)
        if self.reason != reason:
            self.remember(reason=reason, reason_since=now)
            if reason is not None:
                self.history.wait(reason.code.value, reason.text, reason.with_names)

    def note(
        self, kind: HistoryKind, pod: str = "", detail: str = "", with_names: WithNames | None = None
    ) -> None:
        """Note in the history what happened, to the member ``pod`` if it is named."""
        self.history.note(kind, pod, detail, len(self.members), with_names)

    def begin_anew(self) -> None:
        """Forget an earlier life of the gang: members that come now have to gather again."""
        self.incomplete_since = None
        self.was_complete = False
        if self.gathering is not None and self.gathering.open:
            self.gather_anew()

    @property
    def barrier(self) -> Barrier:
        """Where its members gather before they are bound."""
        if self.gathering is None:
            self.gathering = Barrier()
        return self.gathering

    def fail_waits(self, why: str) -> None:
        """Fail the waits at the barrier, if there are any."""
        if self.gathering is not None:
            self.gathering.fail(why)

    def gather_anew(self) -> None:
        """Set up a new barrier, for a new plan.

        Filters that judge a pod by other pods may refuse the same members again, and a pod's condition doesn't change
        if its text stays the same. Such members pass together only while they wait together.
        """
        refused = (member.pod for member in self.pending() if member.pod.refusal)
        doubted = any(pod.interdependent or pod.ruled or pod.host_ports for pod in refused)
        self.gathering = Barrier(doubted=True) if doubted else None

    def gathered(self, arrived: Mapping[str, str]) -> bool:
        """Return whether enough members have a place, and each of these is bound, direct, or has reached bind."""
        if len(arrived) < self.to_gather:
            return False
        placed = [(member, member.assignment) for member in self.alive() if member.assignment is not None]
        return len(placed) + self.ended >= self.size and all(
            member.bound or member.pod.direct or arrived.get(member.pod.uid) == assignment.node
            for member, assignment in placed
        )

    def filtered(self) -> list[Member]:
        """Return the members with a place that kube-scheduler's filters judge before they are bound."""
        return [
            member for member in self.pending() if member.assignment is not None and not member.pod.direct
        ]

    def count_gathering(self) -> None:
        """Count the members that are to gather at the barrier: kube-scheduler never calls bind for direct ones."""
        self.to_gather = len(self.filtered())

    @property
    def ended(self) -> int:
        """The number of members that have succeeded, of the same run as the living ones.

        Kueue's plain pods don't name their run. If as many have succeeded as make a whole gang, they belong to an
        earlier run.
        """
        succeeded = [
            run_of(member.pod) for member in self.members.values() if member.pod.phase == "Succeeded"
        ]
        if not succeeded:
            return 0
        current = {run_of(member.pod) for member in self.alive()}
        unnamed = succeeded.count("") if "" in current and self.key.convention is Convention.KUEUE else 0
        return sum(1 for run in succeeded if run and run in current) + (unnamed if unnamed < self.size else 0)

    @property
    def priority(self) -> int:
        """The priority by which it is ranked. A bound pod that wasn't placed with this gang doesn't raise it."""
        return self.priority_among(self.own_members())

    def priority_among(self, members: Sequence[Member]) -> int:
        """Return the highest priority of these members, or the queue's usual priority if that is higher."""
        return priority_of([member.pod for member in members], self.usual_priority)

    @property
    def created(self) -> tuple[float, int]:
        """When its first living member was created or submitted: seconds since the epoch, and a resourceVersion.

        The time is a whole second; the resourceVersion orders what was created in the same one. It is 0 for what was
        there when the service started. A bound pod that wasn't placed with this gang doesn't count. If its Job was sent
        back in line, the place in line counts instead.
        """
        return self.created_among(self.own_members())

    @staticmethod
    def created_among(members: Sequence[Member]) -> tuple[float, int]:
        """Return when the first of these members was created or submitted."""
        # As in `alive`, no call for each member.
        ages = [member.submitted or (member.pod.created, member.first_seen) for member in members]
        return min(ages, default=(0.0, 0))

    def own_members(self) -> list[Member]:
        """Return the living members that wait or were placed with this gang, or all if there are none."""
        alive = self.alive()
        own = [
            member
            for member in alive
            if not member.bound or (member.record is not None and member.record.gang == self.key)
        ]
        return own or alive
