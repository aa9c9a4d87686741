"""Calls to the Kubernetes API in the wire form: plain dicts in and out, because tests assert on what is sent.

The official client loads the kubeconfig, authenticates and holds the connections, which threads may share.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import urllib3
from kubernetes.client import ApiClient, Configuration
from kubernetes.config import load_kube_config

from tests.localcluster.errors import ApiError

Manifest = dict[str, Any]

POOL_SIZE = 64
CONNECT_SECONDS = 10
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


class Watch:
    """An open watch; iterate over its events (``type``, ``object``). Another thread may call `close`."""

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self._response = response
        self._closed = False

    def __iter__(self) -> Iterator[Manifest]:
        rest = b""
        try:
            with suppress(urllib3.exceptions.HTTPError, OSError):
                for chunk in self._response.stream(None):
                    if self._closed:
                        # Data from a connection that was shut down may be anything, even encrypted bytes.
                        return
                    *lines, rest = (rest + chunk).split(b"\n")
                    yield from map(json.loads, filter(None, lines))
        finally:
            self._response.close()

    def close(self) -> None:
        """End the watch and an iteration that waits for an event."""
        self._closed = True
        with suppress(ValueError, RuntimeError, OSError):
            self._response.shutdown()


class Api:
    """A client of the API server that ``kubeconfig`` names, as its current user."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        configuration = Configuration()
        load_kube_config(  # type: ignore[no-untyped-call]
            config_file=str(kubeconfig), client_configuration=configuration
        )
        self.url = configuration.host.rstrip("/")
        if self.url.startswith(("https://127.", "https://localhost", "https://[::1]")):
            configuration.proxy = None
        configuration.connection_pool_maxsize = POOL_SIZE
        configuration.retries = False
        self._client = ApiClient(configuration)
        self._resources: dict[tuple[str, str], tuple[str, bool]] = {}

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        timeout: float = 60,
    ) -> Manifest:
        """Make one call; return the answer's JSON object (``{"text": ...}`` for any other answer). Raise `ApiError`."""
        response = self._send(method, path, body, query, content_type, (CONNECT_SECONDS, timeout))
        try:
            return _decoded(response.data)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise ApiError(method, path, 0, type(error).__name__, str(error)) from error

    def get(self, path: str, **query: str) -> Manifest:
        """GET ``path``."""
        return self.request("GET", path, query=query)

    def delete(self, path: str, **query: str) -> Manifest:
        """DELETE ``path``; useful queries are ``gracePeriodSeconds="0"`` and ``propagationPolicy``."""
        return self.request("DELETE", path, query=query)

    def patch(self, path: str, body: object, content_type: str = MERGE_PATCH) -> Manifest:
        """PATCH ``path``, by default with a JSON merge patch."""
        return self.request("PATCH", path, body, content_type=content_type)

    def create(self, manifest: Manifest, namespace: str | None = None) -> Manifest:
        """Create ``manifest``, of any kind, in ``namespace`` if it doesn't name one itself."""
        return self.request("POST", self.path_of(manifest, namespace).rpartition("/")[0], manifest)

    def apply(
        self, manifest: Manifest, namespace: str | None = None, manager: str = "localcluster"
    ) -> Manifest:
        """Create or change ``manifest`` by server-side apply, taking over its fields."""
        query = {"fieldManager": manager, "force": "true"}
        path = self.path_of(manifest, namespace)
        return self.request("PATCH", path, manifest, query=query, content_type=APPLY_PATCH)

    def path_of(self, manifest: Manifest, namespace: str | None = None) -> str:
        """Return the path of the object that ``manifest`` describes; its last part is the name, which may be empty."""
        version, metadata = manifest["apiVersion"], manifest["metadata"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        plural, namespaced = self._resource(root, manifest["kind"])
        where = f"/namespaces/{metadata.get('namespace') or namespace or 'default'}" if namespaced else ""
        return f"{root}{where}/{plural}/{metadata.get('name', '')}"

    def watch(self, path: str, resource_version: str, **query: str) -> Watch:
        """Watch the collection at ``path`` from ``resource_version`` on."""
        query = {**query, "watch": "true", "resourceVersion": resource_version, "allowWatchBookmarks": "true"}
        return Watch(self._send("GET", path, None, query, "application/json", (CONNECT_SECONDS, None)))

    def reachable(self, path: str = "/readyz") -> bool:
        """Return whether ``path`` answers 2xx now."""
        try:
            self.request("GET", path, timeout=5)
        except ApiError:
            return False
        return True

    def close(self) -> None:
        """Close all connections."""
        self._client.rest_client.pool_manager.clear()

    def _resource(self, root: str, kind: str) -> tuple[str, bool]:
        if (root, kind) not in self._resources:
            for entry in self.get(root)["resources"]:
                if "/" not in entry["name"]:
                    self._resources[root, entry["kind"]] = (entry["name"], entry["namespaced"])
        try:
            return self._resources[root, kind]
        except KeyError:
            raise ApiError("GET", root, 404, "NotFound", f"the server doesn't know the kind {kind}") from None

    def _send(
        self,
        method: str,
        path: str,
        body: object,
        query: Mapping[str, str] | None,
        content_type: str,
        timeouts: tuple[float, float | None],
    ) -> urllib3.BaseHTTPResponse:
        headers = {"Accept": "application/json", "Content-Type": content_type}
        self._client.update_params_for_auth(headers, [], ["BearerToken"], path, method, body)
        url = f"{self.url}{path}" + (f"?{urlencode(query)}" if query else "")
        try:
            answer = self._client.call_api(method, url, headers, body, _request_timeout=timeouts)
            response: urllib3.BaseHTTPResponse = answer.response
            if 200 <= response.status < 300:
                return response
            refusal = _decoded(response.data)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise ApiError(method, path, 0, type(error).__name__, str(error)) from error
        message = str(refusal.get("message") or refusal.get("text") or "")
        raise ApiError(method, path, response.status, str(refusal.get("reason", "")), message)


def _decoded(data: bytes) -> Manifest:
    try:
        answer = json.loads(data)
    except ValueError:
        return {"text": data.decode(errors="replace")}
    return answer if isinstance(answer, dict) else {"text": answer}
