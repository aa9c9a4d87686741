"""An object is deleted and made anew under the same name, however long its end takes and whatever answers get lost.

Invariant: once `Renewal.go_on` returns there is one with another uid, or nobody wants one any more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fluence_extender.localcluster import Api, ApiError, LocalClusterError
from tests.e2e.harness import Manifest


class NotYet(LocalClusterError):
    """The former object is still there."""


@dataclass(slots=True)
class Renewal:
    """Renews ``manifest``, of which ``path`` has all of its kind, while it is ``wanted``."""

    api: Api
    path: str
    manifest: Manifest
    wanted: Callable[[], bool]
    former: str = ""

    @property
    def object_path(self) -> str:
        """Where the object is."""
        return f"{self.path}/{self.manifest['metadata']['name']}"

    def begin(self) -> None:
        """See which object is to go. Raises `ApiError`."""
        self.former = str(self.api.get(self.object_path)["metadata"]["uid"])

    def go_on(self) -> None:
        """Do what is next. Raises `NotYet` and `ApiError`: call it again then."""
        there = self._there()
        if (there is not None and there["uid"] != self.former) or not self.wanted():
            return
        if there is None:
            self.api.request("POST", self.path, self.manifest)
            return
        if "deletionTimestamp" not in there:
            self.api.delete(self.object_path)
        raise NotYet(f"{self.object_path} is still there")

    def _there(self) -> Manifest | None:
        try:
            return dict(self.api.get(self.object_path)["metadata"])
        except ApiError as error:
            if error.status != 404:
                raise
            return None
