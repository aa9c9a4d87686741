"""Statements of what pods hold, for the account of past work.

The account of a pod is sent when it has a node, when a fact about it becomes known, and when it ends. It follows from
the pod and its gang, so a restart sends the same account again. The queue and the user are those when the pod starts. A
later change of labels moves no use to another queue or user.

Invariant: only a leader sends accounts, and the end of a pod is sent once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import sha256

from fluence_extender.gangs.membership.gang import NO_RESERVED_STARTS, Gang, Member, run_of
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.gangs.queue.admission import NO_QUEUE_NAME, QueueAdmission
from fluence_extender.model.accounting import AccountSink, HeldAmount, PodAccount, WorkOutcome
from fluence_extender.model.gang import HistoryKind
from fluence_extender.model.names import ACCOUNT_LABEL, BACKEND_ANNOTATION, RESOURCE_PREFIX
from fluence_extender.model.pod import Pod
from fluence_extender.model.queue import Queue
from fluence_extender.model.resources import CPU, MEMORY

MIB = 2**20


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
        self._stated: dict[str, PodAccount] = {}
        """What was sent last of each pod, by its uid."""
        self._beginning = False
        self._leading = False

    def begin(self) -> None:
        """Begin a term: send all accounts anew."""
        self._leading = self._beginning = True
        self._touched = {member.pod.uid for _, member in self._registry.members() if _started(member.pod)}

    def stand_down(self) -> None:
        """End a term: send nothing more."""
        if self._leading:
            self._sink.stand_down()
        self._leading = self._beginning = False
        self._touched.clear()
        self._stated.clear()

    def changed(self, pod: Pod) -> None:
        """Note that a pod of ours is new or has changed."""
        if self._leading and _started(pod):
            self._touched.add(pod.uid)

    def leaves(self, uid: str) -> None:
        """Send the end of a pod that is gone, while the registry still has it."""
        self._touched.discard(uid)
        found = self._registry.member(uid) if self._leading else None
        if found is None or not _started(found[1].pod):
            return
        self._state(*found, gone=True)
        self._stated.pop(uid, None)

    def state(self) -> None:
        """Send the accounts of the changed pods, or at the start of a term, of all running pods."""
        if self._beginning:
            self._beginning = False
            members = (member.pod for _, member in self._registry.members())
            self._sink.begin(frozenset(pod.uid for pod in members if _started(pod) and not pod.finished))
        touched, self._touched = self._touched, set()
        known = [found for uid in touched if (found := self._registry.member(uid)) is not None]
        # Starts come before ends, so that a gang's life doesn't end in between.
        for gang, member in sorted(known, key=lambda one: one[1].pod.finished):
            self._state(gang, member)

    def _state(self, gang: Gang, member: Member, gone: bool = False) -> None:
        uid = member.pod.uid
        before = self._stated.get(uid)
        if before is not None and before.ended is not None:
            return
        account = before or self._beginning_of(gang, member)
        account = replace(account, started=int(member.pod.started) or account.started)
        if gone or member.pod.finished:
            ended = int(member.pod.ended or self._clock())
            account = replace(account, ended=max(ended, account.started), outcome=_outcome(gang, member))
        if account != before:
            self._stated[uid] = account
            self._sink.record(account)
            if account.ended is not None and self._running(gang) is None:
                gang.remember(reserved_starts=NO_RESERVED_STARTS)

    def _running(self, gang: Gang) -> PodAccount | None:
        """Return the account of a member that runs, None if none does. With the last one the gang's life ends."""
        accounts = map(self._stated.get, gang.members)
        return next((one for one in accounts if one is not None and one.ended is None), None)

    def _beginning_of(self, gang: Gang, member: Member) -> PodAccount:
        pod, key = member.pod, gang.key
        (queue, user), running = self._owner(gang), self._running(gang)
        return PodAccount(
            uid=pod.uid,
            run=running.run if running is not None else run_key(gang),
            namespace=pod.namespace,
            pod=pod.name,
            gang=str(key).removeprefix(f"{key.namespace}/"),
            convention=key.convention.value,
            workload=f"{pod.owner.kind.lower()}/{pod.owner.name}" if pod.owner is not None else "",
            queue=queue,
            user=user,
            account=pod.labels.get(ACCOUNT_LABEL, ""),
            node=pod.node,
            submitted=int(min(filter(None, (gang.created[0], pod.created)), default=self._clock())),
            started=int(self._clock()),
            amounts=_amounts(member),
            promised=gang.memory.reserved_starts.first,
            moves=gang.memory.reserved_starts.moves,
        )

    def _owner(self, gang: Gang) -> tuple[str, str]:
        """Return the queue and the user of a gang."""
        place, user = self._admission.usage.place(gang.key), self._admission.creator_of(gang)
        if place is not None:
            return place.queue, user
        queue = self._admission.queue_of(gang)
        return queue.name if isinstance(queue, Queue) else NO_QUEUE_NAME, user


def run_key(gang: Gang) -> str:
    """Return a key that only one life of a gang has. It is the same after a restart if the same pods exist.

    A name can be used again. If the gang's key has no uid, the uid of the oldest pod's owner, or of that pod, is used.
    """
    key = gang.key
    life = key.uid
    if not life:
        oldest = min(
            gang.alive() or gang.members.values(), key=lambda one: (one.pod.created, one.pod.uid)
        ).pod
        life = run_of(oldest) or oldest.uid
    text = "\0".join((key.namespace, key.name, key.part, key.convention.value, life))
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
    held: dict[tuple[str, str], int] = {}
    for share in shares:
        held[share.type, share.backend] = held.get((share.type, share.backend), 0) + share.amount
    if not shares:
        # A pod that has ended has no assignment any more. Its Binding has recorded its devices on the pod.
        served_by = pod.annotations.get(BACKEND_ANNOTATION, "")
        held = {(kind, served_by): amount for kind, amount in pod.devices.items()}
    for (kind, backend), amount in held.items():
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
