"""When a pod ended, by the statuses of its containers.

This is read separately from the rest of a pod, and only once it has ended. Requests are computed once for all pods with
equal statuses, and times would make each pod's status different.
"""

from __future__ import annotations

import msgspec

from fluence_extender.objects.fields import Time
from fluence_extender.objects.meta import UNREADABLE


class Terminated(msgspec.Struct):
    """core/v1 ContainerStateTerminated."""

    finished_at: Time | None = msgspec.field(name="finishedAt", default=None)


class ContainerState(msgspec.Struct):
    """core/v1 ContainerState."""

    terminated: Terminated | None = None


class EndedContainer(msgspec.Struct):
    """core/v1 ContainerStatus: how it ended."""

    state: ContainerState | None = None


class EndedStatus(msgspec.Struct):
    """core/v1 PodStatus: the statuses of its containers."""

    containers: list[EndedContainer] | None = msgspec.field(name="containerStatuses", default=None)


class EndedPod(msgspec.Struct):
    """core/v1 Pod: its status."""

    status: EndedStatus | None = None


_decode = msgspec.json.Decoder(EndedPod).decode


def ended_at(raw: bytes) -> float:
    """Return when the last container of a Pod ended, in seconds since the epoch; 0 if that can't be read."""
    try:
        status = _decode(raw).status
    except (*UNREADABLE, RecursionError):
        return 0.0
    containers = status.containers if status is not None else None
    states = (one.state.terminated for one in containers or () if one.state is not None)
    return max((one.finished_at.timestamp() for one in states if one and one.finished_at), default=0.0)
