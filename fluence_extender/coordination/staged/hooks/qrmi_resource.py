"""Hook for QRMI, whose tasks have no tags, so each one is reported to the sidecar."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def install(module: Any, pod: Any) -> None:
    """Let ``QuantumResource.task_start`` of ``qrmi`` report the task that it started."""
    pod.wrap(module.QuantumResource, "task_start", after=pod.report)
