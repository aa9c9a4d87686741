"""The queues, the line, and the nodes that are kept free."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct

from fluence_extender.api.values import Namespace, Time
from fluence_extender.model.gang import Convention

QueueName = Annotated[
    str,
    Meta(description="The queue's name; empty for gangs that are in none.", examples=["physics"]),
]

ExpectedStart = Annotated[
    Time | None,
    Meta(
        description="When it is expected to start, as far as what runs declares how long it runs; null when that is "
        "unknown.",
        examples=["2026-06-30T14:30:00Z"],
    ),
]

NodeNames = Annotated[tuple[str, ...], Meta(description="The nodes that are kept free.", examples=[["n7"]])]


class QueueSummary(Struct, frozen=True):
    """One queue: how it is set, and how much is in it."""

    name: QueueName
    stop: Annotated[
        Literal["None", "Hold", "Drain", "Evict"],
        Meta(
            description="None: it works; Hold: none of its work starts; Drain: it takes no new work; Evict: running "
            "work goes back in line as well.",
            examples=["None"],
        ),
    ]
    waiting: Annotated[int, Meta(description="How many gangs wait.", examples=[12])]
    running: Annotated[int, Meta(description="How many gangs have places.", examples=[3])]
    limits: Annotated[
        Mapping[str, int],
        Meta(
            description="How many gangs may run and be in line, in all and of one user; only those that are limited.",
            examples=[{"running": 20, "queuedPerUser": 10}],
        ),
    ]
    head: Annotated[
        str,
        Meta(
            description="The first gang in line that may start, as NAMESPACE/NAME; empty when there is none, or when "
            "the caller may not list its pods.",
            examples=["lab/train"],
        ),
    ]
    expected_start: ExpectedStart
    oldest: Annotated[
        Time | None,
        Meta(description="When the gang was created that waits longest.", examples=["2026-06-30T12:00:00Z"]),
    ]
    problems: Annotated[
        tuple[str, ...],
        Meta(description="What of its object isn't in force, and why.", examples=[[]]),
    ]
    parent: Annotated[
        str, Meta(description="The queue that it is a part of; empty for none.", examples=["research"])
    ]
    weight: Annotated[float, Meta(description="By what its share is divided.", examples=[2.0])]
    guaranteed: Annotated[
        Mapping[str, str],
        Meta(
            description="What it is guaranteed, as far as the cluster and its parent have it.",
            examples=[{"cpu": "200"}],
        ),
    ]
    limit: Annotated[
        Mapping[str, str],
        Meta(description="What it and the queues in it may use at most.", examples=[{"cpu": "400"}]),
    ]
    used: Annotated[
        Mapping[str, str],
        Meta(
            description="What its gangs and those of the queues in it hold; empty where no queue has a quota or a "
            "weight.",
            examples=[{"cpu": "250"}],
        ),
    ]
    borrowed: Annotated[
        Mapping[str, str], Meta(description="What of that isn't guaranteed to it.", examples=[{"cpu": "50"}])
    ]
    share: Annotated[
        float,
        Meta(
            description="The largest part that it has of any resource of the cluster, with what it had before, divided "
            "by its weight. The queue with the smallest share is served first.",
            examples=[0.125],
        ),
    ]
    has_object: Annotated[
        bool,
        Meta(
            description="Whether a Queue object states it. The queue default exists without one, and then can't be "
            "stopped.",
            examples=[True],
        ),
    ]


class QueueEntry(Struct, frozen=True):
    """A gang in line."""

    position: Annotated[
        int, Meta(description="Its place in the line of all queues, from 1 on.", examples=[4])
    ]
    namespace: Namespace
    name: Annotated[str, Meta(description="The gang's name.", examples=["train"])]
    convention: Annotated[
        Convention, Meta(description="How its pods declare that they belong together.", examples=["job"])
    ]
    queue: QueueName
    user: Annotated[
        str,
        Meta(
            description="Whose limits and share it counts for: who submitted it, or all service accounts of a "
            "namespace; where nobody is recorded, the namespace, for all such work in it.",
            examples=["ada"],
        ),
    ]
    priority: Annotated[int, Meta(description="The highest priority of its pods.", examples=[0])]
    created: Annotated[
        Time | None,
        Meta(
            description="When it was created, which counts for its place.", examples=["2026-06-30T12:00:00Z"]
        ),
    ]
    held: Annotated[bool, Meta(description="Whether its user holds it back.", examples=[False])]
    reason: Annotated[
        str, Meta(description="Why it waits; empty when it is about to be placed.", examples=["held: …"])
    ]
    why: Annotated[
        str, Meta(description="The kind of the reason; empty without one.", examples=["BehindReservation"])
    ]
    expected_start: ExpectedStart
    reserved_nodes: NodeNames


class ReservedNodes(Struct, frozen=True):
    """Nodes that are kept free: for a gang in line, or by an administrator."""

    kind: Annotated[
        Literal["gang", "reservation"],
        Meta(
            description="gang: the queue keeps them free for a gang; reservation: an administrator has made a "
            "Reservation.",
            examples=["gang"],
        ),
    ]
    namespace: Annotated[
        str, Meta(description="The gang's namespace; empty for a Reservation.", examples=["lab"])
    ]
    name: Annotated[str, Meta(description="The gang's or the Reservation's name.", examples=["train"])]
    start: Annotated[
        Time | None,
        Meta(
            description="From when on; null where nobody knows when the gang can start, so that nothing else starts "
            "there from now on.",
            examples=["2026-06-30T14:30:00Z"],
        ),
    ]
    end: Annotated[
        Time | None,
        Meta(
            description="Until when; null where the gang doesn't say how long it runs.",
            examples=["2026-06-30T16:30:00Z"],
        ),
    ]
    count: Annotated[int, Meta(description="How many nodes.", examples=[1])]
    nodes: Annotated[
        tuple[str, ...],
        Meta(
            description="Which nodes. Those of a Reservation are for callers who may list nodes.",
            examples=[["n7"]],
        ),
    ]
    queues: Annotated[
        tuple[str, ...],
        Meta(description="The queues whose gangs may use them all the while.", examples=[["physics"]]),
    ]
    reason: Annotated[str, Meta(description="What the Reservation is for.", examples=["firmware"])]
