"""What tests do to the service as deploy/ installs it on a cluster; `Installation` does the same to a local one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from fluence_extender.model.names import DEFAULT_NAMESPACE
from tests.e2e.harness import Manifest, wait_for
from tests.e2e.installation import ungated
from tests.localcluster import Api

SECONDS = 300.0
DEPLOYMENT = f"/apis/apps/v1/namespaces/{DEFAULT_NAMESPACE}/deployments/fluence"
PODS = f"/api/v1/namespaces/{DEFAULT_NAMESPACE}/pods"


class Operations(Protocol):
    """What an operator may do to the service."""

    def other(self, *arguments: str) -> AbstractContextManager[object]:
        """Run with these options instead."""

    def ungated(self) -> AbstractContextManager[None]:
        """Let pods be created neither direct nor gated, so that kube-scheduler asks about each at once."""

    def crash(self) -> None:
        """Kill the service."""

    def revive(self) -> None:
        """Start it again, and wait until it is ready."""


class Deployed:
    """The Deployment of deploy/ on a cluster."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._replicas = int(api.get(DEPLOYMENT)["spec"]["replicas"])

    @contextmanager
    def other(self, *arguments: str) -> Iterator[None]:
        """Run with more options; afterwards the usual ones are back."""
        (index, usual) = next(
            (number, one["args"])
            for number, one in enumerate(self._api.get(DEPLOYMENT)["spec"]["template"]["spec"]["containers"])
            if one["name"] == "extender"
        )
        place = f"/spec/template/spec/containers/{index}/args"
        self._change(place, [*usual, *arguments])
        try:
            yield
        finally:
            self._change(place, usual)

    def ungated(self) -> AbstractContextManager[None]:
        """While this lasts, pods are neither direct nor gated."""
        return ungated(self._api)

    def crash(self) -> None:
        """End all replicas at once."""
        self._scale(0)
        for one in self._pods():
            self._api.delete(f"{PODS}/{one['metadata']['name']}", gracePeriodSeconds="0")
        self._wait(0)

    def revive(self) -> None:
        """Start as many replicas as there were."""
        self._scale(self._replicas)
        self._wait(self._replicas)

    def _change(self, place: str, value: list[str]) -> None:
        """Replace a part of the Deployment while nothing runs, which takes less time than a rollout."""
        self._scale(0)
        self._wait(0)
        self._patch({"op": "replace", "path": place, "value": value})
        self.revive()

    def _scale(self, replicas: int) -> None:
        self._patch({"op": "replace", "path": "/spec/replicas", "value": replicas})

    def _patch(self, operation: Manifest) -> None:
        self._api.request("PATCH", DEPLOYMENT, [operation], content_type="application/json-patch+json")

    def _pods(self) -> list[Manifest]:
        found: list[Manifest] = self._api.get(PODS, labelSelector="app.kubernetes.io/name=fluence")["items"]
        return found

    def _wait(self, replicas: int) -> None:
        """Wait until exactly so many replicas run, all of them ready."""

        def reached() -> bool:
            ready = int(self._api.get(DEPLOYMENT)["status"].get("readyReplicas", 0))
            return ready == len(self._pods()) == replicas

        wait_for(reached, SECONDS, f"{replicas} replicas to be ready")
