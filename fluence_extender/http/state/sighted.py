"""The part of a value for a caller who may list the pods of only some namespaces.

Invariant: a shown value names no pod and no gang of another namespace. Values that are left out are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

from fluence_extender.http.state import v1, v1_graph
from fluence_extender.http.state.v1_queue import QueueEntry, QueueSummary, ReservedNodes
from fluence_extender.model.access import CallerSight

V = TypeVar("V")

Show = Callable[[CallerSight, V], V | None]
"""Returns the part of a value that is shown, None if none is."""


def gang(sight: CallerSight, one: v1.Gang) -> v1.Gang | None:
    """Show a gang of a namespace in sight."""
    return replace(one, reason=sight.redacted(one.reason)) if one.namespace in sight else None


def gang_detail(sight: CallerSight, one: v1.GangDetail) -> v1.GangDetail:
    """Show a gang of a namespace in sight, with its history."""
    history = tuple(replace(entry, detail=sight.redacted(entry.detail)) for entry in one.history)
    return replace(one, reason=sight.redacted(one.reason), history=history)


def allocation(sight: CallerSight, one: v1.Allocation) -> v1.Allocation | None:
    """Show the allocation of a pod of a namespace in sight."""
    return one if one.namespace in sight else None


def node_detail(sight: CallerSight, one: v1_graph.NodeDetail) -> v1_graph.NodeDetail:
    """Show a node with its pods in sight."""
    pods = tuple(pod for pod in one.pods if pod.namespace in sight)
    return replace(one, pods=pods, hidden=len(one.pods) - len(pods))


def backend(sight: CallerSight, one: v1_graph.Backend) -> v1_graph.Backend:
    """Show a device with its holders in sight."""
    holders = tuple(holder for holder in one.holders if holder.namespace in sight)
    return replace(one, holders=holders, hidden=len(one.holders) - len(holders))


def queue_summary(sight: CallerSight, one: QueueSummary) -> QueueSummary:
    """Show a queue, with its first gang and that gang's start only if that gang is in sight."""
    if one.head.partition("/")[0] in sight:
        return one
    return replace(one, head="", expected_start=None)


def queue_entry(sight: CallerSight, one: QueueEntry) -> QueueEntry | None:
    """Show a gang in line of a namespace in sight."""
    return replace(one, reason=sight.redacted(one.reason)) if one.namespace in sight else None


def reserved_nodes(sight: CallerSight, one: ReservedNodes) -> ReservedNodes | None:
    """Show what is kept free for gangs in sight, and by administrators."""
    return one if one.kind == "reservation" or one.namespace in sight else None


def simulation(sight: CallerSight, answer: dict[str, Any]) -> dict[str, Any]:
    """Show the answer to a what-if question, with redacted texts about gangs out of sight."""
    return {**answer, "gangs": [_simulated(sight, one) for one in answer["gangs"]]}


def simulation_texts(answer: dict[str, Any]) -> Iterator[str]:
    """Yield the texts of an answer that may name gangs of others."""
    for one in answer["gangs"]:
        yield one["reason"]
        if one["preemption"] is not None:
            yield one["preemption"]["text"]
            yield from (victim["gang"] for victim in one["preemption"]["victims"])


def _simulated(sight: CallerSight, one: dict[str, Any]) -> dict[str, Any]:
    preemption = one["preemption"]
    if preemption is not None:
        victims = [{**victim, "gang": sight.redacted(victim["gang"])} for victim in preemption["victims"]]
        preemption = {**preemption, "text": sight.redacted(preemption["text"]), "victims": victims}
    return {**one, "reason": sight.redacted(one["reason"]), "preemption": preemption}
