"""What there is: nodes with their users, virtual devices, and the graph of all of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from fluence_extender.api.values import (
    Amounts,
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


class Node(Struct, frozen=True):
    """One node: what it has and what uses it."""

    name: Annotated[str, Meta(description="The node's name.", examples=["n7"])]
    schedulable: Annotated[
        bool, Meta(description="Whether it is open to pods without tolerations now.", examples=[True])
    ]
    problems: Problems
    levels: Annotated[
        Mapping[str, str],
        Meta(description="Where it is in the topology, from its labels.", examples=[{"zone": "z1"}]),
    ]
    allocatable: Amounts
    held: Annotated[Amounts, Meta(description="Held by pods of this scheduler, planned shares included.")]
    others: Annotated[Amounts, Meta(description="Used by pods of other schedulers.")]
    free: Annotated[Amounts, Meta(description="What is left; negative where more is used than there is.")]
    devices: Annotated[
        Mapping[str, str],
        Meta(
            description="Devices that drivers publish, by driver, pool and name: free, held, shared, or what is wrong.",
            examples=[{"gpu.example.com/n7/gpu-0": "held"}],
        ),
    ]


class NodeUser(Struct, frozen=True):
    """A pod that uses a node."""

    namespace: Namespace
    pod: PodName
    uid: Uid
    gang: GangName
    user: User
    claim: Annotated[
        Literal[Firmness, "other"],
        Meta(
            description="How firmly it is held; other: the pod is of another scheduler.", examples=["bound"]
        ),
    ]
    requests: Amounts


class NodeDetail(Node, frozen=True):
    """A node with the pods that use it."""

    pods: Annotated[
        tuple[NodeUser, ...], Meta(description="Every pod that uses it, of this scheduler and of others.")
    ]
    hidden: Hidden
    leading: Leading


class Holder(Struct, frozen=True):
    """A pod that holds a device, a part of it, or the device that it is a part of."""

    namespace: Namespace
    pod: PodName
    uid: Uid
    gang: GangName
    path: Annotated[str, Meta(description="What it holds.", examples=["/cluster/ibm-a/qpu0"])]
    amount: Annotated[int, Meta(description="How many units of that.", examples=[1])]
    claim: Held


class Backend(Struct, frozen=True):
    """One virtual device: a device with parts, or a pool of units."""

    backend: Annotated[str, Meta(description="The top-level device it belongs to.", examples=["ibm-a"])]
    name: Annotated[str, Meta(description="Its own name.", examples=["qpu0"])]
    path: Annotated[str, Meta(description="Where it is in the graph.", examples=["/cluster/ibm-a/qpu0"])]
    type: Annotated[
        str,
        Meta(description="What pods request it by: fluxion.flux-framework.org/TYPE.", examples=["qpu"]),
    ]
    node: Annotated[
        str, Meta(description="The node that its backend is attached to; empty for none.", examples=["n7"])
    ]
    attributes: Annotated[
        Mapping[str, str],
        Meta(
            description="Its attributes, including inherited ones.",
            examples=[{"vendor": "ibm", "region": "us-east"}],
        ),
    ]
    total: Annotated[int, Meta(description="Units; 1 for a device with parts.", examples=[1])]
    held: Annotated[int, Meta(description="Units that can't be allocated now.", examples=[1])]
    free: Annotated[int, Meta(description="Units that can be allocated now.", examples=[0])]
    holders: Annotated[
        tuple[Holder, ...],
        Meta(description="The pods that hold it, a part of it, or a device that it is a part of."),
    ]
    hidden: Hidden
    usable: Annotated[bool, Meta(description="Whether pods can request it, free or not.", examples=[True])]
    problems: Problems


class GraphVertices(Struct, frozen=True):
    """The two lists of a graph."""

    nodes: Annotated[list[dict[str, Any]], Meta(description="The vertices, parents before children.")]
    edges: Annotated[list[dict[str, str]], Meta(description="The containment edges, from parent to child.")]


class GraphDocument(Struct, frozen=True):
    """A graph in JSON Graph Format."""

    graph: Annotated[GraphVertices, Meta(description="The graph.")]
