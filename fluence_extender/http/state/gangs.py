"""Gangs and the allocations of their pods in the state API."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import cast

from msgspec.structs import asdict

from fluence_extender.api import gangs as v1
from fluence_extender.api.values import Firmness, amounts, moment
from fluence_extender.gangs.controller import Controller
from fluence_extender.gangs.lifecycle.rules import rejection
from fluence_extender.gangs.membership.gang import Gang, Member, run_of
from fluence_extender.gangs.queue.submissions import submission_of
from fluence_extender.gangs.reporting.history import SENT_BACK, HistoryEntry
from fluence_extender.gangs.reporting.remarks import remarks_on
from fluence_extender.graph.units import leaf_type
from fluence_extender.http.state.listings import Items, Key, Listing, Single
from fluence_extender.http.state.quantum import quantum_part
from fluence_extender.model.access import CallerSight
from fluence_extender.model.gang import Convention, GangKey, GangState, HistoryKind
from fluence_extender.model.names import HOLD_ANNOTATION
from fluence_extender.model.notation import format_time
from fluence_extender.model.reason import ReasonCode
from fluence_extender.model.resources import CPU, MEMORY
from fluence_extender.queueing.entry import NEVER
from fluence_extender.room.holdings import Holding

NO_PLACE_YET = "the gang is about to be placed"
PODS_GONE = "its pods are gone"
PODS_DELETED = "its pods are being deleted"


def gang_listing(controller: Controller, gone: bool, sight: CallerSight) -> Listing[v1.Gang]:
    """Return all gangs, with ``gone`` also the remembered ones that are gone, in words for ``sight``."""
    registry = controller.registry
    remembered = [one.gang.key for one in registry.gone] if gone else []
    positions: dict[GangKey, int] = {}

    def make(key: Key) -> v1.Gang | None:
        known = GangKey(key[0], key[1], Convention(key[2]), key[3], key[4])
        gang = registry.gangs.get(known)
        if gang is not None:
            return _shown(controller, gang, sight, positions)
        remembered_gang = registry.gone.get(known) if gone else None
        return None if remembered_gang is None else _gone(remembered_gang.gang, sight)

    def read() -> Items[v1.Gang]:
        positions.update(_positions(controller))
        return Items(sorted(list_key(key) for key in (*registry.gangs, *remembered)), make)

    return Listing(f"{_revision(controller)}-{len(remembered)}", read)


def find_gang(controller: Controller, namespace: str, name: str, convention: str) -> Gang | None:
    """Return the gang of that name, None if there is none and has been none lately.

    If several (of different conventions) have the name, return a living one, or else the last one that went.
    """
    registry = controller.registry
    living = [gang for gang in registry.named(namespace, name) if convention in ("", gang.key.convention)]
    found: Gang | None = living[0] if living else None
    if found is not None:
        return found
    for one in registry.gone:
        key = one.gang.key
        if str(key) == f"{namespace}/{name}" and convention in ("", key.convention):
            found = one.gang
    return found


def named_namespaces(gang: Gang) -> frozenset[str]:
    """Return the namespaces of all objects that the gang's reason and history name."""
    wordings = [one.with_names for one in gang.history.entries]
    wordings.append(gang.reason.with_names if gang.reason is not None else None)
    return frozenset().union(*(one.namespaces for one in wordings if one is not None))


def gang_detail(
    controller: Controller, gang: Gang, sight: CallerSight, leading: bool
) -> Single[v1.GangDetail]:
    """Return a gang, which may be gone, and its history in words for ``sight``."""
    key = gang.key
    if controller.registry.gangs.get(key) is not gang:
        return _detail(controller, gang, _gone(gang, sight), sight, leading)
    shape = _shown(controller, gang, sight, _positions(controller))
    return _detail(controller, gang, shape, sight, leading)


def _shown(
    controller: Controller, gang: Gang, sight: CallerSight, positions: Mapping[GangKey, int]
) -> v1.Gang:
    queue, user = _queue(controller, gang.key), controller.lifecycle.admission.creator_of(gang)
    return gang_shape(gang, sight, queue, user, positions.get(gang.key), _end(controller, gang))


def _positions(controller: Controller) -> dict[GangKey, int]:
    return {one.gang: one.position for one in controller.queue.line()}


def _queue(controller: Controller, key: GangKey) -> str:
    place = controller.lifecycle.admission.usage.place(key)
    return place.queue if place is not None else ""


def _end(controller: Controller, gang: Gang) -> float:
    """Return when the last living member of a gang that has started whole ends, `NEVER` if that isn't known."""
    living = [member.pod for member in gang.alive()]
    if not living or not all(pod.started for pod in living):
        return NEVER
    return max(controller.queue.ends.end(pod, pod.started) for pod in living)


def gang_shape(
    gang: Gang,
    sight: CallerSight,
    queue: str = "",
    user: str = "",
    position: int | None = None,
    end: float = NEVER,
) -> v1.Gang:
    """Return a gang as lists show it to a caller with this ``sight``.

    ``user`` has submitted it, ``position`` is its place in line, and ``end`` when it is expected to end.
    """
    members = sorted(gang.members.values(), key=lambda member: member.pod.name)
    created = min((member.pod.created for member in members), default=0.0)
    started = min(
        (member.pod.started for member in members if member.alive and member.pod.started), default=0.0
    )
    return v1.Gang(
        namespace=gang.key.namespace,
        name=gang_label(gang.key),
        convention=gang.key.convention,
        owner=_owner(members),
        state=gang.state.value,
        reason=_reason(gang, sight),
        why=gang.reason.code.value if gang.reason is not None else "",
        size=gang.size,
        created=moment(created) if created else None,
        expected_start=moment(gang.starts_about) if gang.starts_about is not None else None,
        started=moment(started) if started else None,
        expected_end=moment(end) if end < NEVER else None,
        queue=queue,
        user=user,
        position=position,
        preemptions=gang.history.preemptions,
        preempted=moment(gang.history.preempted) if gang.history.preempted else None,
        members=tuple(map(_member, members)),
        former=(),
        quantum=quantum_part([member.pod for member in members]),
    )


def allocation_listing(controller: Controller) -> Listing[v1.Allocation]:
    """Return the allocation of each pod of ours."""
    allocations = controller.ledger.holdings

    def make(key: Key) -> v1.Allocation | None:
        held = allocations.get(key[2])
        return None if held is None else _allocation(controller, held)

    def read() -> Items[v1.Allocation]:
        return Items(sorted((one.namespace, one.name, uid) for uid, one in allocations.items()), make)

    return Listing(_revision(controller), read)


def gang_name(controller: Controller, uid: str) -> str:
    """Return the name of the gang that a pod of ours is in, "" for any other pod."""
    found = controller.member(uid)
    return "" if found is None else gang_label(found[0].key)


def gang_label(key: GangKey) -> str:
    """Return the name of a gang in its namespace, with its part if it has one."""
    return str(key).removeprefix(f"{key.namespace}/")


def firmness(held: Holding) -> Firmness:
    """Return how firmly a pod holds its share."""
    return cast(Firmness, held.firmness.name.lower())


def _allocation(controller: Controller, held: Holding) -> v1.Allocation:
    devices: dict[str, int] = {}
    gpus = 0
    for name, amount in held.requests.items():
        leaf = leaf_type(name)
        if leaf == "gpu":
            gpus += amount
        elif leaf not in (None, "core", "memory"):
            devices[name] = amount
    for share in held.assignment.devices:
        devices[share.type] = devices.get(share.type, 0) + share.amount
    return v1.Allocation(
        namespace=held.namespace,
        pod=held.name,
        uid=held.uid,
        node=held.assignment.node,
        core=held.requests[CPU] / 1000,
        memory=held.requests[MEMORY],
        gpu=gpus,
        backend=held.assignment.backend,
        devices=devices,
        claimed=controller.devices.claimed_by(held.uid),
        gang=gang_name(controller, held.uid),
        claim=firmness(held),
    )


def list_key(key: GangKey) -> Key:
    """Return the key of a gang in lists."""
    return (key.namespace, key.name, key.convention.value, key.uid, key.part)


def _revision(controller: Controller) -> str:
    return f"{controller.registry.revision}-{controller.ledger.version}"


def _member(member: Member) -> v1.Member:
    assignment = member.assignment
    node = (
        member.bound or member.pod.node or (assignment.node if assignment is not None else member.steered_to)
    )
    backend = assignment.backend if assignment is not None else ""
    pod = member.pod
    return v1.Member(pod.name, pod.uid, node, backend, run_of(pod), pod.finished, pod.phase == "Failed")


def _owner(members: Sequence[Member]) -> str:
    """Return kind and name of the object that owns all members, "" if none does."""
    owners = {(one.pod.owner.kind, one.pod.owner.name) if one.pod.owner else ("", "") for one in members}
    return "/".join(owners.pop()).strip("/") if len(owners) == 1 else ""


def _reason(gang: Gang, sight: CallerSight) -> str:
    """Return why the gang is in its state, "" if that needs no explanation."""
    if gang.reason is not None:
        reason = gang.reason.shown
        text = sight.wording(reason.text, reason.with_names) or _reason_of_state(gang, sight)
        if gang.undone_about is not None:
            return f"{text}; the time to complete it ends at {format_time(moment(gang.undone_about))}"
        if gang.starts_about is None:
            return text
        return f"{text}; expected to start about {format_time(moment(gang.starts_about))}"
    return _reason_of_state(gang, sight)


def _reason_of_state(gang: Gang, sight: CallerSight) -> str:
    match gang.state:
        case GangState.WAITING:
            return NO_PLACE_YET
        case GangState.PLANNED | GangState.COMMITTED:
            return _being_bound(gang)
        case GangState.BOUND:
            return _missing(gang)
        case GangState.FINISHED:
            return _being_deleted(gang, sight) or rejection(gang.members.values())


def _being_bound(gang: Gang) -> str:
    """Return why a gang with places still waits, in kube-scheduler's words if it has refused a member."""
    refused = min(
        ((one.pod.name, one.pod.refusal) for one in gang.pending() if one.pod.refusal), default=None
    )
    if refused is None:
        return "placed, being bound"
    return f"placed; kube-scheduler refuses {refused[0]}: {refused[1]}"


def _missing(gang: Gang) -> str:
    """Return in words how many members a running gang lacks, "" for none. A succeeded member isn't missing."""
    present = sum(1 for one in gang.members.values() if one.alive or one.pod.phase == "Succeeded")
    if present >= gang.size:
        return ""
    are = "member is" if gang.size - present == 1 else "members are"
    return f"{gang.size - present} {are} missing; replacements are placed with the others"


def _being_deleted(gang: Gang, sight: CallerSight) -> str:
    """Return why pods of a gang that no longer runs are being deleted, "" if all of them ended by themselves."""
    if any(one.pod.deleting and not one.pod.finished for one in gang.members.values()):
        return PODS_DELETED + _eviction(gang.history.entries, sight)
    return ""


def _gone(gang: Gang, sight: CallerSight) -> v1.Gang:
    entries = gang.history.entries
    return v1.Gang(
        namespace=gang.key.namespace,
        name=gang_label(gang.key),
        convention=gang.key.convention,
        owner="",
        state="gone",
        reason=PODS_GONE + _eviction(entries, sight),
        why="",
        size=gang.size,
        created=None,
        expected_start=None,
        started=None,
        expected_end=None,
        queue="",
        user="",
        position=None,
        preemptions=gang.history.preemptions,
        preempted=moment(gang.history.preempted) if gang.history.preempted else None,
        members=(),
        former=tuple(sorted({entry.pod for entry in entries if entry.pod})),
        quantum=None,
    )


def _eviction(entries: Sequence[HistoryEntry], sight: CallerSight) -> str:
    """Return why we evicted its last pods, as the end of a sentence, "" if we didn't."""
    for entry in reversed(entries):
        if entry.kind in SENT_BACK:
            return f": {sight.wording(entry.detail, entry.with_names) or entry.kind.value}"
        if entry.kind in (HistoryKind.SEEN, HistoryKind.BOUND):
            break
    return ""


def _size_stated(gang: Gang) -> tuple[str, ...]:
    """Return a note on what states the size of a gang that waits for members."""
    if gang.reason is None or gang.reason.code is not ReasonCode.WAITING_FOR_MEMBERS:
        return ()
    sources = [one.membership.source.replace("{pod}", one.pod.name) for one in gang.alive()]
    return tuple(
        f"it waits for {gang.size} members because {source} says so" for source in sorted(sources)[:1]
    )


def _held_in_vain(controller: Controller, gang: Gang) -> tuple[str, ...]:
    """Return a note if a gang is told to wait and has its places already."""
    held = submission_of(gang, controller.registry.workloads).hold == "true"
    if not held or not controller.lifecycle.admission.runs(gang.key):
        return ()
    return (
        f"annotation {HOLD_ANNOTATION} is true, but the gang already has its places and goes on; it is held once it "
        "waits in line again",
    )


def _detail(
    controller: Controller, gang: Gang, shape: v1.Gang, sight: CallerSight, leading: bool
) -> Single[v1.GangDetail]:
    history = gang.history
    entries = tuple(
        v1.Entry(moment(one.at), one.kind, one.pod, detail, one.count, moment(one.until))
        for one in history.entries
        for detail in (sight.wording(one.detail, one.with_names),)
    )
    detail = v1.GangDetail(
        **asdict(shape),
        notes=(
            *remarks_on(gang, controller.registry.workloads),
            *_size_stated(gang),
            *_held_in_vain(controller, gang),
        ),
        asks=_requests(gang),
        fitting=gang.reason.fitting if gang.reason is not None else None,
        lacking=gang.reason.lacking if gang.reason is not None else (),
        history=entries,
        forgotten=history.forgotten,
        leading=leading,
    )
    return Single(f"{_revision(controller)}-{history.noted}", detail)


def _requests(gang: Gang) -> tuple[v1.Shape, ...]:
    """Return the requests of the living members, in the order of their names. Equal members count together."""
    living = sorted(gang.alive(), key=lambda member: member.pod.name)
    pods = [member.pod for member in living]
    counted = Counter(
        (pod.requests, tuple(sorted(pod.devices.items())), tuple(pod.requires.items())) for pod in pods
    )
    return tuple(
        v1.Shape(members, amounts(requests), dict(devices), dict(requires))
        for (requests, devices, requires), members in counted.items()
    )
