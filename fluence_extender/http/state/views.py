"""The shapes of the state API, as its OpenAPI document shows them.

They describe what the values of `state` look like as JSON; the answers themselves are encoded straight from those
values, so that a large cluster's state doesn't pass through validation. Invariant: every answer, and every example
here, is valid under its model.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from fluence_extender.model.gang import Convention, HistoryKind

T = TypeVar("T")

UID = "6e1b2a34-5c1d-4a53-9f0e-2f0f3c9f7a10"
SHARE = {"cpu": 1.5, "memory": 2147483648, "pods": 1}
ATTRIBUTES = {"vendor": "ibm", "region": "us-east"}

Claim = Literal["planned", "committed", "bound"]
Amounts = Annotated[
    dict[str, float],
    Field(
        description="Amounts by resource name: cpu in cores, memory and storage in bytes, the rest in pieces.",
        examples=[SHARE],
    ),
]
Namespace = Annotated[str, Field(description="The namespace.", examples=["default"])]
PodName = Annotated[str, Field(description="The pod's name.", examples=["vqe-0"])]
Uid = Annotated[str, Field(description="The pod's uid.", examples=[UID])]
GangName = Annotated[
    str,
    Field(description="The gang that the pod is in; empty for a pod of another scheduler.", examples=["vqe"]),
]
Leading = Annotated[
    bool,
    Field(
        description="Whether the replica that decides has answered; else a standby did, from what it sees.",
        examples=[True],
    ),
]
Problems = Annotated[list[str], Field(description="Why not; empty when it is.", examples=[["cordoned"]])]


class _View(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ListMetadata(_View):
    """What belongs to a list and to none of its items."""

    leading: Leading
    next_page: Annotated[
        str,
        Field(
            alias="continue",
            description="What to ask the next page with; empty on the last page.",
            examples=["WyJub2RlcyIsIm43Il0"],
        ),
    ]
    remaining: Annotated[
        int | None,
        Field(
            alias="remainingItemCount",
            description="How many items there are beyond this page; only where nothing was filtered.",
            examples=[4500],
        ),
    ] = None


class ListOf(_View, Generic[T]):
    """A list, or a page of it."""

    items: Annotated[list[T], Field(description="The items, in ascending order.")]
    metadata: Annotated[ListMetadata, Field(description="Where this page stands in the list.")]


class Member(_View):
    """One pod of a gang."""

    pod: PodName
    uid: Uid
    node: Annotated[str, Field(description="Its node, planned or bound; empty while none.", examples=["n7"])]
    backend: Annotated[
        str, Field(description="Its backend, planned or bound; empty while none.", examples=["ibm-a"])
    ]


class Gang(_View):
    """Pods that are placed together or not at all."""

    namespace: Namespace
    name: Annotated[str, Field(description="The group's name, or that of a pod alone.", examples=["vqe"])]
    convention: Annotated[
        Convention, Field(description="How its pods say that they belong together.", examples=["group"])
    ]
    state: Annotated[
        Literal["waiting", "planned", "committed", "bound", "finished", "gone"],
        Field(
            description="waiting: without a place; planned: has one; committed: members are being bound; "
            "bound: every member has its node; finished: no member is left running; gone: its pods are gone.",
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
            description="The kind of the reason; empty while none keeps it.", examples=["WaitingForMembers"]
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
            description="When it is expected to get its places, as far as running pods say how long they run; "
            "null where that isn't known.",
            examples=["2026-06-30T14:30:00Z"],
        ),
    ]
    members: Annotated[list[Member], Field(description="The members that exist.")]
    former: Annotated[
        list[str],
        Field(
            description="Of a gang that is gone, the names of the pods that it had, as far as its history names them.",
            examples=[[]],
        ),
    ]


class Shape(_View):
    """What some members of a gang ask for, each of them."""

    members: Annotated[int, Field(description="How many members ask for this.", examples=[8])]
    requests: Amounts
    devices: Annotated[
        dict[str, int], Field(description="Virtual resources asked for, by type.", examples=[{"qpu": 1}])
    ]
    requires: Annotated[
        dict[str, str],
        Field(description="What the devices' attributes must be.", examples=[{"vendor": "ibm"}]),
    ]


class Entry(_View):
    """One entry of a gang's history."""

    at: Annotated[
        datetime, Field(description="When it happened first.", examples=["2026-06-30T12:00:00.125000Z"])
    ]
    what: Annotated[HistoryKind, Field(description="What happened.", examples=["planned"])]
    pod: Annotated[
        str, Field(description="To which pod; empty where to the gang, or to several.", examples=["vqe-0"])
    ]
    detail: Annotated[str, Field(description="The particulars.", examples=["on n1, n2 with ibm-a"])]
    count: Annotated[int, Field(description="How often it happened in a row.", examples=[1])]
    until: Annotated[
        datetime, Field(description="When it happened last.", examples=["2026-06-30T12:00:00.125000Z"])
    ]


class GangDetail(Gang):
    """A gang with what it asks for and what has happened to it."""

    asks: Annotated[list[Shape], Field(description="What its members ask for, equal ones together.")]
    history: Annotated[
        list[Entry], Field(description="What has happened to it, in order; the first entries and the newest.")
    ]
    forgotten: Annotated[int, Field(description="Entries that were dropped in between.", examples=[0])]
    leading: Leading


class Allocation(_View):
    """What one pod holds."""

    namespace: Namespace
    pod: PodName
    uid: Uid
    node: Annotated[str, Field(description="The node it is held on.", examples=["n7"])]
    core: Annotated[float, Field(description="Cores; a part of one may be held.", examples=[1.5])]
    memory: Annotated[int, Field(description="Memory in bytes.", examples=[2147483648])]
    gpu: Annotated[int, Field(description="Whole gpus.", examples=[0])]
    backend: Annotated[str, Field(description="The backend held; empty when none is.", examples=["ibm-a"])]
    devices: Annotated[
        dict[str, int], Field(description="Virtual resources held, by type.", examples=[{"qpu": 1}])
    ]
    gang: GangName
    claim: Annotated[Claim, Field(description="How firmly it is held.", examples=["bound"])]


class Node(_View):
    """One node: what it has and who uses it."""

    name: Annotated[str, Field(description="The node's name.", examples=["n7"])]
    schedulable: Annotated[
        bool, Field(description="Whether it is open to pods without tolerations now.", examples=[True])
    ]
    problems: Problems
    levels: Annotated[
        dict[str, str],
        Field(description="Where it is in the topology, from its labels.", examples=[{"zone": "z1"}]),
    ]
    allocatable: Amounts
    held: Annotated[Amounts, Field(description="Held by pods of ours, planned shares included.")]
    others: Annotated[Amounts, Field(description="Used by pods of other schedulers.")]
    free: Annotated[Amounts, Field(description="What is left; below 0 where more is used than there is.")]


class NodeUser(_View):
    """A pod that uses a node."""

    namespace: Namespace
    pod: PodName
    uid: Uid
    gang: GangName
    claim: Annotated[
        Literal["planned", "committed", "bound", "other"],
        Field(
            description="How firmly it is held; other: the pod is of another scheduler.", examples=["bound"]
        ),
    ]
    requests: Amounts


class NodeDetail(Node):
    """A node with the pods that use it."""

    pods: Annotated[list[NodeUser], Field(description="Every pod that uses it, ours and others'.")]
    leading: Leading


class Holder(_View):
    """A pod that holds a device, a part of it, or what it is a part of."""

    namespace: Namespace
    pod: PodName
    uid: Uid
    gang: GangName
    path: Annotated[str, Field(description="What it holds.", examples=["/cluster/ibm-a/qpu0"])]
    amount: Annotated[int, Field(description="How many units of that.", examples=[1])]
    claim: Annotated[Claim, Field(description="How firmly it is held.", examples=["bound"])]


class Backend(_View):
    """One virtual device: a thing with parts, or a pool of units."""

    backend: Annotated[str, Field(description="The top-level device it belongs to.", examples=["ibm-a"])]
    name: Annotated[str, Field(description="Its own name.", examples=["qpu0"])]
    path: Annotated[str, Field(description="Where it is in the graph.", examples=["/cluster/ibm-a/qpu0"])]
    type: Annotated[
        str, Field(description="What pods ask for it by: fluxion.flux-framework.org/TYPE.", examples=["qpu"])
    ]
    node: Annotated[
        str, Field(description="The node that its backend hangs on; empty for none.", examples=["n7"])
    ]
    attributes: Annotated[
        dict[str, str],
        Field(description="Its attributes, inherited ones included.", examples=[ATTRIBUTES]),
    ]
    total: Annotated[int, Field(description="Units; 1 for a thing with parts.", examples=[1])]
    held: Annotated[int, Field(description="Units that can't be had now.", examples=[1])]
    free: Annotated[int, Field(description="Units that can be had now.", examples=[0])]
    holders: Annotated[list[Holder], Field(description="Who holds it, a part of it, or the whole of it.")]
    usable: Annotated[bool, Field(description="Whether it can be asked for, free or not.", examples=[True])]
    problems: Problems


class GraphVertices(_View):
    """The two lists of a graph."""

    nodes: Annotated[list[dict[str, Any]], Field(description="The vertices, parents before children.")]
    edges: Annotated[list[dict[str, str]], Field(description="The containment edges, parent to child.")]


class GraphDocument(_View):
    """A graph in JSON Graph Format."""

    graph: Annotated[GraphVertices, Field(description="The graph.")]


class Problem(_View):
    """Why there is no answer."""

    detail: Annotated[str, Field(description="The reason, for people.", examples=["not ready: listing pods"])]


class Refusal(Problem):
    """What is wrong with the question, also as a Status of Kubernetes."""

    api_version: Annotated[
        Literal["v1"], Field(alias="apiVersion", description="That of a Status.", examples=["v1"])
    ]
    kind: Annotated[Literal["Status"], Field(description="A Status.", examples=["Status"])]
    status: Annotated[Literal["Failure"], Field(description="A failure.", examples=["Failure"])]
    code: Annotated[int, Field(description="The status of HTTP.", examples=[400])]
    message: Annotated[str, Field(description="The reason again.", examples=["unknown parameter x"])]
