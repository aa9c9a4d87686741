"""The part of a value for a caller who may list the pods of only some namespaces.

Invariant: a shown value names no pod and no gang of another namespace. Values that are left out are counted. Texts are
worded for the caller where they are made (`CallerSight.wording`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from msgspec.structs import replace

from fluence_extender.api.nodes import Backend, NodeDetail
from fluence_extender.api.queues import QueueSummary, ReservedNodes
from fluence_extender.model.access import CallerSight

V = TypeVar("V")

Show = Callable[[CallerSight, V], V | None]
"""Returns the part of a value that is shown, None if none is."""


class _Named(Protocol):
    @property
    def namespace(self) -> str: ...


N = TypeVar("N", bound=_Named)


def of_namespace(sight: CallerSight, one: N) -> N | None:
    """Show what is of a namespace in sight."""
    return one if one.namespace in sight else None


def node_detail(sight: CallerSight, one: NodeDetail) -> NodeDetail:
    """Show a node with its pods in sight."""
    pods = tuple(pod for pod in one.pods if pod.namespace in sight)
    return replace(one, pods=pods, hidden=len(one.pods) - len(pods))


def backend(sight: CallerSight, one: Backend) -> Backend:
    """Show a device with its holders in sight."""
    holders = tuple(holder for holder in one.holders if holder.namespace in sight)
    return replace(one, holders=holders, hidden=len(one.holders) - len(holders))


def queue_summary(sight: CallerSight, one: QueueSummary) -> QueueSummary:
    """Show a queue, with its first gang and that gang's start only if that gang is in sight."""
    if one.head.partition("/")[0] in sight:
        return one
    return replace(one, head="", expected_start=None)


def reserved_nodes(sight: CallerSight, one: ReservedNodes) -> ReservedNodes | None:
    """Show what is kept free for gangs in sight, and by administrators."""
    return one if one.kind == "reservation" or one.namespace in sight else None
