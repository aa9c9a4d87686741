"""What the values of ``/v1`` have in common, lists and refusals.

Each value that the state API sends is a Struct in this package. The JSON of an answer is encoded straight from it, its
schema in the OpenAPI document is made from it, and clients decode into it. A large cluster's state therefore passes
through no validation. Field names and descriptions are part of the public interface. Amounts are by Kubernetes resource
name: ``cpu`` in cores (a pod may hold a part of one), memory and storage in bytes, everything else in whole pieces.
Times are aware and in UTC.

Invariant: every answer, and every example in this package, is valid under its schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from fluence_extender.model.resources import CPU, Resources

T = TypeVar("T")

Amounts = Annotated[
    Mapping[str, float],
    Meta(
        description="Amounts by resource name: cpu in cores, memory and storage in bytes, the rest in pieces.",
        examples=[{"cpu": 1.5, "memory": 2147483648, "pods": 1}],
    ),
]

Time = Annotated[datetime, Meta(tz=True)]
Devices = Mapping[str, int]

Namespace = Annotated[str, Meta(description="The namespace.", examples=["default"])]

PodName = Annotated[str, Meta(description="The pod's name.", examples=["vqe-0"])]

EXAMPLE_UID = "6e1b2a34-5c1d-4a53-9f0e-2f0f3c9f7a10"

Uid = Annotated[str, Meta(description="The pod's uid.", examples=[EXAMPLE_UID])]

GangName = Annotated[
    str,
    Meta(description="The gang that the pod is in; empty for a pod of another scheduler.", examples=["vqe"]),
]

User = Annotated[
    str,
    Meta(
        description="Who submitted it, as admission has recorded; where nobody is recorded, the namespace, and empty "
        "for what is gone or of another scheduler.",
        examples=["ada"],
    ),
]

Leading = Annotated[
    bool,
    Meta(
        description="Whether the leader has answered; otherwise a standby did, from what it sees.",
        examples=[True],
    ),
]

Problems = Annotated[
    tuple[str, ...], Meta(description="Why not; empty when it can be used.", examples=[["cordoned"]])
]

Hidden = Annotated[
    int,
    Meta(
        description="How many more pods there are, in namespaces whose pods the caller may not list.",
        examples=[0],
    ),
]

Firmness = Literal["planned", "committed", "bound"]

Held = Annotated[
    Firmness,
    Meta(description="How firmly it is held: for a plan, a commitment or a binding.", examples=["bound"]),
]


class ListMetadata(Struct, frozen=True, omit_defaults=True):
    """What describes a list as a whole."""

    leading: Leading
    hidden: Annotated[
        int | None,
        Meta(
            description="How many items are left out, because they are in namespaces whose pods the caller "
            "may not list; absent for a caller who may list all pods.",
            examples=[12],
        ),
    ] = None
    restricted: Annotated[
        bool | None,
        Meta(
            description="Whether only the caller's own work is meant, and that in namespaces whose pods he may list; "
            "absent for a caller who may list all pods, and in lists of what is there now.",
            examples=[True],
        ),
    ] = None


class ListOf(Struct, Generic[T], frozen=True):
    """A list."""

    items: Annotated[list[T], Meta(description="The items, in the order of the list.")]
    metadata: Annotated[ListMetadata, Meta(description="What describes the list as a whole.")]


class Problem(Struct, frozen=True, omit_defaults=True):
    """Why a request has no answer."""

    detail: Annotated[str, Meta(description="The reason, for people.", examples=["not ready: listing pods"])]


class Refusal(Problem, frozen=True, omit_defaults=True, rename="camel"):
    """What is wrong with a request, also as a Status of Kubernetes."""

    api_version: Annotated[
        Literal["v1"],
        Meta(description="The API version of a Status.", examples=["v1"]),
    ]
    kind: Annotated[Literal["Status"], Meta(description="A Status.", examples=["Status"])]
    status: Annotated[Literal["Failure"], Meta(description="A failure.", examples=["Failure"])]
    code: Annotated[int, Meta(description="The HTTP status.", examples=[400])]
    message: Annotated[str, Meta(description="The reason again.", examples=["unknown parameter x"])]
    reason: Annotated[
        str | None,
        Meta(description="Forbidden, where a right is missing; else absent.", examples=["Forbidden"]),
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
    """Return the JSON of ``value``: a Struct of this package, or dicts and lists."""
    return _ENCODER.encode(value)
