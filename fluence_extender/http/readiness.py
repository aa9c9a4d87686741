"""Whether the service can answer, which both listeners ask before anything else."""

from __future__ import annotations

from typing import Protocol


class Readiness(Protocol):
    """What every port of the service reports about the service itself."""

    @property
    def not_ready_reason(self) -> str:
        """What is still missing, "" once the cluster has been listed and what runs there has been replayed."""
        ...

    @property
    def leading(self) -> bool:
        """Whether this replica decides and writes; otherwise it is a standby and reports what it sees."""
        ...


def not_ready(reason: str) -> str:
    """Return the message for requests that come before the service is ready."""
    return f"not ready: {reason}"
