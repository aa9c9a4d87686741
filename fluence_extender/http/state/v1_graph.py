"""The shapes of ``/v1`` for what there is: nodes with their users, virtual devices, and the graph of all of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from fluence_extender.http.state.v1 import (
    Amounts,
    ApiValue,
    Firmness,
    GangName,
    Held,
    Hidden,
    Leading,
    Namespace,
    PodName,
    Problems,
    Uid,
    User,
)


@dataclass(frozen=True, slots=True)
class Node(ApiValue):
    """One node: what it has and what uses it."""

    name: Annotated[str, Field(description="The node's name.", examples=["n7"])]
    schedulable: Annotated[
        bool, Field(description="Whether it is open to pods without tolerations now.", examples=[True])
    ]
    problems: Problems
    levels: Annotated[
        Mapping[str, str],
        Field(description="Where it is in the topology, from its labels.", examples=[{"zone": "z1"}]),
    ]
    allocatable: Amounts
    held: Annotated[Amounts, Field(description="Held by pods of this scheduler, planned shares included.")]
    others: Annotated[Amounts, Field(description="Used by pods of other schedulers.")]
    free: Annotated[Amounts, Field(description="What is left; negative where more is used than there is.")]
    devices: Annotated[
        Mapping[str, str],
        Field(
            description="Devices that drivers publish, by driver, pool and name: free, held, shared, or what is wrong.",
            examples=[{"gpu.example.com/n7/gpu-0": "held"}],
        ),
    ]


@dataclass(frozen=True, slots=True)
class NodeUser(ApiValue):
    """A pod that uses a node."""

    namespace: Namespace
    pod: PodName
    uid: Uid
    gang: GangName
    user: User
    claim: Annotated[
        Literal[Firmness, "other"],
        Field(
            description="How firmly it is held; other: the pod is of another scheduler.", examples=["bound"]
        ),
    ]
    requests: Amounts


@dataclass(frozen=True, slots=True)
class NodeDetail(Node):
    """A node with the pods that use it."""

    pods: Annotated[
        tuple[NodeUser, ...], Field(description="Every pod that uses it, of this scheduler and of others.")
    ]
    hidden: Hidden
    leading: Leading


@dataclass(frozen=True, slots=True)
class Holder(ApiValue):
    """A pod that holds a device, a part of it, or the device that it is a part of."""

    namespace: Namespace
    pod: PodName
    uid: Uid
    gang: GangName
    path: Annotated[str, Field(description="What it holds.", examples=["/cluster/ibm-a/qpu0"])]
    amount: Annotated[int, Field(description="How many units of that.", examples=[1])]
    claim: Held


@dataclass(frozen=True, slots=True)
class Backend(ApiValue):
    """One virtual device: a device with parts, or a pool of units."""

    backend: Annotated[str, Field(description="The top-level device it belongs to.", examples=["ibm-a"])]
    name: Annotated[str, Field(description="Its own name.", examples=["qpu0"])]
    path: Annotated[str, Field(description="Where it is in the graph.", examples=["/cluster/ibm-a/qpu0"])]
    type: Annotated[
        str,
        Field(description="What pods request it by: fluxion.flux-framework.org/TYPE.", examples=["qpu"]),
    ]
    node: Annotated[
        str, Field(description="The node that its backend is attached to; empty for none.", examples=["n7"])
    ]
    attributes: Annotated[
        Mapping[str, str],
        Field(
            description="Its attributes, including inherited ones.",
            examples=[{"vendor": "ibm", "region": "us-east"}],
        ),
    ]
    total: Annotated[int, Field(description="Units; 1 for a device with parts.", examples=[1])]
    held: Annotated[int, Field(description="Units that can't be allocated now.", examples=[1])]
    free: Annotated[int, Field(description="Units that can be allocated now.", examples=[0])]
    holders: Annotated[
        tuple[Holder, ...],
        Field(description="The pods that hold it, a part of it, or a device that it is a part of."),
    ]
    hidden: Hidden
    usable: Annotated[bool, Field(description="Whether pods can request it, free or not.", examples=[True])]
    problems: Problems


@dataclass(frozen=True, slots=True)
class GraphVertices(ApiValue):
    """The two lists of a graph."""

    nodes: Annotated[list[dict[str, Any]], Field(description="The vertices, parents before children.")]
    edges: Annotated[list[dict[str, str]], Field(description="The containment edges, from parent to child.")]


@dataclass(frozen=True, slots=True)
class GraphDocument(ApiValue):
    """A graph in JSON Graph Format."""

    graph: Annotated[GraphVertices, Field(description="The graph.")]
