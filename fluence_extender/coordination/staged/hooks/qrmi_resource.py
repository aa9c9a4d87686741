"""QRMI: its tasks have no tags, so the sidecar is told of each one."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def install(module: Any, pod: Any) -> None:
    """Have ``QuantumResource.task_start`` of ``qrmi`` report the task that it started."""
    pod.wrap(module.QuantumResource, "task_start", after=pod.report)
