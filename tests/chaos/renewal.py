"""Delete an object and create it again under the same name, even if its deletion takes long and answers get lost.

Invariant: once `Renewal.go_on` returns, there is an object with another uid, or the object isn't wanted any more, or a
finalizer has kept the old one for so long that it stays. (Kubernetes 1.36 protects a PodGroup while it has pods.)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.e2e.harness import Manifest
from tests.localcluster import Api, ApiError, LocalClusterError

KEPT = 20.0
"""After a finalizer has kept an object for so many seconds, the object counts as one that stays."""


class NotYet(LocalClusterError):
    """The old object is still there."""


@dataclass(slots=True)
class Renewal:
    """Creates ``manifest`` again while it is ``wanted``; ``path`` lists the objects of its kind."""

    api: Api
    path: str
    manifest: Manifest
    wanted: Callable[[], bool]
    former: str = ""
    clock: Callable[[], float] = time.monotonic
    kept_since: float | None = None

    @property
    def object_path(self) -> str:
        """Return the path of the object."""
        return f"{self.path}/{self.manifest['metadata']['name']}"

    def begin(self) -> None:
        """Read which object has to go. Raise `ApiError`."""
        self.former = str(self.api.get(self.object_path)["metadata"]["uid"])

    def go_on(self) -> None:
        """Do the next thing. Raise `NotYet` or `ApiError`; then call it again."""
        there = self._there()
        if (there is not None and there["uid"] != self.former) or not self.wanted():
            return
        if there is None:
            self.api.request("POST", self.path, self.manifest)
            return
        if "deletionTimestamp" not in there:
            self.api.delete(self.object_path)
        elif self._stays(there):
            return
        raise NotYet(f"{self.object_path} is still there")

    def _stays(self, there: Manifest) -> bool:
        if not there.get("finalizers"):
            return False
        if self.kept_since is None:
            self.kept_since = self.clock()
        return self.clock() >= self.kept_since + KEPT

    def _there(self) -> Manifest | None:
        try:
            return dict(self.api.get(self.object_path)["metadata"])
        except ApiError as error:
            if error.status != 404:
                raise
            return None
