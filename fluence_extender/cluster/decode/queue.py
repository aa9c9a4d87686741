"""Decode Queues and Reservations (fluence.flux-framework.org/v1alpha1), namespaces, and Kueue's LocalQueues.

The API server checks Queues and Reservations by the schema of ``deploy/base/queues.yaml``, but it doesn't check again
what it has stored under an older one. A field that can't be read isn't in force; the object's ``problems`` say so, and
its other fields count.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

import msgspec

from fluence_extender.cluster.decode.objects import (
    Int64,
    Metadata,
    StatusCondition,
    Time,
    Unread,
    tolerant_decoder,
)
from fluence_extender.cluster.decode.pod import LabelSelector
from fluence_extender.model.notation import DURATION_FORM, parse_duration
from fluence_extender.model.pod import Requirement
from fluence_extender.model.quantity import InvalidQuantity, Quantity, read_amount
from fluence_extender.model.queue import (
    KueueQueue,
    Namespace,
    NamespaceSelector,
    NodeReservation,
    OverrunAction,
    PastUse,
    PolicyName,
    PriorityClass,
    Queue,
    QueueLimits,
    QueuePreemption,
    QueueStatus,
    Quota,
    Reclaim,
    ReservationStatus,
    SchedulingOptions,
    Stop,
    TakenBy,
    Within,
)

ACCEPTED = "Accepted"
LONGEST_SHOWN = 40
"""The most characters of an invalid value that a message quotes."""

MOST_WEIGHT = 1_000_000

MOST = 2**61
"""Amounts of a quota are below this, so that sums over all queues of a cluster fit in 64 bits."""

RESOURCE_NAME = re.compile(
    r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)

Choice = TypeVar("Choice", bound=StrEnum)
Duration = str | int | float


class _Selection(msgspec.Struct):
    names: list[str] | None = None
    selector: LabelSelector | None = None


class _Scheduling(msgspec.Struct, rename="camel"):
    policy: str | None = None
    reservation_depth: Int64 | None = None
    queue_depth: Int64 | None = None
    starvation_after: Duration | None = None
    admission_timeout: Duration | None = None


class _Defaults(msgspec.Struct, rename="camel"):
    duration: Duration | None = None
    priority_class_name: str | None = None


class _Max(msgspec.Struct, rename="camel"):
    running: Int64 | None = None
    queued: Int64 | None = None
    running_per_user: Int64 | None = None
    queued_per_user: Int64 | None = None


class _Ageing(msgspec.Struct, rename="camel"):
    class_step: Duration | None = None


class _Preemption(msgspec.Struct, rename="camel"):
    reclaim: str | None = None
    within: str | None = None
    min_runtime: Duration | None = None
    by: str | None = None


class _Queue(msgspec.Struct, rename="camel"):
    namespaces: _Selection | None = None
    default_for: list[str] | None = None
    scheduling: _Scheduling | None = None
    defaults: _Defaults | None = None
    max_duration: Duration | None = None
    overrun: str | None = None
    max: _Max | None = None
    stop: str | None = None
    parent: str | None = None
    guaranteed: dict[str, Quantity] | None = None
    limit: dict[str, Quantity] | None = None
    lendable: dict[str, Quantity] | None = None
    weight: float | None = None
    half_life: Duration | None = None
    ageing: _Ageing | None = None
    preemption: _Preemption | None = None


class _Reservation(msgspec.Struct):
    start: Time | None = None
    duration: Duration | None = None
    nodes: _Selection | None = None
    queues: list[str] | None = None
    reason: str | None = None


class _Condition(StatusCondition, rename="camel"):
    last_transition_time: str = ""


class _PastUse(msgspec.Struct):
    at: Time | None = None
    amounts: dict[str, float] | None = None
    users: dict[str, dict[str, float]] | None = None


class _QueueStatus(msgspec.Struct, rename="camel"):
    conditions: list[_Condition] | None = None
    waiting: Int64 | None = None
    admitted: Int64 | None = None
    stopped_since: Time | None = None
    used: dict[str, str] | None = None
    borrowed: dict[str, str] | None = None
    share: float | None = None
    usage: _PastUse | None = None


class _ReservationStatus(msgspec.Struct):
    conditions: list[_Condition] | None = None
    nodes: Int64 | None = None


class _PriorityClass(msgspec.Struct, rename="camel"):
    metadata: Metadata
    value: Int64 | None = None
    global_default: bool | None = None


_queue = tolerant_decoder("Queue", _Queue, _QueueStatus)
_reservation = tolerant_decoder("Reservation", _Reservation, _ReservationStatus)
_plain = tolerant_decoder("object", Unread, Unread)
_priority_class = msgspec.json.Decoder(_PriorityClass).decode


class _Reader:
    """Reads the values of fields and collects their problems."""

    def __init__(self, problem: str) -> None:
        self.problems = [f"it can't be read in full: {problem}"] if problem else []

    def duration(self, name: str, value: Duration | None) -> float | None:
        """Return the seconds of a duration, None if there is none that can be read."""
        if value is None:
            return None
        seconds = parse_duration(str(value))
        if seconds is None:
            self.refuse(name, value, f"it must be {DURATION_FORM}")
        return seconds

    def choice(self, name: str, value: str | None, default: Choice) -> Choice:
        """Return the value as a member of the enumeration of ``default``, or ``default`` itself."""
        choices = type(default)
        if value is None:
            return default
        if value not in set(choices):
            self.refuse(name, value, f"it must be one of {', '.join(choices)}")
            return default
        return choices(value)

    def weight(self, value: float | None) -> float | None:
        """Return a weight, None if there is none that can be used."""
        if value is not None and not 0 < value <= MOST_WEIGHT:
            self.refuse("weight", value, f"it must be more than 0 and at most {MOST_WEIGHT}")
            return None
        return value

    def positive(self, name: str, value: int | None) -> int | None:
        """Return a number of at least 1, None if there is none."""
        if value is not None and value < 1:
            self.refuse(name, value, "it must be at least 1")
            return None
        return value

    def amounts(self, name: str, found: Mapping[str, Quantity] | None) -> dict[str, int]:
        """Return the amounts of resources that can be read."""
        kept: dict[str, int] = {}
        for resource, quantity in sorted((found or {}).items()):
            try:
                amount = read_amount(resource, quantity)
            except InvalidQuantity:
                self.refuse(
                    f"{name}.{resource[:LONGEST_SHOWN]}", quantity, "it must be a quantity such as 2 or 64Gi"
                )
                continue
            if not 0 <= amount < MOST:
                self.refuse(
                    f"{name}.{resource[:LONGEST_SHOWN]}", quantity, "it must be from 0 to less than 2^61"
                )
            elif RESOURCE_NAME.fullmatch(resource) is None:
                self.refuse(f"{name}.{resource[:LONGEST_SHOWN]}", quantity, "that is no name of a resource")
            else:
                kept[resource] = amount
        return kept

    def refuse(self, name: str, value: object, why: str) -> None:
        """Note that a field isn't in force."""
        self.problems.append(f"spec.{name} is {str(value)[:LONGEST_SHOWN]!r}, which isn't in force: {why}")


def decode_queue(raw: bytes) -> Queue:
    """Decode a Queue."""
    meta, spec, status, problem = _queue(raw)
    reader = _Reader(problem)
    defaults, most = spec.defaults or _Defaults(), spec.max or _Max()
    names, labels = _selection(spec.namespaces)
    reported = _queue_status(status)
    stop = reader.choice("stop", spec.stop, Stop.NONE)
    return Queue(
        meta.name,
        namespaces=NamespaceSelector(names, labels),
        default_for=frozenset(spec.default_for or ()),
        scheduling=_scheduling(spec.scheduling or _Scheduling(), reader),
        default_duration=reader.duration("defaults.duration", defaults.duration),
        default_priority_class=defaults.priority_class_name or "",
        max_duration=reader.duration("maxDuration", spec.max_duration),
        overrun=reader.choice("overrun", spec.overrun, OverrunAction.EXTEND),
        limits=QueueLimits(
            max(most.running or 0, 0),
            max(most.queued or 0, 0),
            max(most.running_per_user or 0, 0),
            max(most.queued_per_user or 0, 0),
        ),
        stop=stop,
        parent=spec.parent or "",
        quota=Quota(
            reader.amounts("guaranteed", spec.guaranteed),
            reader.amounts("limit", spec.limit),
            reader.amounts("lendable", spec.lendable),
        ),
        weight=reader.weight(spec.weight),
        half_life=reader.duration("halfLife", spec.half_life),
        class_step=reader.duration("ageing.classStep", (spec.ageing or _Ageing()).class_step),
        preemption=_preemption(spec.preemption or _Preemption(), reader),
        stopped_since=reported.stopped_since if reported is not None and stop is not Stop.NONE else None,
        problems=tuple(reader.problems),
        uid=meta.uid,
        created=meta.created,
        status=reported,
    )


def _scheduling(spec: _Scheduling, reader: _Reader) -> SchedulingOptions:
    policy = reader.choice("scheduling.policy", spec.policy, PolicyName.EASY)
    return SchedulingOptions(
        policy if spec.policy == policy else None,
        reader.positive("scheduling.reservationDepth", spec.reservation_depth),
        reader.positive("scheduling.queueDepth", spec.queue_depth),
        reader.duration("scheduling.starvationAfter", spec.starvation_after),
        reader.duration("scheduling.admissionTimeout", spec.admission_timeout),
    )


def decode_reservation(raw: bytes) -> NodeReservation:
    """Decode a Reservation; one without a time that can be read closes nothing."""
    meta, spec, status, problem = _reservation(raw)
    reader = _Reader(problem)
    names, labels = _selection(spec.nodes)
    duration = reader.duration("duration", spec.duration)
    # A list of nodes or queues that can't be read must not close all nodes, or those nodes to everybody.
    readable = spec.start is not None and not problem
    return NodeReservation(
        meta.name,
        start=spec.start.timestamp() if spec.start else 0.0,
        duration=duration if duration and readable else 0.0,
        names=names,
        labels=labels,
        queues=frozenset(spec.queues or ()),
        reason=spec.reason or "",
        problems=tuple(reader.problems),
        uid=meta.uid,
        status=_reservation_status(status),
    )


def decode_namespace(raw: bytes) -> Namespace:
    """Decode a namespace (core/v1)."""
    meta, *_ = _plain(raw)
    return Namespace(meta.name, meta.labels or {})


def decode_priority_class(raw: bytes) -> PriorityClass:
    """Decode a PriorityClass (scheduling.k8s.io/v1), whose value is no part of a spec."""
    found = _priority_class(raw)
    return PriorityClass(found.metadata.name, found.value or 0, bool(found.global_default))


def decode_kueue_queue(raw: bytes) -> KueueQueue:
    """Decode a LocalQueue of Kueue (kueue.x-k8s.io)."""
    meta, *_ = _plain(raw)
    return KueueQueue(meta.namespace, meta.name)


def _selection(found: _Selection | None) -> tuple[frozenset[str], tuple[Requirement, ...]]:
    """Return the names and the label selector of a selection."""
    if found is None:
        return frozenset(), ()
    return frozenset(found.names or ()), (found.selector or LabelSelector()).requirements


def _accepted(conditions: list[_Condition] | None) -> tuple[str, str] | None:
    """Return what isn't in force and since when, as was written last; None if nothing was written."""
    for one in conditions or ():
        if one.type == ACCEPTED:
            return "" if one.status == "True" else one.message, one.last_transition_time
    return None


def _preemption(stated: _Preemption, reader: _Reader) -> QueuePreemption:
    return QueuePreemption(
        reader.choice("preemption.reclaim", stated.reclaim, Reclaim.NEVER),
        reader.choice("preemption.within", stated.within, Within.LOWER_PRIORITY),
        reader.duration("preemption.minRuntime", stated.min_runtime) or 0.0,
        reader.choice("preemption.by", stated.by, TakenBy.SUSPEND),
    )


def _queue_status(status: _QueueStatus) -> QueueStatus | None:
    accepted = _accepted(status.conditions)
    if accepted is None:
        return None
    since = status.stopped_since
    return QueueStatus(
        status.waiting or 0,
        status.admitted or 0,
        since.timestamp() if since else None,
        accepted[0],
        status.used or {},
        status.borrowed or {},
        status.share or 0.0,
        _past_use(status.usage),
        accepted[1],
    )


def _past_use(found: _PastUse | None) -> PastUse | None:
    if found is None or found.at is None:
        return None
    amounts = [found.amounts or {}, *(found.users or {}).values()]
    # What can't have been used isn't believed.
    if any(not 0 <= amount < math.inf for some in amounts for amount in some.values()):
        return None
    return PastUse(found.at.timestamp(), found.amounts or {}, found.users or {})


def _reservation_status(status: _ReservationStatus) -> ReservationStatus | None:
    accepted = _accepted(status.conditions)
    return None if accepted is None else ReservationStatus(status.nodes or 0, *accepted)
