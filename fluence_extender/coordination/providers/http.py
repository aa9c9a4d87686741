"""Backends behind an HTTP service of one's own, or a file: for tests, examples and queues of a site.

The backend's attribute ``endpoint`` is its URL. ``GET <endpoint>/tasks?tag=<pod uid>`` gives ``{"tasks": [...]}``,
``GET <endpoint>/tasks/<id>`` one task: ``{"id": ..., "tag": ..., "state": ..., "position": ..., "created": ...}``.
State is queued, running, completed, failed or cancelled, position 1 for who is next, created a number that grows. A
``file:`` URL names a file with the whole list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from fluence_extender.coordination.provider import ProviderError
from fluence_extender.coordination.tasks import State, Status, read_id, read_position
from fluence_extender.coordination.web import ask, asked, listed


class Http:
    """The provider ``http``."""

    name = "http"

    def matches(self, attributes: Mapping[str, str]) -> bool:
        """Whether the backend has an endpoint, and nothing says that it is another vendor's."""
        return bool(attributes.get("endpoint"))

    def connect(self, attributes: Mapping[str, str], environ: Mapping[str, str]) -> HttpQueue:
        """The queue at the backend's endpoint."""
        endpoint = attributes.get("endpoint", "").rstrip("/")
        if not endpoint.startswith(("http://", "https://", "file:///")):
            raise ProviderError(f"endpoint {endpoint!r} is no URL of the form http://, https:// or file:///")
        return HttpQueue(endpoint)


class HttpQueue:
    """The tasks at ``endpoint``."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._file = endpoint.startswith("file:")

    def find_my_tasks(self, pod_uid: str) -> Sequence[str]:
        """See `Queue`. Tags are compared here too, whatever the service filters."""
        mine = [one for one in self._tasks(pod_uid) if one.get("tag") == pod_uid]
        mine.sort(key=_created)
        return [found for one in mine if (found := read_id(one.get("id"))) is not None]

    def status(self, task: str) -> Status:
        """See `Queue`."""
        if self._file:
            found = next((one for one in self._tasks("") if one.get("id") == task), None)
            if found is None:
                raise ProviderError(f"{self._endpoint} has no task {task}")
        else:
            found = asked(ask("GET", f"{self._endpoint}/tasks/{quote(task, safe='')}"), f"read task {task}")
        try:
            state = State(str(found.get("state", "")).lower())
        except ValueError:
            raise ProviderError(
                f"task {task} is said to be {found.get('state')!r}, which is no state"
            ) from None
        return Status(state, read_position(found.get("position")))

    def _tasks(self, pod_uid: str) -> list[Mapping[str, Any]]:
        url = self._endpoint if self._file else f"{self._endpoint}/tasks?{urlencode({'tag': pod_uid})}"
        return listed(ask("GET", url), "tasks", f"list tasks at {url}")


def _created(task: Mapping[str, Any]) -> float:
    said = task.get("created")
    return float(said) if isinstance(said, int | float) else 0.0
