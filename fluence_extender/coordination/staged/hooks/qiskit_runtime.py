"""Hook for Qiskit Runtime: jobs have the pod's uid among their tags."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def install(module: Any, pod: Any) -> None:
    """Let ``Runtime.program_run`` of ``qiskit_ibm_runtime.api.rest.runtime`` tag each job, and report it."""

    def tagged(args: Any, kwargs: Any) -> Any:
        kwargs["job_tags"] = [*(kwargs.get("job_tags") or ()), pod.tag + "=" + pod.uid]
        return args, kwargs

    def report(answer: Any) -> None:
        if isinstance(answer, dict):
            pod.report(answer.get("id"))

    def refused(error: Exception) -> bool:
        return isinstance(error, TypeError) and "job_tags" in str(error)

    pod.wrap(module.Runtime, "program_run", before=tagged, after=report, refused=refused)
