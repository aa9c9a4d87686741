"""What pods hold and when they run, sent to the account of past work.

The account of a pod is sent when it has a node, when a fact about it becomes known, and when it ends. It follows from
the pod and its gang, so a restart sends the same account again. The queue and the user are those when the pod starts. A
later change of labels moves no use to another queue or user.

Invariant: only a leader sends accounts, and the end of a pod is sent once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from hashlib import sha256

from fluence_extender.gangs.membership.gang import NO_RESERVED_STARTS, Gang, Member, run_of
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.gangs.queue.admission import NO_QUEUE_NAME, QueueAdmission
from fluence_extender.model.accounting import AccountSink, HeldAmount, PodAccount, WorkOutcome
from fluence_extender.model.gang import GangKey, HistoryKind
from fluence_extender.model.names import ACCOUNT_LABEL, BACKEND_ANNOTATION, RESOURCE_PREFIX
from fluence_extender.model.pod import Pod
from fluence_extender.model.resources import CPU, MEMORY
from fluence_extender.objects.queues import Queue

MIB = 2**20


@dataclass(frozen=True, slots=True)
class _Run:
    """What the accounts of a gang's members that start have in common.

    ``key`` is that of their run. ``submitted`` is when the gang was, in seconds since the epoch.
    """

    key: str
    queue: str
    user: str
    submitted: float


class PodAccounts:
    """Sends the accounts of pods to ``sink``. ``clock`` returns seconds since the epoch."""

    def __init__(
        self, sink: AccountSink, registry: Registry, admission: QueueAdmission, clock: Callable[[], float]
    ) -> None:
        self._sink = sink
        self._registry = registry
        self._admission = admission
        self._clock = clock
        self._touched: set[str] = set()
        self._sent: dict[str, PodAccount] = {}
        """By uid, the account of each pod that was sent last."""
        self._begins_term = False
        self._leading = False

    def begin(self) -> None:
        """Begin a term: send all accounts anew."""
        self._leading = self._begins_term = True
        self._touched = {member.pod.uid for _, member in self._registry.members() if _started(member.pod)}

    def stand_down(self) -> None:
        """End a term: send nothing more."""
        if self._leading:
            self._sink.stand_down()
        self._leading = self._begins_term = False
        self._touched.clear()
        self._sent.clear()

    def changed(self, pod: Pod) -> None:
        """Note that a pod of ours is new or has changed."""
        if self._leading and _started(pod):
            self._touched.add(pod.uid)

    def pod_gone(self, uid: str) -> None:
        """Send the end of a pod that is gone, while the registry still has it."""
        self._touched.discard(uid)
        gang_and_member = self._registry.member(uid) if self._leading else None
        if gang_and_member is None or not _started(gang_and_member[1].pod):
            return
        gang, member = gang_and_member
        self._send(gang, [member], gone=True)
        self._sent.pop(uid, None)

    def send(self) -> None:
        """Send the accounts of the changed pods, or at the start of a term those of all running pods."""
        if self._begins_term:
            self._begins_term = False
            pods = (member.pod for _, member in self._registry.members())
            self._sink.begin(frozenset(pod.uid for pod in pods if _started(pod) and not pod.finished))
        touched, self._touched = self._touched, set()
        by_gang: dict[GangKey, tuple[Gang, list[Member]]] = {}
        for uid in touched:
            gang_and_member = self._registry.member(uid)
            if gang_and_member is not None:
                gang, member = gang_and_member
                by_gang.setdefault(gang.key, (gang, []))[1].append(member)
        for gang, members in by_gang.values():
            self._send(gang, members)

    def _send(self, gang: Gang, members: list[Member], gone: bool = False) -> None:
        """Send the accounts of some members of a gang, whose pods may be ``gone``."""
        run: _Run | None = None
        ends = False
        # Starts are sent before ends, so that the gang's run doesn't end in between.
        for member in sorted(members, key=lambda member: member.pod.finished):
            before = account = self._sent.get(member.pod.uid)
            if before is not None and before.ended is not None:
                continue
            if account is None:
                # This looks at all members of the gang, so it is done once for all new accounts.
                run = run or self._run(gang)
                account = self._first_account(gang, member, run)
            account = replace(account, started=int(member.pod.started) or account.started)
            if gone or member.pod.finished:
                ended = int(member.pod.ended or self._clock())
                account = replace(account, ended=max(ended, account.started), outcome=_outcome(gang, member))
                ends = True
            if account != before:
                self._sent[member.pod.uid] = account
                self._sink.record(account)
        if ends and self._running(gang) is None:
            gang.remember(reserved_starts=NO_RESERVED_STARTS)

    def _running(self, gang: Gang) -> PodAccount | None:
        """Return the account of a member that runs, None if none does. The gang's run ends with the last one."""
        accounts = map(self._sent.get, gang.members)
        return next((account for account in accounts if account is not None and account.ended is None), None)

    def _first_account(self, gang: Gang, member: Member, run: _Run) -> PodAccount:
        pod, key = member.pod, gang.key
        return PodAccount(
            uid=pod.uid,
            run=run.key,
            namespace=pod.namespace,
            pod=pod.name,
            gang=str(key).removeprefix(f"{key.namespace}/"),
            convention=key.convention.value,
            workload=f"{pod.owner.kind.lower()}/{pod.owner.name}" if pod.owner is not None else "",
            queue=run.queue,
            user=run.user,
            account=pod.labels.get(ACCOUNT_LABEL, ""),
            node=pod.node,
            submitted=int(min(filter(None, (run.submitted, pod.created)), default=self._clock())),
            started=int(self._clock()),
            amounts=_amounts(member),
            promised=gang.memory.reserved_starts.first,
            moves=gang.memory.reserved_starts.moves,
        )

    def _run(self, gang: Gang) -> _Run:
        """Return the run of a gang that goes on, or else begins."""
        running, user = self._running(gang), self._admission.creator_of(gang)
        key = running.run if running is not None else run_key(gang)
        place = self._admission.usage.place(gang.key)
        if place is not None:
            queue = place.queue
        else:
            named = self._admission.queue_of(gang)
            queue = named.name if isinstance(named, Queue) else NO_QUEUE_NAME
        return _Run(key, queue, user, submitted=gang.created[0])


def run_key(gang: Gang) -> str:
    """Return a key that only one run of a gang has. It is the same after a restart if the same pods exist.

    A name can be used again. If the gang's key has no uid, the uid of the oldest pod's owner, or of that pod, is used.
    """
    key = gang.key
    run = key.uid
    if not run:
        oldest = min(
            gang.alive() or gang.members.values(), key=lambda one: (one.pod.created, one.pod.uid)
        ).pod
        run = run_of(oldest) or oldest.uid
    text = "\0".join((key.namespace, key.name, key.part, key.convention.value, run))
    return sha256(text.encode()).hexdigest()[:32]


def _started(pod: Pod) -> bool:
    return bool(pod.node) and not pod.expected


def _amounts(member: Member) -> tuple[HeldAmount, ...]:
    """Return the amounts that the pod holds, with its devices by backend."""
    return tuple(sorted(_held(member), key=lambda one: (one.resource, one.backend)))


def _held(member: Member) -> Iterator[HeldAmount]:
    pod = member.pod
    for name, amount in pod.requests.items():
        if name == MEMORY:
            yield HeldAmount(name, "", -(-amount // MIB))
        elif name == CPU or ("/" in name and not name.startswith(RESOURCE_PREFIX)):
            yield HeldAmount(name, "", amount)
    shares = member.assignment.devices if member.assignment is not None else ()
    amounts: dict[tuple[str, str], int] = {}
    for share in shares:
        amounts[share.type, share.backend] = amounts.get((share.type, share.backend), 0) + share.amount
    if not shares:
        # A pod that has ended has lost its assignment, but its Binding has recorded the backend on the pod.
        served_by = pod.annotations.get(BACKEND_ANNOTATION, "")
        amounts = {(kind, served_by): amount for kind, amount in pod.devices.items()}
    for (kind, backend), amount in amounts.items():
        yield HeldAmount(kind, backend, amount)


def _outcome(gang: Gang, member: Member) -> WorkOutcome:
    pod = member.pod
    if pod.phase == "Succeeded":
        return WorkOutcome.SUCCEEDED
    if pod.rejected:
        return WorkOutcome.REJECTED
    evicted = any(
        entry.kind is HistoryKind.EVICTED and entry.pod in ("", pod.name) and entry.until >= pod.started
        for entry in gang.history.entries
    )
    if evicted:
        return WorkOutcome.EVICTED
    return WorkOutcome.FAILED if pod.phase == "Failed" else WorkOutcome.DELETED
