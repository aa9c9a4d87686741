"""Whether the service can answer. Both listeners check it first."""

from __future__ import annotations

from typing import Protocol


class Readiness(Protocol):
    """The state of the service itself, which every port reports."""

    @property
    def not_ready_reason(self) -> str:
        """What is still missing, "" once the cluster has been listed and its running pods have been replayed."""
        ...

    @property
    def leading(self) -> bool:
        """Whether this replica decides and writes; otherwise it is a standby and reports what it sees."""
        ...


def not_ready(reason: str) -> str:
    """Return the message for requests that come before the service is ready."""
    return f"not ready: {reason}"
