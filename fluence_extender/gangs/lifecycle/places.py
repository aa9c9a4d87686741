"""Giving members places and taking them back, and sending whole gangs back in line.

Invariant: a member has an assignment exactly while the ledger has a holding for it.

**Requeues.** A gang that has to give up its nodes is sent back in line, if that is possible, instead of being evicted.
The pods of a suspended Job are deleted, and don't count against its ``backoffLimit``. The same is true of suspended
MPIJobs and RayClusters. So the service suspends the workloads of a gang if it may suspend all of them, and
`expected_pods` resumes them in their turn. All other gangs are evicted.

The workloads of a gang are suspended one after the other. If the service ends in between, the next leader finds a gang
that has begun and lacks members. It suspends the other workloads if there still is a reason for that. Otherwise it
completes the gang before it serves any other.

Invariants: a suspension deletes only pods that have to go. A gang that is sent back keeps its place in line, which is
recorded on its workloads and so survives a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass
from itertools import chain

from fluence_extender.gangs.execution.actions import Requeue
from fluence_extender.gangs.lifecycle.limits import Limits
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.gangs.membership.workloads import owning
from fluence_extender.gangs.planning.demands import Demands
from fluence_extender.gangs.queue.settings import Queues
from fluence_extender.kinds.mpijob import MpiJob, mpi_job_name
from fluence_extender.kinds.resumable import Resumable
from fluence_extender.model.assignment import Assignment
from fluence_extender.model.gang import GangState, HistoryKind
from fluence_extender.model.names import NEVER_SUSPEND, SUSPEND_LABEL
from fluence_extender.model.notation import first_few, natural_order
from fluence_extender.model.pod import Owner, Pod
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.model.wording import WithNames
from fluence_extender.placement.eligibility import refusal
from fluence_extender.placement.errors import GangRefused
from fluence_extender.placement.plan import Planner
from fluence_extender.room.ledger import Ledger, NoCapacity


@dataclass(frozen=True, slots=True)
class CoreParts:
    """The parts of the controller that most others use.

    ``registry`` knows the gangs, ``ledger`` what is held, and ``planner`` finds places. ``clock`` is the controller's.
    """

    registry: Registry
    ledger: Ledger
    planner: Planner
    limits: Limits
    clock: Callable[[], float]


# Places.

NODES_SHOWN = 4
"""The most nodes, and the most backends, that the history names when a gang gets its places."""


class Places:
    """Gives members places and takes them back.

    ``overtaken_by`` returns the gangs that hold nodes and that a gang is ahead of; these nodes are open to it.
    """

    def __init__(
        self,
        registry: Registry,
        ledger: Ledger,
        planner: Planner,
        clock: Callable[[], float],
        overtaken_by: Callable[[Gang], frozenset[object]],
    ) -> None:
        self._registry = registry
        self._ledger = ledger
        self._planner = planner
        self._clock = clock
        self.demands = Demands(
            registry.workloads, registry.gangs, ledger.held_nodes, ledger.kept_apart, overtaken_by
        )

    def plan(
        self,
        gang: Gang,
        members: Sequence[Member],
        now: float,
        avoided: frozenset[str] = frozenset(),
        within: Set[str] | None = None,
    ) -> Reason | None:
        """Place all of ``members``, or none of them and return why.

        They get no ``avoided`` nodes. If ``within`` is given, they get only nodes of it.
        """
        room = self._ledger.room().open_to(gang.key, self.demands.overtaken_by(gang)).within(within)
        demands = self.demands.of(gang, members, now, avoided)
        try:
            places = self._planner.plan(room, demands, self.demands.settled(gang))
        except GangRefused as refused:
            return refused.reason
        return self.give(gang, members, places)

    def counted(self, members: Iterable[Member]) -> bool:
        """Count for the ResourceClaims of ``members`` how many such pods each node can host, some nodes at a time.

        Return whether all is counted.
        """
        return self._ledger.claim_rooms.prepare(member.pod.claims for member in members)

    def give(self, gang: Gang, members: Sequence[Member], assignments: Sequence[Assignment]) -> Reason | None:
        """Give ``members`` these places, or none of them if the nodes have no room for them; return why not."""
        pods = [member.pod for member in members]
        try:
            self._ledger.take_all([*zip(pods, assignments, strict=True)], gang.key)
        except NoCapacity as error:
            # A plan takes amounts that exceed `capacity.LARGEST` for that amount.
            return Reason(ReasonCode.BUSY, f"busy: {error.reason}")
        for member, assignment in zip(members, assignments, strict=True):
            placed = gang.place(member.pod.uid, assignment)
            gang.change(placed.pod.uid, refusals=placed.refusals.uncounted)
        gang.count_gathering()
        gang.note(
            HistoryKind.PLANNED, members[0].pod.name if len(members) == 1 else "", _summary(assignments)
        )
        if gang.state in (GangState.WAITING, GangState.BOUND, GangState.FINISHED):
            gang.state = GangState.COMMITTED if gang.begun else GangState.PLANNED
        return None

    def never(self, pods: Sequence[Pod], size: int) -> Reason | None:
        """Return why ``size`` members with ``pods`` couldn't be placed even if nothing ran.

        Return None if they might be, or as long as `counted` isn't true for them.
        """
        if not self._ledger.claim_rooms.prepare(pod.claims for pod in pods):
            return None
        return self._planner.never(self._ledger.room(), pods, size)

    def replan(self, gang: Gang, uid: str) -> None:
        """Find another place for one member; if there is none, withdraw the whole gang unless it has begun."""
        self.drop(gang, uid)
        self._registry.dirty.add(gang.key)
        if self.plan(gang, [gang.members[uid]], self._clock()) is not None:
            self.withdraw(gang)

    def replan_off_gang(self, gang: Gang, uid: str) -> None:
        """Find another place for a refused member, if possible on a node without other members of its gang.

        Members that keep each other away (anti-affinity, spread, ports) would otherwise meet again on each next node.
        """
        self.drop(gang, uid)
        member = gang.members[uid]
        avoided = {other.assignment.node for other in gang.alive() if other.assignment is not None}
        if not avoided or self.plan(gang, [member], self._clock(), frozenset(avoided)) is not None:
            self.replan(gang, uid)
            return
        self._registry.dirty.add(gang.key)

    def relieve(self, gangs: Iterable[Gang]) -> None:
        """Move members of ``gangs`` that aren't bound off nodes that are overcommitted.

        The first of the gangs lose their places first.
        """
        overcommitted = self._ledger.overcommitted
        for gang in gangs:
            for uid in [member.pod.uid for member in gang.pending()]:
                member = gang.members[uid]
                node = member.assignment.node if member.assignment is not None else ""
                if node in overcommitted and not member.binding and node in self._ledger.overcommitted:
                    self.replan(gang, uid)

    def drop(self, gang: Gang, uid: str) -> None:
        """Take a member's place back, unless it is bound or a Binding is under way."""
        if not gang.members[uid].movable:
            return
        for other, _ in filter(None, map(self._registry.member, self._ledger.gated_beside(uid))):
            self._registry.dirty.add(other.key)
        self._ledger.release(uid)
        self._registry.dirty.add(gang.key)
        member = gang.unplace(uid)
        gang.change(uid, refusals=member.refusals.uncounted)

    def end(self, gang: Gang, uid: str, how: str = "") -> None:
        """Take back the place of a member whose pod has ended; ``how`` it ended is for the history."""
        member = gang.members[uid]
        if member.assignment is not None:
            gang.note(HistoryKind.RELEASED, member.pod.name, how)
        self._ledger.release(uid)
        gang.unplace(uid)

    def drop_others(self, gang: Gang) -> None:
        """Take back the places that members got while they belonged to another gang."""
        for member in list(gang.members.values()):
            if member.record is not None and member.record.gang != gang.key:
                self.drop(gang, member.pod.uid)

    def withdraw(self, gang: Gang) -> None:
        """Drop the plan of a gang, unless the gang has begun."""
        if not gang.begun:
            if any(member.assignment is not None for member in gang.members.values()):
                gang.note(HistoryKind.WITHDRAWN, "", "the plan of the gang was dropped")
            for uid in list(gang.members):
                self.drop(gang, uid)
            gang.fail_waits("the plan of the gang was withdrawn")
            gang.gather_anew()

    def leave_if_unfit(self, gang: Gang, uid: str) -> None:
        """Find another place for a member if its node doesn't suit it now, or if it requests something else now."""
        member = gang.members[uid]
        if member.assignment is None or member.binding:
            return
        if not self.suits(member, member.assignment.node) or not self._holds_its_requests(member):
            self.replan(gang, uid)

    def suits(self, member: Member, name: str) -> bool:
        """Return whether a node suits a member in the present state of both, however much room it has."""
        node = self._planner.node(name)
        if node is None or refusal(member.pod, node) is not None:
            return False
        return not self._ledger.kept_apart.keeper(member.pod, name)

    def _holds_its_requests(self, member: Member) -> bool:
        """Return whether the ledger holds what the member requests now; users can edit a waiting pod."""
        holding = self._ledger.holdings.get(member.pod.uid)
        if (
            holding is None
            or holding.requests != member.pod.requests
            or holding.ports != member.pod.host_ports
        ):
            return False
        devices = holding.assignment.devices
        if not devices:
            return True
        return self._ledger.devices_match(member.pod, devices)


def _summary(assignments: Sequence[Assignment]) -> str:
    """Return a plan in words: its first few nodes, and its backends."""
    nodes = sorted({assignment.node for assignment in assignments}, key=natural_order)
    on_nodes = f"on {first_few(nodes, NODES_SHOWN)}"
    backends = sorted({assignment.backend for assignment in assignments if assignment.backend})
    return f"{on_nodes} with {', '.join(backends[:NODES_SHOWN])}" if backends else on_nodes


# Requeues.

LAUNCHER = "-launcher"
"""The end of the name of the Job that the MPI Operator creates for an MPIJob's launcher."""


class Requeues:
    """Decides which gangs are sent back in line instead of being evicted."""

    def __init__(self, registry: Registry, settings: Queues) -> None:
        self._registry = registry
        self._settings = settings
        self._refused: set[str] = set()

    def refused(self, uid: str) -> None:
        """Record that the API server forbids suspending the workload. From then on its pods are evicted instead."""
        self._refused.add(uid)

    def requeue(
        self,
        gang: Gang,
        pods: Sequence[Pod],
        reason: str,
        with_names: WithNames | None = None,
        again: bool = False,
        others: Sequence[Gang] = (),
    ) -> Requeue | None:
        """Return how a gang and ``others`` are sent back in line together, None if their pods have to be evicted.

        ``pods`` are their bound pods. If the result has no workloads, all of them are suspended already, and nothing
        has to be done.
        """
        gangs = (gang, *others)
        jobs = self._jobs(gangs)
        if jobs is None:
            return None
        running = tuple(job for job in jobs if not job.suspended)
        since = min(place_in_line(some_gang, jobs) for some_gang in gangs)
        return Requeue(gang.key, running, tuple(pods), since, reason, with_names, again)

    def of_same_workloads(self, gang: Gang) -> list[Gang]:
        """Return the other gangs that have pods of the same workloads as this one."""
        owners = {member.pod.owner.uid for member in gang.alive() if member.pod.owner is not None}
        keys = {key for uid in owners for key in self._registry.gangs_of(gang.key.namespace, uid)}
        return [self._registry.gangs[key] for key in sorted(keys - {gang.key})]

    def _jobs(self, gangs: Sequence[Gang]) -> list[Resumable] | None:
        """Return the workloads of the gangs' living pods, None if they can't be suspended without other pods."""
        by_owner: dict[str, Resumable] = {}
        keys = {gang.key for gang in gangs}
        for member in chain.from_iterable(gang.alive() for gang in gangs):
            owner = member.pod.owner
            if owner is None:
                return None
            if owner.uid in by_owner:
                continue
            job = self._workload(member.pod, owner)
            if job is None or not self._may_suspend(job):
                return None
            uids = owner.uid, job.uid
            if any(key not in keys for uid in uids for key in self._registry.gangs_of(job.namespace, uid)):
                return None
            by_owner[owner.uid] = job
        return list({job.uid: job for job in by_owner.values()}.values())

    def _workload(self, pod: Pod, owner: Owner) -> Resumable | None:
        """Return the workload whose suspension deletes the pod, None if there is none."""
        find, name = self._registry.workloads.find, mpi_job_name(pod)
        mpi_job = find(MpiJob, pod.namespace, name) if name else None
        if mpi_job is not None and owner.is_a("Job", "batch") and owner.name == f"{name}{LAUNCHER}":
            return mpi_job
        workload = owning(owner, pod.namespace, self._registry.workloads)
        return workload if isinstance(workload, Resumable) else None

    def _may_suspend(self, job: Resumable) -> bool:
        if not job.ours or not job.suspendable or job.finished or job.uid in self._refused:
            return False
        if self._settings.is_kueues(job):
            return False
        return self._settings.labels_of(job.namespace).get(SUSPEND_LABEL) != NEVER_SUSPEND


def place_in_line(gang: Gang, jobs: Sequence[Resumable]) -> tuple[float, int]:
    """Return the place in line of a gang that has places, which is that of the oldest of its pods and planned Jobs.

    A Job that was resumed with a plan has waited longer than its pods.
    """
    age = gang.created
    return min((age, *(job.queued_since or (job.created, age[1]) for job in jobs if job.nodes)))
