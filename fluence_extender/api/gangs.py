"""Gangs, their members and histories, and what their pods hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct

from fluence_extender.api.values import (
    Amounts,
    Devices,
    GangName,
    Held,
    Leading,
    Namespace,
    PodName,
    Time,
    Uid,
    User,
)
from fluence_extender.model.gang import Convention, HistoryKind

State = Literal["waiting", "planned", "committed", "bound", "finished", "gone"]


class Member(Struct, frozen=True):
    """One pod of a gang."""

    pod: PodName
    uid: Uid
    node: Annotated[
        str, Meta(description="Its planned or bound node; empty while it has none.", examples=["n7"])
    ]
    backend: Annotated[
        str, Meta(description="Its planned or bound backend; empty while it has none.", examples=["ibm-a"])
    ]
    run: Annotated[
        str,
        Meta(
            description="The run of its owner that it belongs to; a gang that was submitted again may have members of "
            "several.",
            examples=["3f0c1a52-0d8e-4c39-9c5b-6f1d7d0a4b11"],
        ),
    ] = ""
    ended: Annotated[bool, Meta(description="Whether it has ended.", examples=[False])] = False
    failed: Annotated[bool, Meta(description="Whether it has failed.", examples=[False])] = False


class QuantumPart(Struct, frozen=True):
    """What the pods of a gang are in a quantum job, and where the task is."""

    role: Annotated[
        Literal["producer", "consumer", "observed"],
        Meta(
            description="producer: submits the task; consumer: waits for it; observed: submits a task that nobody "
            "waits for.",
            examples=["producer"],
        ),
    ]
    partner: Annotated[
        str,
        Meta(
            description="The gang of the consumers, or that of the producer; empty for an observed pod.",
            examples=["vqe"],
        ),
    ]
    task: Annotated[
        str,
        Meta(description="The vendor's id of the task; empty while none is known.", examples=["7d3f-42"]),
    ]
    status: Annotated[
        str,
        Meta(
            description="Where the task is in its vendor's queue, or why consumers were released.",
            examples=["queued, position 3"],
        ),
    ]


class Gang(Struct, frozen=True):
    """Pods that are placed together or not at all."""

    namespace: Namespace
    name: Annotated[str, Meta(description="The group's name, or that of a single pod.", examples=["vqe"])]
    convention: Annotated[
        Convention, Meta(description="How its pods declare that they belong together.", examples=["group"])
    ]
    owner: Annotated[
        str,
        Meta(
            description="Kind and name of the object that owns its pods; empty where none does, or several do.",
            examples=["Job/vqe"],
        ),
    ]
    state: Annotated[
        State,
        Meta(
            description="waiting: has no place; planned: has one; committed: members are being bound, "
            "or have to be replaced; bound: every member has its node; finished: no member is left running; "
            "gone: its pods are gone.",
            examples=["waiting"],
        ),
    ]
    reason: Annotated[
        str,
        Meta(
            description="Why it is in this state; empty when there is nothing to explain.",
            examples=["waiting for members (3 of 8 exist)"],
        ),
    ]
    why: Annotated[
        str,
        Meta(
            description="The kind of the reason; empty while nothing holds the gang up.",
            examples=["WaitingForMembers"],
        ),
    ]
    size: Annotated[int, Meta(description="How many members make it whole.", examples=[8])]
    created: Annotated[
        Time | None,
        Meta(description="When its first member was created.", examples=["2026-06-30T12:00:00Z"]),
    ]
    expected_start: Annotated[
        Time | None,
        Meta(
            description="When it is expected to get its places, as far as running pods declare how long they run; "
            "null when that is unknown.",
            examples=["2026-06-30T14:30:00Z"],
        ),
    ]
    started: Annotated[
        Time | None,
        Meta(description="When its first living member started to run.", examples=["2026-06-30T12:00:05Z"]),
    ]
    expected_end: Annotated[
        Time | None,
        Meta(
            description="When its last living member ends, as far as all of them, their Jobs or their queue say how "
            "long they run; null when that is unknown.",
            examples=["2026-06-30T16:30:00Z"],
        ),
    ]
    queue: Annotated[str, Meta(description="Its queue; empty when it is in none.", examples=["physics"])]
    user: User
    position: Annotated[
        int | None,
        Meta(
            description="Its place in the line of all queues, from 1 on; null when it isn't in line.",
            examples=[4],
        ),
    ]
    preemptions: Annotated[
        int,
        Meta(
            description="How often it was preempted, its requeued runs included; counted since the service started.",
            examples=[3],
        ),
    ]
    preempted: Annotated[
        Time | None,
        Meta(description="When it was last preempted.", examples=["2026-06-30T12:00:00Z"]),
    ]
    members: Annotated[tuple[Member, ...], Meta(description="The members that exist.")]
    former: Annotated[
        tuple[str, ...],
        Meta(
            description="The names of the pods of a gang that is gone, as far as its history names them.",
            examples=[[]],
        ),
    ]
    quantum: Annotated[
        QuantumPart | None,
        Meta(
            description="Its part in a quantum job; null for a gang that has none.",
            examples=[
                {"role": "producer", "partner": "vqe", "task": "7d3f-42", "status": "queued, position 3"}
            ],
        ),
    ]


class Shape(Struct, frozen=True):
    """What each of several equal members of a gang requests."""

    members: Annotated[int, Meta(description="How many members request this.", examples=[8])]
    requests: Amounts
    devices: Annotated[
        Devices, Meta(description="Virtual resources requested, by type.", examples=[{"qpu": 1}])
    ]
    requires: Annotated[
        Mapping[str, str],
        Meta(description="Required values of the devices' attributes.", examples=[{"vendor": "ibm"}]),
    ]


class Entry(Struct, frozen=True):
    """One entry of a gang's history."""

    at: Annotated[Time, Meta(description="When it first happened.", examples=["2026-06-30T12:00:00.125000Z"])]
    what: Annotated[HistoryKind, Meta(description="What happened.", examples=["planned"])]
    pod: Annotated[
        str,
        Meta(
            description="The pod that it happened to; empty for the gang or several pods.", examples=["vqe-0"]
        ),
    ]
    detail: Annotated[str, Meta(description="The particulars.", examples=["on n1, n2 with ibm-a"])]
    count: Annotated[int, Meta(description="How often it happened in a row.", examples=[1])]
    until: Annotated[
        Time, Meta(description="When it last happened.", examples=["2026-06-30T12:00:00.125000Z"])
    ]


class GangDetail(Gang, frozen=True):
    """A gang with what it requests and what has happened to it."""

    notes: Annotated[
        tuple[str, ...],
        Meta(
            description="What is to be known of it beside its reason: labels and annotations that have no effect, what "
            "states the size that it waits for, and what to do.",
            examples=[[]],
        ),
    ]
    asks: Annotated[
        tuple[Shape, ...], Meta(description="What its members request; equal members count together.")
    ]
    fitting: Annotated[
        int | None,
        Meta(
            description="How many of its members fit, by its reason; null where other things than amounts of nodes "
            "are lacking.",
            examples=[2],
        ),
    ]
    lacking: Annotated[
        tuple[str, ...],
        Meta(description="The resources of nodes that the next member lacks.", examples=[["cpu"]]),
    ]
    history: Annotated[
        tuple[Entry, ...],
        Meta(description="What has happened to it, in order: the first entries and the newest."),
    ]
    forgotten: Annotated[int, Meta(description="Entries that were dropped in between.", examples=[0])]
    leading: Leading


class Allocation(Struct, frozen=True):
    """What one pod holds."""

    namespace: Namespace
    pod: PodName
    uid: Uid
    node: Annotated[str, Meta(description="The node that the pod has its share of.", examples=["n7"])]
    core: Annotated[float, Meta(description="Cores; a pod may hold a part of one.", examples=[1.5])]
    memory: Annotated[int, Meta(description="Memory in bytes.", examples=[2147483648])]
    gpu: Annotated[int, Meta(description="Whole gpus.", examples=[0])]
    backend: Annotated[str, Meta(description="The backend held; empty when none is.", examples=["ibm-a"])]
    devices: Annotated[
        Devices,
        Meta(
            description="Virtual resources held, by type, and claimed devices by class.",
            examples=[{"qpu": 1}],
        ),
    ]
    claimed: Annotated[
        tuple[str, ...],
        Meta(
            description="The devices that its claims were allocated, by driver, pool and name.",
            examples=[["gpu.example.com/n7/gpu-0"]],
        ),
    ]
    gang: GangName
    claim: Held
