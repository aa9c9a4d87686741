"""What the state API shows, as plain values: gangs, what pods hold, nodes, virtual devices, the graph.

Amounts are by Kubernetes resource name: ``cpu`` in cores (a fraction may be held), memory and storage in bytes,
everything else in whole pieces. Times are aware and in UTC.

Invariant: a `Listing` has its keys in ascending order, and a key is never given to another item, so a reader that goes
on after the last key it saw meets everything that was there all the while exactly once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar

V = TypeVar("V", covariant=True)

Key = tuple[str, ...]
Amounts = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Items(Generic[V]):
    """The keys of a list, and how an item is made of its key: None for one that is gone by then."""

    keys: Sequence[Key]
    make: Callable[[Key], V | None]


@dataclass(frozen=True, slots=True)
class Listing(Generic[V]):
    """A list that is made when it is read; ``revision``, known before, changes with any of its items."""

    revision: str
    read: Callable[[], Items[V]]


@dataclass(frozen=True, slots=True)
class Pieces:
    """The resource graph as JGF: its vertices and its edges in pieces, made while they are read."""

    vertices: Callable[[], AsyncIterator[list[dict[str, Any]]]]
    edges: Callable[[], AsyncIterator[list[dict[str, Any]]]]


@dataclass(frozen=True, slots=True)
class Graph:
    """The graph, made when it is read, which raises `GraphTooLarge` where it would have too many vertices."""

    revision: str
    read: Callable[[], Awaitable[Pieces]]


@dataclass(frozen=True, slots=True)
class MemberView:
    """One member of a gang; ``node`` and ``backend`` are "" while there is none."""

    pod: str
    uid: str
    node: str = ""
    backend: str = ""


@dataclass(frozen=True, slots=True)
class GangView:
    """One gang; ``state`` is waiting, planned, committed, bound, finished, or gone once it has no pod left.

    ``why`` is the kind of the ``reason``, ``created`` when its first member was; ``expected_start`` is when it is
    expected to get its places, None where that isn't known; ``former`` are the names of the pods that a gone gang had,
    as far as its history names them.
    """

    namespace: str
    name: str
    state: str
    reason: str
    size: int
    members: tuple[MemberView, ...] = ()
    convention: str = "group"
    why: str = ""
    created: datetime | None = None
    expected_start: datetime | None = None
    former: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ShapeView:
    """What ``members`` members of a gang ask for, each: amounts, virtual resources by type, ``require-`` values."""

    members: int
    requests: Amounts
    devices: Mapping[str, int] = field(default_factory=dict)
    requires: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EntryView:
    """One entry of a gang's history: ``count`` times from ``at`` to ``until``."""

    at: datetime
    what: str
    pod: str
    detail: str
    count: int
    until: datetime


@dataclass(frozen=True, slots=True)
class GangStory:
    """One gang with what its members ask for and what has happened to it; ``forgotten`` entries were dropped."""

    gang: GangView
    asks: tuple[ShapeView, ...]
    history: tuple[EntryView, ...]
    forgotten: int
    revision: str


@dataclass(frozen=True, slots=True)
class AllocationView:
    """What one pod holds: cores (a fraction may be held), memory in bytes, whole gpus and other devices.

    ``claim`` is how firmly: planned, committed or bound.
    """

    namespace: str
    pod: str
    uid: str
    node: str
    core: float
    memory: int
    gpu: int
    backend: str = ""
    devices: Mapping[str, int] = field(default_factory=dict)
    gang: str = ""
    claim: str = "bound"


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node: what it has, what pods of ours (``held``) and of others use, what is ``free`` (below 0: too much used).

    ``schedulable`` says that it is open to pods without tolerations; ``problems`` why it isn't. ``levels`` is where it
    is in the topology.
    """

    name: str
    schedulable: bool
    problems: tuple[str, ...]
    levels: Mapping[str, str]
    allocatable: Amounts
    held: Amounts
    others: Amounts
    free: Amounts


@dataclass(frozen=True, slots=True)
class UserView:
    """A pod that uses a node; ``claim`` is planned, committed, bound, or other for a pod of another scheduler."""

    namespace: str
    pod: str
    uid: str
    gang: str
    claim: str
    requests: Amounts


@dataclass(frozen=True, slots=True)
class NodeStory:
    """One node with the pods that use it."""

    node: NodeView
    pods: tuple[UserView, ...]
    revision: str


@dataclass(frozen=True, slots=True)
class HolderView:
    """A pod that holds ``amount`` of the device ``path``."""

    namespace: str
    pod: str
    uid: str
    gang: str
    path: str
    amount: int
    claim: str


@dataclass(frozen=True, slots=True)
class DeviceView:
    """One virtual device: a thing with parts (``total`` 1), or a pool of ``total`` units.

    ``backend`` is the top-level device it belongs to, ``node`` the physical node that one hangs on, "" for none.
    ``held`` units can't be had now, by whose doing ``holders`` say: a device is taken with all its parts.
    """

    backend: str
    name: str
    path: str
    type: str
    node: str
    attributes: Mapping[str, str]
    total: int
    held: int
    free: int
    holders: tuple[HolderView, ...]
    usable: bool
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Counts:
    """How many gangs there are in each state, and how many pods hold something."""

    gangs: Mapping[str, int]
    allocations: int
