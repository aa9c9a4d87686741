"""Amazon Braket SDK: tasks that a device runs carry the pod's uid as a tag, among the user's own ones.

Where a role may not tag, the task goes without; batches are left to the client beneath, where each task is seen alone.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def install(module: Any, pod: Any) -> None:
    """Have ``AwsDevice.run`` of ``braket.aws.aws_device`` pass the tag on."""

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
