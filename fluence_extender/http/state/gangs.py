"""Gangs and what their pods hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from fluence_extender.gangs.controller import Controller
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.reporting.history import Entry
from fluence_extender.graph.units import leaf_type
from fluence_extender.http.state.amounts import amounts, moment
from fluence_extender.http.state.state import (
    AllocationView,
    EntryView,
    GangStory,
    GangView,
    Items,
    Key,
    Listing,
    MemberView,
    ShapeView,
)
from fluence_extender.ledger.accounts import Allocation
from fluence_extender.model.gang import Convention, GangKey, GangState, HistoryKind
from fluence_extender.model.notation import format_time
from fluence_extender.model.resources import CPU, MEMORY

NO_PLACE_YET = "the gang is about to be placed"
GONE = "gone"
PODS_GONE = "its pods are gone"
PODS_GOING = "its pods are being deleted"


def gang_listing(controller: Controller, gone: bool) -> Listing[GangView]:
    """All gangs, with those that are ``gone`` and remembered if wanted."""
    registry = controller.registry
    remembered = [one.gang.key for one in registry.gone] if gone else []

    def make(key: Key) -> GangView | None:
        known = GangKey(key[0], key[1], Convention(key[2]), key[3], key[4])
        gang = registry.gangs.get(known)
        if gang is not None:
            return gang_view(gang)
        lately = registry.gone.get(known) if gone else None
        return None if lately is None else _gone_view(lately.gang)

    def read() -> Items[GangView]:
        return Items(sorted(_listed(key) for key in (*registry.gangs, *remembered)), make)

    return Listing(f"{_revision(controller)}-{len(remembered)}", read)


def gang_story(controller: Controller, namespace: str, name: str, convention: str) -> GangStory | None:
    """The gang of that name and its history; None when there is none, nor was one lately.

    Of several with one name (of different conventions) a living one is taken, else the one that went last.
    """
    registry = controller.registry
    living = [gang for gang in registry.named(namespace, name) if convention in ("", gang.key.convention)]
    if living:
        return _story(controller, living[0], gang_view(living[0]))
    found: Gang | None = None
    for one in registry.gone:
        key = one.gang.key
        if str(key) == f"{namespace}/{name}" and convention in ("", key.convention):
            found = one.gang
    return None if found is None else _story(controller, found, _gone_view(found))


def gang_view(gang: Gang) -> GangView:
    """A gang as lists show it."""
    members = sorted(gang.members.values(), key=lambda member: member.pod.name)
    reason, why = (gang.reason.text, gang.reason.code.value) if gang.reason is not None else ("", "")
    if not reason and gang.state in (GangState.WAITING, GangState.PLANNED, GangState.COMMITTED):
        reason = NO_PLACE_YET if gang.state is GangState.WAITING else _being_bound(gang)
    if not reason and gang.state is GangState.BOUND:
        reason = _missing(gang)
    if not reason and gang.state is GangState.FINISHED:
        reason = _being_deleted(gang)
    if gang.starts_about is not None and why:
        reason = f"{reason}; expected to start about {format_time(moment(gang.starts_about))}"
    created = min((member.pod.created for member in members), default=0.0)
    return GangView(
        gang.key.namespace,
        gang_label(gang.key),
        gang.state.value,
        reason,
        gang.size,
        tuple(map(_member_view, members)),
        gang.key.convention.value,
        why,
        moment(created) if created else None,
        moment(gang.starts_about) if gang.starts_about is not None else None,
    )


def allocation_listing(controller: Controller) -> Listing[AllocationView]:
    """What each pod of ours holds."""
    allocations = controller.ledger.allocations

    def make(key: Key) -> AllocationView | None:
        held = allocations.get(key[2])
        return None if held is None else allocation_view(controller, held)

    def read() -> Items[AllocationView]:
        return Items(sorted((one.namespace, one.name, uid) for uid, one in allocations.items()), make)

    return Listing(_revision(controller), read)


def allocation_view(controller: Controller, held: Allocation) -> AllocationView:
    """One pod's share."""
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
    return AllocationView(
        held.namespace,
        held.name,
        held.uid,
        held.assignment.node,
        held.requests[CPU] / 1000,
        held.requests[MEMORY],
        gpus,
        held.assignment.backend,
        devices,
        gang_name(controller, held.uid),
        held.strength.name.lower(),
    )


def gang_name(controller: Controller, uid: str) -> str:
    """The name of the gang that a pod of ours is in, "" for any other pod."""
    found = controller.member(uid)
    return "" if found is None else gang_label(found[0].key)


def gang_label(key: GangKey) -> str:
    """The name of a gang in its namespace, with its part if it has one."""
    return str(key).removeprefix(f"{key.namespace}/")


def _listed(key: GangKey) -> Key:
    return (key.namespace, key.name, key.convention.value, key.uid, key.part)


def _revision(controller: Controller) -> str:
    return f"{controller.registry.revision}-{controller.ledger.version}"


def _member_view(member: Member) -> MemberView:
    assignment = member.assignment
    node = member.bound or member.pod.node or (assignment.node if assignment is not None else member.promised)
    return MemberView(
        member.pod.name, member.pod.uid, node, assignment.backend if assignment is not None else ""
    )


def _being_bound(gang: Gang) -> str:
    """What a gang that has its places still waits for, in kube-scheduler's words where it has any."""
    refused = min(
        ((one.pod.name, one.pod.refusal) for one in gang.pending() if one.pod.refusal), default=None
    )
    if refused is None:
        return "placed, being bound"
    return f"placed; kube-scheduler says of {refused[0]}: {refused[1]}"


def _missing(gang: Gang) -> str:
    """How many members a gang that runs lacks to be as large as its size, "" for none; who succeeded isn't lacking."""
    there = sum(1 for one in gang.members.values() if one.alive or one.pod.phase == "Succeeded")
    if there >= gang.size:
        return ""
    are = "member is" if gang.size - there == 1 else "members are"
    return f"{gang.size - there} {are} missing; replacements are placed beside the others"


def _being_deleted(gang: Gang) -> str:
    """Why pods of a gang go that runs no more, "" where all of them have ended by themselves."""
    if any(one.pod.deleting and not one.pod.finished for one in gang.members.values()):
        return PODS_GOING + _by_whom(gang.history.entries)
    return ""


def _gone_view(gang: Gang) -> GangView:
    entries = gang.history.entries
    return GangView(
        gang.key.namespace,
        gang_label(gang.key),
        GONE,
        PODS_GONE + _by_whom(entries),
        gang.size,
        convention=gang.key.convention.value,
        former=tuple(sorted({entry.pod for entry in entries if entry.pod})),
    )


def _by_whom(entries: Sequence[Entry]) -> str:
    """Why its last pods were evicted, as the end of a sentence, "" where they weren't by us."""
    for entry in reversed(entries):
        if entry.what is HistoryKind.EVICTED:
            return f": {entry.detail or 'evicted'}"
        if entry.what in (HistoryKind.SEEN, HistoryKind.BOUND):
            break
    return ""


def _story(controller: Controller, gang: Gang, view: GangView) -> GangStory:
    history = gang.history
    entries = tuple(
        EntryView(moment(one.at), one.what.value, one.pod, one.detail, one.count, moment(one.until))
        for one in history.entries
    )
    revision = f"{_revision(controller)}-{history.noted}"
    return GangStory(view, _shapes(gang), entries, history.forgotten, revision)


def _shapes(gang: Gang) -> tuple[ShapeView, ...]:
    """What the living members ask for, equal ones together, in the order of their names."""
    living = sorted(gang.alive(), key=lambda member: member.pod.name)
    pods = [member.pod for member in living]
    counted = Counter(
        (pod.requests, tuple(sorted(pod.devices.items())), tuple(pod.requires.items())) for pod in pods
    )
    return tuple(
        ShapeView(members, amounts(requests), dict(devices), dict(requires))
        for (requests, devices, requires), members in counted.items()
    )
