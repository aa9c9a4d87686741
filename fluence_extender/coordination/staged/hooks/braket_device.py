"""Hook for the Amazon Braket SDK: tasks that a device runs have the pod's uid as a tag, beside the user's own tags.

If the role may not tag, the task is submitted without the tag. Batches are left to the client underneath, which creates
each task by itself.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def install(module: Any, pod: Any) -> None:
    """Let ``AwsDevice.run`` of ``braket.aws.aws_device`` pass the tag on."""

    def tagged(args: Any, kwargs: Any) -> Any:
        kwargs["tags"] = {pod.tag: pod.uid, **(kwargs.get("tags") or {})}
        return args, kwargs

    def report(task: Any) -> None:
        pod.report(getattr(task, "id", None))

    def refused(error: Exception) -> bool:
        answer = getattr(error, "response", None) or {}
        denied = answer.get("Error", {}).get("Code") == "AccessDeniedException"
        return bool(denied or (isinstance(error, TypeError) and "tags" in str(error)))

    pod.wrap(module.AwsDevice, "run", before=tagged, after=report, refused=refused)
