"""Which pod of a shared quantum job submits the task: the first one of its group, as admission decides it.

Admission looks at the owner and at other pods to find the first one, and neither exists yet. So the pods of a question
state their roles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from fluence_extender.kinds.pod_sets import PodSet
from fluence_extender.model.coordination import (
    CONSUMER,
    COORDINATION_ANNOTATION,
    DEPENDS_ON_PRODUCER,
    PRODUCER,
    QPU,
    ROLE_ANNOTATION,
    SHARED,
)
from fluence_extender.model.names import GROUP_LABEL
from fluence_extender.model.requests import InvalidRequest, effective_requests


class Roles:
    """The shared groups of a question that have their producer."""

    def __init__(self) -> None:
        self._produced: set[tuple[str, str]] = set()

    def parts(self, pods: PodSet, namespace: str) -> Iterator[PodSet]:
        """Yield the pods, those of a shared group with their roles."""
        meta = pods.template["metadata"]
        notes = meta["annotations"]
        if notes.get(COORDINATION_ANNOTATION) != SHARED or ROLE_ANNOTATION in notes:
            yield pods
            return
        owner = next(pods.members()).owner or {}
        group = namespace, str(meta["labels"].get(GROUP_LABEL) or owner.get("name") or "")
        if group in self._produced or DEPENDS_ON_PRODUCER in notes or not _has_qpu(pods.template["spec"]):
            yield _as(CONSUMER, pods, 0, pods.count)
            return
        self._produced.add(group)
        yield _as(PRODUCER, pods, 0, min(pods.count, 1))
        if pods.count > 1:
            yield _as(CONSUMER, pods, 1, pods.count)


def _as(role: str, pods: PodSet, first: int, end: int) -> PodSet:
    """Return the pods from ``first`` to ``end`` (excluded) with a role."""
    meta = pods.template["metadata"]
    noted = {**meta, "annotations": {**meta["annotations"], ROLE_ANNOTATION: role}}
    return replace(
        pods,
        template={**pods.template, "metadata": noted},
        count=end - first,
        members=lambda: islice(pods.members(), first, max(end, 1)),
    )


def _has_qpu(spec: Mapping[str, Any]) -> bool:
    try:
        return QPU in effective_requests(spec)[1]
    except InvalidRequest:
        return False
