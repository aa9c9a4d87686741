"""An object is deleted and made anew under the same name, however long its end takes and whatever answers get lost.

Invariant: once `Renewal.go_on` returns there is one with another uid, or nobody wants one any more, or a finalizer has
kept the former one for so long that it stays for good: Kubernetes 1.36 protects a PodGroup while it has pods.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from fluence_extender.localcluster import Api, ApiError, LocalClusterError
from tests.e2e.harness import Manifest

KEPT = 20.0
"""Seconds for which a finalizer keeps what is being deleted, after which it is taken to stay."""


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
    clock: Callable[[], float] = time.monotonic
    kept_since: float | None = None

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
