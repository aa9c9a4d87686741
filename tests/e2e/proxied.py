"""The service behind the API server's proxy, as it is where it runs in a pod.

kwok runs no containers, so the Service points at the process itself; the API server refuses loopback addresses, so the
process listens on all.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from fluence_extender.localcluster import Api, ApiError
from tests.e2e.harness import documents, wait_for
from tests.e2e.installation import BASE, Installation

NAMESPACE = "kube-system"
PROXY = f"/api/v1/namespaces/{NAMESPACE}/services/http:fluence:api/proxy"


def own_address() -> str:
    """An address of this machine that isn't loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        # Nothing is sent: the kernel only chooses the address that it would send from.
        probe.connect(("192.0.2.254", 9))
        return str(probe.getsockname()[0])


@contextmanager
def behind_proxy(installation: Installation) -> Iterator[None]:
    """While this lasts, the service is reached as kube-system/fluence."""
    api = installation.plane.api
    with installation.other("--api-host", "0.0.0.0") as stack:
        address = urlsplit(stack.api_url)
        made = [_service(address.port or 0), _endpoints(own_address(), address.port or 0)]
        for one in made:
            api.apply(one)
        for one in documents(BASE / "users.yaml"):
            api.apply(one)
        wait_for(lambda: _answers(api), 60, "the proxy to reach the service")
        try:
            yield
        finally:
            for kind in ("endpoints", "services"):
                api.delete(f"/api/v1/namespaces/{NAMESPACE}/{kind}/fluence")


def _answers(api: Api) -> bool:
    try:
        return "items" in api.get(f"{PROXY}/v1/nodes")
    except ApiError:
        return False


def _service(port: int) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "fluence", "namespace": NAMESPACE},
        "spec": {"ports": [{"name": "api", "port": 8889, "targetPort": port, "protocol": "TCP"}]},
    }


def _endpoints(address: str, port: int) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": "fluence", "namespace": NAMESPACE},
        "subsets": [
            {"addresses": [{"ip": address}], "ports": [{"name": "api", "port": port, "protocol": "TCP"}]}
        ],
    }
