"""What of the cluster decides who may preempt whom, read when somebody asks: nothing of it is watched."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import structlog

from fluence_extender.cluster.budgets import Budget, PreemptionRules, decode_budgets
from fluence_extender.cluster.connection import Connection, Request
from fluence_extender.cluster.port import ClusterError

PATIENCE = 3.0
"""Seconds for both lists; what hasn't come by then isn't known."""

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
BUDGETS = "/apis/policy/v1/poddisruptionbudgets"

log = structlog.get_logger(__name__)


class _ClassList(msgspec.Struct):
    items: list[dict[str, Any]] = []


_classes = msgspec.json.Decoder(_ClassList).decode


async def preemption_rules(connection: Connection) -> PreemptionRules:
    """The PriorityClasses and PodDisruptionBudgets that there are, as far as they can be read."""
    classes, budgets = await asyncio.gather(
        _listed(connection, CLASSES, "PriorityClasses"),
        _listed(connection, BUDGETS, "PodDisruptionBudgets"),
    )
    return PreemptionRules(_as_classes(classes), _as_budgets(budgets))


def _as_classes(raw: bytes | None) -> list[dict[str, Any]] | None:
    return None if raw is None else [{**one, "kind": "PriorityClass"} for one in _classes(raw).items]


def _as_budgets(raw: bytes | None) -> Sequence[Budget] | None:
    return None if raw is None else decode_budgets(raw)


async def _listed(connection: Connection, path: str, what: str) -> bytes | None:
    try:
        async with asyncio.timeout(PATIENCE):
            return await connection.call(Request("GET", path, f"list the {what}"), patient=False)
    except (ClusterError, TimeoutError) as error:
        log.warning(
            "what-if goes without", missing=what, error=str(error) or f"nothing within {PATIENCE:g} s"
        )
        return None
