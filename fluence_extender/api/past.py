"""Past work, and what it has used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct

from fluence_extender.api.queues import QueueName
from fluence_extender.api.values import Amounts, Namespace, Time
from fluence_extender.model.resources import CPU, MEMORY

UserName = Annotated[
    str,
    Meta(
        description="Who submitted it; where that isn't recorded, the namespace, for all such work in it.",
        examples=["ada"],
    ),
]

AccountName = Annotated[
    str, Meta(description="The account that its label names; empty without one.", examples=["grant-17"])
]


class DeviceSeconds(Struct, frozen=True):
    """How long virtual devices of one type and backend were held."""

    type: Annotated[str, Meta(description="The type.", examples=["qpu"])]
    backend: Annotated[str, Meta(description="The backend that served it.", examples=["ibm-a"])]
    seconds: Annotated[int, Meta(description="Devices times seconds.", examples=[5400])]


class UsageRow(Struct, frozen=True):
    """What one queue, user, namespace or account, or all on one day, has used."""

    name: Annotated[
        str,
        Meta(
            description="The queue, user, namespace, account or day (UTC); empty for work without one.",
            examples=["ada"],
        ),
    ]
    seconds: Annotated[
        Mapping[str, float],
        Meta(
            description="Amounts times seconds by resource name: cpu in core-seconds, memory in byte-seconds.",
            examples=[{"cpu": 7200.0, "memory": 7730941132800, "nvidia.com/gpu": 3600}],
        ),
    ]
    devices: Annotated[tuple[DeviceSeconds, ...], Meta(description="The virtual devices that were held.")]


class HeldDevice(Struct, frozen=True):
    """Virtual devices of one type and backend that were held together."""

    type: Annotated[str, Meta(description="The type.", examples=["qpu"])]
    backend: Annotated[str, Meta(description="The backend that served it.", examples=["ibm-a"])]
    count: Annotated[int, Meta(description="How many.", examples=[1])]


class StartMove(Struct, frozen=True):
    """A promised start that moved later."""

    at: Annotated[Time, Meta(description="When it moved.", examples=["2026-06-30T12:00:00Z"])]
    promised: Annotated[
        Time, Meta(description="The start that was promised.", examples=["2026-06-30T13:00:00Z"])
    ]
    start: Annotated[
        Time | None,
        Meta(description="The new one; null when it became unknown.", examples=["2026-06-30T14:00:00Z"]),
    ]


class WorkRecord(Struct, frozen=True):
    """One life of a gang: from its first pod's start until its last pod's end."""

    run: Annotated[
        str,
        Meta(description="Its key, which no other life has.", examples=["5f0c9f0e2f0f3c9f7a105c1d4a53b1a2"]),
    ]
    namespace: Namespace
    name: Annotated[str, Meta(description="The gang's name.", examples=["train"])]
    convention: Annotated[
        str, Meta(description="How its pods declared that they belong together.", examples=["job"])
    ]
    workload: Annotated[
        str, Meta(description="The owner of its pods; empty without one.", examples=["job/train"])
    ]
    queue: QueueName
    user: UserName
    account: AccountName
    created: Annotated[Time, Meta(description="When it was created.", examples=["2026-06-30T11:00:00Z"])]
    started: Annotated[
        Time, Meta(description="When its first pod started.", examples=["2026-06-30T12:00:00Z"])
    ]
    ended: Annotated[
        Time | None,
        Meta(description="When its last pod ended; null while one runs.", examples=["2026-06-30T13:00:00Z"]),
    ]
    waited: Annotated[int, Meta(description="Seconds from its creation to its start.", examples=[3600])]
    outcome: Annotated[
        Literal["", "Succeeded", "Failed", "Rejected", "Evicted", "Deleted", "Lost"],
        Meta(
            description="How it ended, by the pod that ended worst; empty while one runs.",
            examples=["Succeeded"],
        ),
    ]
    promised: Annotated[
        Time | None,
        Meta(
            description="The first start that it was promised; null without one.",
            examples=["2026-06-30T12:00:00Z"],
        ),
    ]
    moves: Annotated[tuple[StartMove, ...], Meta(description="How the promised start moved.")]
    pods: Annotated[int, Meta(description="How many pods it had.", examples=[4])]
    nodes: Annotated[
        tuple[str, ...], Meta(description="Where they ran; 2000 nodes at most.", examples=[["n7", "n8"]])
    ]
    requests: Amounts
    devices: Annotated[
        tuple[HeldDevice, ...], Meta(description="The virtual devices that its pods held in all.")
    ]


def is_device(resource: str) -> bool:
    """Return whether it is the type of a virtual device. All other resources but cpu and memory have a slash."""
    return resource not in (CPU, MEMORY) and "/" not in resource


def in_units(resource: str, amount: int) -> float:
    """Return an amount of the account in the units of ``/v1``."""
    if resource == CPU:
        return amount / 1000
    return amount * 2**20 if resource == MEMORY else amount
