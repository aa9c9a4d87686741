"""Backends behind a site's own HTTP service, or in a file: for tests, examples and local queues.

The backend's attribute ``endpoint`` is its URL. ``GET <endpoint>/tasks?tag=<pod uid>`` returns ``{"tasks": [...]}``,
``GET <endpoint>/tasks/<id>`` one task: ``{"id": ..., "tag": ..., "state": ..., "position": ..., "created": ...}``.
The state is queued, running, completed, failed or cancelled; the next task has position 1; created is a number that
grows. A ``file:`` URL names a file with the whole list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from fluence_extender.coordination.provider import (
    ProviderError,
    TaskState,
    TaskStatus,
    read_id,
    read_position,
)
from fluence_extender.coordination.vendor_http import send


class Http:
    """The provider ``http``."""

    name = "http"

    def matches(self, attributes: Mapping[str, str]) -> bool:
        """Return whether the backend has an endpoint."""
        return bool(attributes.get("endpoint"))

    def connect(self, attributes: Mapping[str, str], environ: Mapping[str, str]) -> HttpQueue:
        """Return the queue at the backend's endpoint."""
        endpoint = attributes.get("endpoint", "").rstrip("/")
        if not endpoint.startswith(("http://", "https://", "file:///")):
            raise ProviderError(
                f"endpoint {endpoint!r} isn't a URL that begins with http://, https:// or file:///"
            )
        return HttpQueue(endpoint)


class HttpQueue:
    """The tasks at ``endpoint``."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._file = endpoint.startswith("file:")

    def find_my_tasks(self, pod_uid: str) -> Sequence[str]:
        """Return the pod's tasks. Tags are compared here, because the service may return others too."""
        mine = [one for one in self._tasks(pod_uid) if one.get("tag") == pod_uid]
        mine.sort(key=_created)
        return [found for one in mine if (found := read_id(one.get("id"))) is not None]

    def status(self, task: str) -> TaskStatus:
        """Return the status of a task."""
        if self._file:
            found = next((one for one in self._tasks("") if one.get("id") == task), None)
            if found is None:
                raise ProviderError(f"{self._endpoint} has no task {task}")
        else:
            found = send("GET", f"{self._endpoint}/tasks/{quote(task, safe='')}").checked(f"read task {task}")
        try:
            state = TaskState(str(found.get("state", "")).lower())
        except ValueError:
            raise ProviderError(f"task {task} has the unknown state {found.get('state')!r}") from None
        return TaskStatus(state, read_position(found.get("position")))

    def _tasks(self, pod_uid: str) -> list[Mapping[str, Any]]:
        url = self._endpoint if self._file else f"{self._endpoint}/tasks?{urlencode({'tag': pod_uid})}"
        return send("GET", url).items("tasks", f"list tasks at {url}")


def _created(task: Mapping[str, Any]) -> float:
    created = task.get("created")
    return float(created) if isinstance(created, int | float) else 0.0
