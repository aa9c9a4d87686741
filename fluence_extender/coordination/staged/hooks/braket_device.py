"""Amazon Braket SDK: tasks that a device runs carry the pod's uid as a tag, among the user's own ones."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def install(module: Any, pod: Any) -> None:
    """Have ``AwsDevice.run`` and ``run_batch`` of ``braket.aws.aws_device`` pass the tag on."""

    def tagged(args: Any, kwargs: Any) -> Any:
        kwargs["tags"] = {pod.tag: pod.uid, **(kwargs.get("tags") or {})}
        return args, kwargs

    def report(task: Any) -> None:
        pod.report(getattr(task, "id", None))

    def refused(error: Exception) -> bool:
        return isinstance(error, TypeError) and "tags" in str(error)

    pod.wrap(module.AwsDevice, "run", before=tagged, after=report, refused=refused)
    if hasattr(module.AwsDevice, "run_batch"):
        pod.wrap(module.AwsDevice, "run_batch", before=tagged, refused=refused)
