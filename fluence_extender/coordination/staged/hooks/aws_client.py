"""Hook for botocore, on which the Braket SDK and all other Python clients of Amazon Braket are built.

A role that may create tasks but not tag them is refused a tagged task. Then the task is submitted without the tag.
"""

from __future__ import annotations

DENIED = "AccessDeniedException"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def install(module: Any, pod: Any) -> None:
    """Let ``BaseClient`` of ``botocore.client`` tag each task that is created, and report it."""

    def tagged(args: Any, kwargs: Any) -> Any:
        if len(args) != 3 or kwargs or args[1] != "CreateQuantumTask":
            return None
        parameters = dict(args[2])
        parameters["tags"] = {pod.tag: pod.uid, **(parameters.get("tags") or {})}
        return (args[0], args[1], parameters), kwargs

    def report(answer: Any) -> None:
        if isinstance(answer, dict):
            pod.report(answer.get("quantumTaskArn"))

    def refused(error: Exception) -> bool:
        answer = getattr(error, "response", None) or {}
        # A library from before tasks had tags doesn't know the parameter.
        unknown = type(error).__name__ == "ParamValidationError" and "tags" in str(error)
        return unknown or bool(answer.get("Error", {}).get("Code") == DENIED)

    pod.wrap(module.BaseClient, "_make_api_call", before=tagged, after=report, refused=refused)
