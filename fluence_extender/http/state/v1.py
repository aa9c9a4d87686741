"""The shapes of ``/v1``: each value that the state API sends is defined here, once.

The JSON of an answer is encoded straight from these values, and its schema in the OpenAPI document is made from the
same classes. A large cluster's state therefore passes through no validation. Field names and descriptions are part of
the public interface. Amounts are by Kubernetes resource name: ``cpu`` in cores (a pod may hold a part of one), memory
and storage in bytes, everything else in whole pieces. Times are aware and in UTC.

Invariant: every answer, and every example in this module, is valid under its schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Annotated, Any, Generic, Literal, Self, TypeVar

import msgspec
from pydantic import BaseModel, ConfigDict, Field

from fluence_extender.model.gang import Convention, HistoryKind
from fluence_extender.model.resources import CPU, Resources

T = TypeVar("T")

State = Literal["waiting", "planned", "committed", "bound", "finished", "gone"]
Firmness = Literal["planned", "committed", "bound"]

_UID = "6e1b2a34-5c1d-4a53-9f0e-2f0f3c9f7a10"

Amounts = Annotated[
    Mapping[str, float],
    Field(
        description="Amounts by resource name: cpu in cores, memory and storage in bytes, the rest in pieces.",
        examples=[{"cpu": 1.5, "memory": 2147483648, "pods": 1}],
    ),
]
Devices = Mapping[str, int]
Namespace = Annotated[str, Field(description="The namespace.", examples=["default"])]
PodName = Annotated[str, Field(description="The pod's name.", examples=["vqe-0"])]
Uid = Annotated[str, Field(description="The pod's uid.", examples=[_UID])]
GangName = Annotated[
    str,
    Field(description="The gang that the pod is in; empty for a pod of another scheduler.", examples=["vqe"]),
]
User = Annotated[
    str,
    Field(
        description="Who submitted it, as admission has recorded; where nobody is recorded, the namespace, and empty "
        "for what is gone or of another scheduler.",
        examples=["ada"],
    ),
]
Leading = Annotated[
    bool,
    Field(
        description="Whether the leader has answered; otherwise a standby did, from what it sees.",
        examples=[True],
    ),
]
Problems = Annotated[
    tuple[str, ...], Field(description="Why not; empty when it can be used.", examples=[["cordoned"]])
]
Hidden = Annotated[
    int,
    Field(
        description="How many more pods there are, in namespaces whose pods the caller may not list.",
        examples=[0],
    ),
]
Held = Annotated[
    Firmness,
    Field(description="How firmly it is held: for a plan, a commitment or a binding.", examples=["bound"]),
]


@dataclass(frozen=True, slots=True)
class ApiValue:
    """A value of the API."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    @classmethod
    def extending(cls, base: ApiValue, **more: Any) -> Self:
        """Return a value with the fields of ``base``, which it inherits, and ``more``."""
        return cls(**{field.name: getattr(base, field.name) for field in fields(base)}, **more)


class _Model(BaseModel):
    """A value of the API with names that Python reserves."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    def to_json(self) -> bytes:
        """Return the value as JSON, without fields that are None."""
        return self.model_dump_json(by_alias=True, exclude_none=True).encode()


class ListMetadata(_Model):
    """What describes a list as a whole."""

    leading: Leading
    hidden: Annotated[
        int | None,
        Field(
            description="How many items are left out, because they are in namespaces whose pods the caller "
            "may not list; absent for a caller who may list all pods.",
            examples=[12],
        ),
    ] = None
    restricted: Annotated[
        bool | None,
        Field(
            description="Whether only the caller's own work is meant, and that in namespaces whose pods he may list; "
            "absent for a caller who may list all pods, and in lists of what is there now.",
            examples=[True],
        ),
    ] = None


class ListOf(_Model, Generic[T]):
    """A list."""

    items: Annotated[list[T], Field(description="The items, in the order of the list.")]
    metadata: Annotated[ListMetadata, Field(description="What describes the list as a whole.")]


@dataclass(frozen=True, slots=True)
class Member(ApiValue):
    """One pod of a gang."""

    pod: PodName
    uid: Uid
    node: Annotated[
        str, Field(description="Its planned or bound node; empty while it has none.", examples=["n7"])
    ]
    backend: Annotated[
        str, Field(description="Its planned or bound backend; empty while it has none.", examples=["ibm-a"])
    ]
    run: Annotated[
        str,
        Field(
            description="The run of its owner that it belongs to; a gang that was submitted again may have members of "
            "several.",
            examples=["3f0c1a52-0d8e-4c39-9c5b-6f1d7d0a4b11"],
        ),
    ] = ""
    ended: Annotated[bool, Field(description="Whether it has ended.", examples=[False])] = False
    failed: Annotated[bool, Field(description="Whether it has failed.", examples=[False])] = False


@dataclass(frozen=True, slots=True)
class QuantumPart(ApiValue):
    """What the pods of a gang are in a quantum job, and where the task is."""

    role: Annotated[
        Literal["producer", "consumer", "observed"],
        Field(
            description="producer: submits the task; consumer: waits for it; observed: submits a task that nobody "
            "waits for.",
            examples=["producer"],
        ),
    ]
    partner: Annotated[
        str,
        Field(
            description="The gang of the consumers, or that of the producer; empty for an observed pod.",
            examples=["vqe"],
        ),
    ]
    task: Annotated[
        str,
        Field(description="The vendor's id of the task; empty while none is known.", examples=["7d3f-42"]),
    ]
    status: Annotated[
        str,
        Field(
            description="Where the task is in its vendor's queue, or why consumers were released.",
            examples=["queued, position 3"],
        ),
    ]


@dataclass(frozen=True, slots=True)
class Gang(ApiValue):
    """Pods that are placed together or not at all."""

    namespace: Namespace
    name: Annotated[str, Field(description="The group's name, or that of a single pod.", examples=["vqe"])]
    convention: Annotated[
        Convention, Field(description="How its pods declare that they belong together.", examples=["group"])
    ]
    owner: Annotated[
        str,
        Field(
            description="Kind and name of the object that owns its pods; empty where none does, or several do.",
            examples=["Job/vqe"],
        ),
    ]
    state: Annotated[
        State,
        Field(
            description="waiting: has no place; planned: has one; committed: members are being bound, "
            "or have to be replaced; bound: every member has its node; finished: no member is left running; "
            "gone: its pods are gone.",
            examples=["waiting"],
        ),
    ]
    reason: Annotated[
        str,
        Field(
            description="Why it is in this state; empty when there is nothing to explain.",
            examples=["waiting for members (3 of 8 exist)"],
        ),
    ]
    why: Annotated[
        str,
        Field(
            description="The kind of the reason; empty while nothing holds the gang up.",
            examples=["WaitingForMembers"],
        ),
    ]
    size: Annotated[int, Field(description="How many members make it whole.", examples=[8])]
    created: Annotated[
        datetime | None,
        Field(description="When its first member was created.", examples=["2026-06-30T12:00:00Z"]),
    ]
    expected_start: Annotated[
        datetime | None,
        Field(
            description="When it is expected to get its places, as far as running pods declare how long they run; "
            "null when that is unknown.",
            examples=["2026-06-30T14:30:00Z"],
        ),
    ]
    started: Annotated[
        datetime | None,
        Field(description="When its first living member started to run.", examples=["2026-06-30T12:00:05Z"]),
    ]
    expected_end: Annotated[
        datetime | None,
        Field(
            description="When its last living member ends, as far as all of them, their Jobs or their queue say how "
            "long they run; null when that is unknown.",
            examples=["2026-06-30T16:30:00Z"],
        ),
    ]
    queue: Annotated[str, Field(description="Its queue; empty when it is in none.", examples=["physics"])]
    user: User
    position: Annotated[
        int | None,
        Field(
            description="Its place in the line of all queues, from 1 on; null when it isn't in line.",
            examples=[4],
        ),
    ]
    preemptions: Annotated[
        int,
        Field(
            description="How often it was preempted, its requeued runs included; counted since the service started.",
            examples=[3],
        ),
    ]
    preempted: Annotated[
        datetime | None,
        Field(description="When it was last preempted.", examples=["2026-06-30T12:00:00Z"]),
    ]
    members: Annotated[tuple[Member, ...], Field(description="The members that exist.")]
    former: Annotated[
        tuple[str, ...],
        Field(
            description="The names of the pods of a gang that is gone, as far as its history names them.",
            examples=[[]],
        ),
    ]
    quantum: Annotated[
        QuantumPart | None,
        Field(
            description="Its part in a quantum job; null for a gang that has none.",
            examples=[
                {"role": "producer", "partner": "vqe", "task": "7d3f-42", "status": "queued, position 3"}
            ],
        ),
    ]


@dataclass(frozen=True, slots=True)
class Shape(ApiValue):
    """What each of several equal members of a gang requests."""

    members: Annotated[int, Field(description="How many members request this.", examples=[8])]
    requests: Amounts
    devices: Annotated[
        Devices, Field(description="Virtual resources requested, by type.", examples=[{"qpu": 1}])
    ]
    requires: Annotated[
        Mapping[str, str],
        Field(description="Required values of the devices' attributes.", examples=[{"vendor": "ibm"}]),
    ]


@dataclass(frozen=True, slots=True)
class Entry(ApiValue):
    """One entry of a gang's history."""

    at: Annotated[
        datetime, Field(description="When it first happened.", examples=["2026-06-30T12:00:00.125000Z"])
    ]
    what: Annotated[HistoryKind, Field(description="What happened.", examples=["planned"])]
    pod: Annotated[
        str,
        Field(
            description="The pod that it happened to; empty for the gang or several pods.", examples=["vqe-0"]
        ),
    ]
    detail: Annotated[str, Field(description="The particulars.", examples=["on n1, n2 with ibm-a"])]
    count: Annotated[int, Field(description="How often it happened in a row.", examples=[1])]
    until: Annotated[
        datetime, Field(description="When it last happened.", examples=["2026-06-30T12:00:00.125000Z"])
    ]


@dataclass(frozen=True, slots=True)
class GangDetail(Gang):
    """A gang with what it requests and what has happened to it."""

    notes: Annotated[
        tuple[str, ...],
        Field(
            description="What is to be known of it beside its reason: labels and annotations that have no effect, what "
            "states the size that it waits for, and what to do.",
            examples=[[]],
        ),
    ]
    asks: Annotated[
        tuple[Shape, ...], Field(description="What its members request; equal members count together.")
    ]
    fitting: Annotated[
        int | None,
        Field(
            description="How many of its members fit, by its reason; null where other things than amounts of nodes "
            "are lacking.",
            examples=[2],
        ),
    ]
    lacking: Annotated[
        tuple[str, ...],
        Field(description="The resources of nodes that the next member lacks.", examples=[["cpu"]]),
    ]
    history: Annotated[
        tuple[Entry, ...],
        Field(description="What has happened to it, in order: the first entries and the newest."),
    ]
    forgotten: Annotated[int, Field(description="Entries that were dropped in between.", examples=[0])]
    leading: Leading


@dataclass(frozen=True, slots=True)
class Allocation(ApiValue):
    """What one pod holds."""

    namespace: Namespace
    pod: PodName
    uid: Uid
    node: Annotated[str, Field(description="The node that the pod has its share of.", examples=["n7"])]
    core: Annotated[float, Field(description="Cores; a pod may hold a part of one.", examples=[1.5])]
    memory: Annotated[int, Field(description="Memory in bytes.", examples=[2147483648])]
    gpu: Annotated[int, Field(description="Whole gpus.", examples=[0])]
    backend: Annotated[str, Field(description="The backend held; empty when none is.", examples=["ibm-a"])]
    devices: Annotated[
        Devices,
        Field(
            description="Virtual resources held, by type, and claimed devices by class.",
            examples=[{"qpu": 1}],
        ),
    ]
    claimed: Annotated[
        tuple[str, ...],
        Field(
            description="The devices that its claims were allocated, by driver, pool and name.",
            examples=[["gpu.example.com/n7/gpu-0"]],
        ),
    ]
    gang: GangName
    claim: Held


class Problem(_Model):
    """Why a request has no answer."""

    detail: Annotated[str, Field(description="The reason, for people.", examples=["not ready: listing pods"])]


class Refusal(Problem):
    """What is wrong with a request, also as a Status of Kubernetes."""

    api_version: Annotated[
        Literal["v1"],
        Field(alias="apiVersion", description="The API version of a Status.", examples=["v1"]),
    ]
    kind: Annotated[Literal["Status"], Field(description="A Status.", examples=["Status"])]
    status: Annotated[Literal["Failure"], Field(description="A failure.", examples=["Failure"])]
    code: Annotated[int, Field(description="The HTTP status.", examples=[400])]
    message: Annotated[str, Field(description="The reason again.", examples=["unknown parameter x"])]
    reason: Annotated[
        str | None,
        Field(description="Forbidden, where a right is missing; else absent.", examples=["Forbidden"]),
    ] = None


def amounts(resources: Resources) -> dict[str, float]:
    """Return amounts by resource name: ``cpu`` in cores, the rest in the units of `Resources`."""
    return {name: amount / 1000 if name == CPU else amount for name, amount in sorted(resources.items())}


def moment(seconds: float) -> datetime:
    """Return the time ``seconds`` after the epoch, to the millisecond."""
    return datetime.fromtimestamp(round(seconds, 3), UTC)


def _mapping(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


_ENCODER = msgspec.json.Encoder(enc_hook=_mapping)


def encode(value: Any) -> bytes:
    """Return the JSON of ``value``: a dataclass of this module, or dicts and lists."""
    return _ENCODER.encode(value)
