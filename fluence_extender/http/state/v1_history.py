"""The shapes of ``/v1`` that are about past work; see `v1` for what holds for all shapes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from fluence_extender.http.state.v1 import Amounts, ApiValue, Namespace
from fluence_extender.http.state.v1_queue import QueueName

UserName = Annotated[
    str,
    Field(
        description="Who submitted it; where that isn't recorded, the namespace, for all such work in it.",
        examples=["ada"],
    ),
]
AccountName = Annotated[
    str, Field(description="The account that its label names; empty without one.", examples=["grant-17"])
]


@dataclass(frozen=True, slots=True)
class DeviceSeconds(ApiValue):
    """How long virtual devices of one type and backend were held."""

    type: Annotated[str, Field(description="The type.", examples=["qpu"])]
    backend: Annotated[str, Field(description="The backend that served it.", examples=["ibm-a"])]
    seconds: Annotated[int, Field(description="Devices times seconds.", examples=[5400])]


@dataclass(frozen=True, slots=True)
class UsageRow(ApiValue):
    """What one queue, user, namespace or account, or all on one day, has used."""

    name: Annotated[
        str,
        Field(
            description="The queue, user, namespace, account or day (UTC); empty for work without one.",
            examples=["ada"],
        ),
    ]
    seconds: Annotated[
        Mapping[str, float],
        Field(
            description="Amounts times seconds by resource name: cpu in core-seconds, memory in byte-seconds.",
            examples=[{"cpu": 7200.0, "memory": 7730941132800, "nvidia.com/gpu": 3600}],
        ),
    ]
    devices: Annotated[tuple[DeviceSeconds, ...], Field(description="The virtual devices that were held.")]


@dataclass(frozen=True, slots=True)
class HeldDevice(ApiValue):
    """Virtual devices of one type and backend that were held together."""

    type: Annotated[str, Field(description="The type.", examples=["qpu"])]
    backend: Annotated[str, Field(description="The backend that served it.", examples=["ibm-a"])]
    count: Annotated[int, Field(description="How many.", examples=[1])]


@dataclass(frozen=True, slots=True)
class StartMove(ApiValue):
    """A promised start that moved later."""

    at: Annotated[datetime, Field(description="When it moved.", examples=["2026-06-30T12:00:00Z"])]
    promised: Annotated[
        datetime, Field(description="The start that was promised.", examples=["2026-06-30T13:00:00Z"])
    ]
    start: Annotated[
        datetime | None,
        Field(description="The new one; null when it became unknown.", examples=["2026-06-30T14:00:00Z"]),
    ]


@dataclass(frozen=True, slots=True)
class WorkRecord(ApiValue):
    """One life of a gang: from its first pod's start until its last pod's end."""

    run: Annotated[
        str,
        Field(description="Its key, which no other life has.", examples=["5f0c9f0e2f0f3c9f7a105c1d4a53b1a2"]),
    ]
    namespace: Namespace
    name: Annotated[str, Field(description="The gang's name.", examples=["train"])]
    convention: Annotated[
        str, Field(description="How its pods declared that they belong together.", examples=["job"])
    ]
    workload: Annotated[
        str, Field(description="The owner of its pods; empty without one.", examples=["job/train"])
    ]
    queue: QueueName
    user: UserName
    account: AccountName
    created: Annotated[datetime, Field(description="When it was created.", examples=["2026-06-30T11:00:00Z"])]
    started: Annotated[
        datetime, Field(description="When its first pod started.", examples=["2026-06-30T12:00:00Z"])
    ]
    ended: Annotated[
        datetime | None,
        Field(description="When its last pod ended; null while one runs.", examples=["2026-06-30T13:00:00Z"]),
    ]
    waited: Annotated[int, Field(description="Seconds from its creation to its start.", examples=[3600])]
    outcome: Annotated[
        Literal["", "Succeeded", "Failed", "Rejected", "Evicted", "Deleted", "Lost"],
        Field(
            description="How it ended, by the pod that ended worst; empty while one runs.",
            examples=["Succeeded"],
        ),
    ]
    promised: Annotated[
        datetime | None,
        Field(
            description="The first start that it was promised; null without one.",
            examples=["2026-06-30T12:00:00Z"],
        ),
    ]
    moves: Annotated[tuple[StartMove, ...], Field(description="How the promised start moved.")]
    pods: Annotated[int, Field(description="How many pods it had.", examples=[4])]
    nodes: Annotated[
        tuple[str, ...], Field(description="Where they ran; 2000 nodes at most.", examples=[["n7", "n8"]])
    ]
    requests: Amounts
    devices: Annotated[
        tuple[HeldDevice, ...], Field(description="The virtual devices that its pods held in all.")
    ]
