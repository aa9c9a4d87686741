"""The states of one member, from waiting for a place to bound and ended.

A member's node is decided here. The service binds a direct pod at once. It nominates any other pod, and binds it when
kube-scheduler calls the bind verb. Each write takes time and may fail, and the reports about writes come in any
order. What has to be done for a member, and whether its place may still be taken from it, follows from its state
alone. `TRANSITIONS` lists every state change there is, and `move` is the only code that changes a state. An event
that the table doesn't list for a state is a mistake in this program, and `move` raises `ImpossibleTransition`.

Invariants:

* A waiting member holds nothing in the ledger. A member that is planned, steered or binding holds its assignment
  there, at least as planned. A bound member's allocation has the strength bound.
* The place of a member that is binding or bound isn't taken from it, because its Binding may exist.
* Each state has its own data (`Waiting`, `Placed`, `Binding`, `Bound`, `Ended`), which ends with the state. Facts that
  outlive states (refusals, a failed attempt that was our own doing) are fields of the member.

The history of the gang has an entry for each event in `HISTORY` that changes the state. Planning and dropping are noted
once for the gang, not once for each member.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from fluence_extender.gangs.lifecycle.limits import NEVER
from fluence_extender.model.assignment import Assignment
from fluence_extender.model.gang import HistoryKind
from fluence_extender.model.promise import Promise

if TYPE_CHECKING:
    from fluence_extender.gangs.membership.gang import Gang, Member


class ImpossibleTransition(Exception):
    """A member got an event that its state doesn't allow."""


class MemberState(StrEnum):
    """The states, as the documentation names them."""

    WAITING = "waiting"
    PLANNED = "planned"
    STEERED = "steered"
    BINDING = "binding"
    BOUND = "bound"
    ENDED = "ended"


class MemberEvent(StrEnum):
    """What moves a member from state to state, as the documentation names it."""

    PLAN = "a place is planned"
    RESUME = "its steered place is resumed by a new leader"
    STEER = "steering starts"
    STEER_FAILED = "the write fails"
    NOMINATION_CLEARED = "its nomination is cleared"
    DROP = "its place is dropped"
    BIND = "our Binding starts"
    BIND_FAILED = "the Binding fails"
    BIND_SUCCEEDED = "our Binding is accepted"
    SEEN_BOUND = "the watch shows its node"
    TAKEN_OVER = "it was bound before we started"
    STAND_DOWN = "another replica leads"
    RELEASED = "an audit releases its hold"
    END = "the pod ends"


@dataclass(frozen=True, slots=True)
class Waiting:
    """The data of a member without a place.

    ``held_node`` is the node that is held for it while victims leave. ``clearing``: our nomination is being taken back.
    ``stalled``: it was given up because kube-scheduler didn't request its node. ``steered_to`` is the node that another
    replica, the leader, has steered it to.
    """

    held_node: str = ""
    clearing: bool = False
    stalled: bool = False
    steered_to: str = ""


@dataclass(frozen=True, slots=True)
class Placed:
    """The data of a member with a place.

    ``nomination_seen``: the watch has shown our nomination. ``requested_at`` is when it was steered or when
    kube-scheduler last requested its node. ``unbound`` is why its last Binding failed, "" if none has.
    """

    nomination_seen: bool = False
    requested_at: float = NEVER
    unbound: str = ""


@dataclass(frozen=True, slots=True)
class Binding(Placed):
    """The data of a member with a Binding under way. ``steer_again``: its node has to be written again meanwhile."""

    steer_again: bool = False


@dataclass(frozen=True, slots=True)
class Bound:
    """The data of a bound member: its ``node``, known from our own Binding before the watch shows it."""

    node: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The data of a member whose pod has succeeded or failed: the ``node`` it ran on, "" if it was never bound."""

    node: str = ""


StateData = Waiting | Placed | Binding | Bound | Ended

WAITING, PLANNED, STEERED = MemberState.WAITING, MemberState.PLANNED, MemberState.STEERED
BINDING, BOUND, ENDED = MemberState.BINDING, MemberState.BOUND, MemberState.ENDED

MOVABLE = (PLANNED, STEERED)
"""The states of members whose place can be taken from them."""

PLACED = (*MOVABLE, BINDING)
"""The states of members with a place to which they aren't bound yet."""

NOT_BOUND = (WAITING, *PLACED)


def _rows() -> Iterator[tuple[MemberState, MemberEvent, MemberState]]:
    on = MemberEvent
    yield WAITING, on.PLAN, PLANNED
    yield WAITING, on.RESUME, STEERED
    yield PLANNED, on.STEER, STEERED
    for state in MOVABLE:
        yield state, on.STEER_FAILED, PLANNED
        yield state, on.NOMINATION_CLEARED, PLANNED
        yield state, on.DROP, WAITING
        yield state, on.BIND, BINDING
    yield BINDING, on.BIND, BINDING
    yield BINDING, on.BIND_FAILED, STEERED
    # While the Binding is under way, events of steering are only recorded. They count once the Binding has failed.
    for event in (on.STEER, on.STEER_FAILED, on.NOMINATION_CLEARED):
        yield BINDING, event, BINDING
    for state in MemberState:
        yield state, on.END, ENDED
        yield state, on.SEEN_BOUND, BOUND
        yield state, on.TAKEN_OVER, BOUND
        # A Binding may succeed after we have stood down, and the watch may show it first.
        yield state, on.BIND_SUCCEEDED, ENDED if state is ENDED else BOUND
        yield state, on.STAND_DOWN, WAITING if state in NOT_BOUND else state
        yield state, on.RELEASED, WAITING if state in NOT_BOUND else state


TRANSITIONS = {(state, event): after for state, event, after in _rows()}

DATA: dict[MemberState, type[StateData]] = {
    WAITING: Waiting,
    PLANNED: Placed,
    STEERED: Placed,
    BINDING: Binding,
    BOUND: Bound,
    ENDED: Ended,
}

HISTORY = {
    MemberEvent.BIND_SUCCEEDED: HistoryKind.BOUND,
    MemberEvent.SEEN_BOUND: HistoryKind.BOUND,
    MemberEvent.TAKEN_OVER: HistoryKind.TAKEN_OVER,
    MemberEvent.END: HistoryKind.RELEASED,
}
"""The entries of the history. Steering has entries of its own: a node that is written again is noted again."""


def move(
    gang: Gang,
    member: Member,
    event: MemberEvent,
    assignment: Assignment | None = None,
    detail: str = "",
    **data: Any,
) -> None:
    """Change the state of ``member`` by ``event``, and note it in the history of ``gang``.

    ``assignment`` is its new place, None for the one it has. ``detail`` is the text of the history's entry. ``data``
    are changed fields of the new state's data; fields that both states have go on. Raises `ImpossibleTransition`.
    """
    before, after = member.state, TRANSITIONS.get((member.state, event))
    if after is None:
        raise ImpossibleTransition(f"member {member.pod.key} is {before}, which excludes that {event}")
    kind = HISTORY.get(event)
    if kind is not None and after is not before and (after is not ENDED or member.assignment is not None):
        gang.note(kind, member.pod.name, detail)
    if before is PLANNED and after is BINDING and not member.pod.direct:
        data.setdefault("steer_again", True)
    member.promise = _promise(gang, member, event, after)
    member.state = after
    member.data = _data(member.data, after, data)
    if assignment is not None:
        member.assignment = assignment
    elif after is WAITING or after is ENDED:
        member.assignment = None


def _promise(gang: Gang, member: Member, event: MemberEvent, after: MemberState) -> Promise | None:
    """Return what the gang is promised by the member's place after ``event``.

    A pod that is first seen with a node was placed by an earlier leader, as it records, or wasn't placed by us at all.
    """
    if after is WAITING:
        return None
    if event is MemberEvent.PLAN:
        return Promise(gang.key, gang.size, gang.queue)
    if event is MemberEvent.RESUME:
        return Promise.recorded(member.pod, gang.key) or Promise(gang.key, gang.size, gang.queue)
    if after is BOUND and member.promise is None:
        return Promise.recorded(member.pod, gang.key)
    return member.promise


def _data(old: StateData, after: MemberState, changes: dict[str, Any]) -> StateData:
    wanted = DATA[after]
    if type(old) is wanted and after is not WAITING:
        return replace(old, **changes) if changes else old
    if isinstance(old, Placed) and issubclass(wanted, Placed):
        return wanted(old.nomination_seen, old.requested_at, **{"unbound": old.unbound, **changes})
    if isinstance(old, Bound) and wanted is Ended:
        return Ended(old.node)
    return wanted(**changes)


def update(member: Member, **data: Any) -> None:
    """Change data of the member's state, which stays."""
    member.data = replace(member.data, **data)


def steer_again(gang: Gang, member: Member, event: MemberEvent, **data: Any) -> None:
    """Have the node of a placed member written again, because of ``event``."""
    if member.binding:
        # A direct pod has no nomination, and its Binding is repeated where it is made.
        data["steer_again"] = member.pod.foreseen or not member.pod.direct
    move(gang, member, event, **data)


def end_binding(gang: Gang, member: Member, event: MemberEvent, **data: Any) -> None:
    """Take note by ``event`` that no Binding of the member is under way any more."""
    old = member.data
    move(gang, member, event, **data)
    if isinstance(old, Binding) and old.steer_again:
        move(gang, member, MemberEvent.NOMINATION_CLEARED)
