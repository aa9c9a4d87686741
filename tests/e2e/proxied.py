"""The service behind the API server, as it is where it runs in a pod: aggregated, and behind the proxy to Services.

No kubelet here runs containers, so a pod that nobody runs stands for the process: the API server's proxy goes to
addresses of pods alone, and to none on loopback, so the process listens on all. For the aggregated paths the API server
takes the Service's external name, which is this machine.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from fluence_extender.model.names import DEFAULT_NAMESPACE
from tests.e2e.harness import Manifest, documents, wait_for
from tests.e2e.installation import BASE, Installation
from tests.localcluster import Api, ApiError

NAME = "fluence"
CORE = f"/api/v1/namespaces/{DEFAULT_NAMESPACE}"
OTHERS = "default"
"""A namespace in which the users of tests have no rights."""

PROXY = f"{CORE}/services/https:{NAME}:api/proxy"
AGGREGATED = "/apis/fluence.flux-framework.org/v1"
SLOWEST = 240.0
"""Seconds: the API server tries an APIService again after up to 30 s, and each of its tries may take 6 s."""

API_SERVICE = "/apis/apiregistration.k8s.io/v1/apiservices/v1.fluence.flux-framework.org"


def own_address() -> str:
    """An address of this machine that isn't loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        # Nothing is sent: the kernel only chooses the address that it would send from.
        probe.connect(("192.0.2.254", 9))
        return str(probe.getsockname()[0])


@contextmanager
def behind_proxy(installation: Installation, *arguments: str) -> Iterator[None]:
    """While this lasts, the service, with further arguments, is reached as fluence-system/fluence."""
    api = installation.plane.api
    reached = ("--api-host", "0.0.0.0", "--api-service", f"{DEFAULT_NAMESPACE}/{NAME}")
    with installation.other(*reached, *arguments) as stack:
        port = urlsplit(stack.api_url).port or 0
        for one in (_service(port), _pod(), _endpoints(own_address(), port), *_aggregation(port)):
            api.apply(one)
        ips = {"podIP": own_address(), "podIPs": [{"ip": own_address()}]}
        api.patch(f"{CORE}/pods/{NAME}/status", {"status": ips})
        for one in documents(BASE / "users.yaml"):
            api.apply(one)
        wait_for(
            lambda: _answers(api),
            timeout=SLOWEST,
            what="the API server to reach the service",
            seen=lambda: api.get(API_SERVICE)["status"],
        )
        try:
            yield
        finally:
            api.delete(API_SERVICE)
            for path in (f"endpoints/{NAME}", f"services/{NAME}", f"pods/{NAME}", "secrets/fluence-state-ca"):
                api.delete(f"{CORE}/{path}")


def _answers(api: Api) -> bool:
    try:
        return "items" in api.get(f"{AGGREGATED}/nodes")
    except ApiError as error:
        if error.status in (401, 403):
            # The service doesn't know the API server's front proxy yet.
            return False
        raise


def _aggregation(port: int) -> list[Manifest]:
    """The APIService and the Secret of deploy/, with the port that the process has here."""
    service, secret = documents(BASE / "apiservice.yaml")
    service["spec"]["service"]["port"] = port
    return [service, secret]


def _metadata() -> Manifest:
    return {"name": NAME, "namespace": DEFAULT_NAMESPACE}


def _service(port: int) -> Manifest:
    ports = [{"name": "api", "port": 8889, "targetPort": port, "protocol": "TCP"}]
    spec = {"type": "ExternalName", "externalName": "localhost", "ports": ports}
    return {"apiVersion": "v1", "kind": "Service", "metadata": _metadata(), "spec": spec}


def _pod() -> Manifest:
    """A pod of the Deployment, which the namespace admits, and which no scheduler takes."""
    (deployment,) = documents(BASE / "deployment.yaml")
    spec = deployment["spec"]["template"]["spec"] | {"schedulerName": "nobody"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": _metadata(), "spec": spec}


def _endpoints(address: str, port: int) -> Manifest:
    target = {"kind": "Pod", "name": NAME, "namespace": DEFAULT_NAMESPACE}
    return {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": _metadata(),
        "subsets": [
            {
                "addresses": [{"ip": address, "targetRef": target}],
                "ports": [{"name": "api", "port": port, "protocol": "TCP"}],
            }
        ],
    }
