"""How the state API is exposed: to everyone on loopback, or with TLS to callers that the API server knows.

Exposed with TLS, the service shows a certificate of an authority that all replicas share in a Secret. It keeps an
APIService, by which the API server passes ``/apis/fluence.flux-framework.org/v1`` on to it, so that users ask with any
kubeconfig. `http.listeners.gate` says who sees what.

Invariant: plain HTTP is served on loopback only.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

import structlog

from fluence_extender.apps.processes import StartRefused
from fluence_extender.apps.settings import Settings
from fluence_extender.cluster.connection import connect
from fluence_extender.cluster.errors import ClusterError
from fluence_extender.cluster.objects import ApiObjects
from fluence_extender.cluster.port import Json, Objects
from fluence_extender.cluster.reviews import ApiReviews
from fluence_extender.http.listeners.front_proxy import (
    AUTHORITIES,
    BadFrontProxy,
    read_front_proxy,
)
from fluence_extender.http.listeners.gate import AccessGate, OpenGate, ReviewingGate, is_loopback
from fluence_extender.identity.authority import SharedAuthority
from fluence_extender.identity.registration import (
    OWNER,
    OWNER_LABEL,
    Identity,
    IdentityReconciler,
    RegisteredObject,
)
from fluence_extender.identity.tls import recognize_clients, show_certificate, tls_context
from fluence_extender.model.names import STATE_GROUP, STATE_VERSION

log = structlog.get_logger(__name__)

SECRET = "fluence-state-ca"
API_SERVICE = f"{STATE_VERSION}.{STATE_GROUP}"
PATH = f"/apis/apiregistration.k8s.io/v1/apiservices/{API_SERVICE}"
PORT = 8889
"""The Service's port."""

FOLDER = "deploy"

PERIOD = 60.0
"""Seconds between two looks at the API server's front proxy, whose authority may be renewed."""

RETRY = 5.0
"""The same while it isn't known."""


class FrontProxySettings(Protocol):
    """Where the API server publishes the settings of its front proxy."""

    async def front_proxy(self) -> dict[str, str]:
        """Return the settings, {} if there are none. Raises `ClusterError`."""
        ...


@dataclass(frozen=True, slots=True)
class Exposure:
    """The gate and the TLS context (None: plain HTTP) to serve with, and the ``work`` that keeps them up to date."""

    gate: AccessGate
    tls: ssl.SSLContext | None = None
    work: Callable[[], Mapping[str, Coroutine[object, object, None]]] = dict


@contextlib.asynccontextmanager
async def exposed(settings: Settings) -> AsyncIterator[Exposure]:
    """Yield how the state API is to be exposed. Raises `StartRefused` and `BadKubeconfig`."""
    if not settings.api_service:
        if not is_loopback(settings.api_host):
            raise StartRefused(
                f"--api-host {settings.api_host}: other machines could read /v1 and metrics there, without TLS and "
                "without a name. Add --api-service NAMESPACE/NAME, the Service that they call "
                "(deploy/base has fluence-system/fluence), or keep --api-host on 127.0.0.1"
            )
        yield Exposure(OpenGate())
        return
    # Not the connection of the fence: reviews and the certificate don't depend on the lead.
    async with connect(settings.kubeconfig) as connection:
        reviews, tls = ApiReviews(connection), tls_context()
        gate = ReviewingGate(reviews)
        reconciler = state_registration(ApiObjects(connection), settings.api_service, tls)
        yield Exposure(
            gate,
            tls,
            lambda: {
                "follow the front proxy": follow_front_proxy(reviews, gate, tls),
                "keep the state API's certificate": reconciler.run(),
            },
        )


def state_registration(objects: Objects, service: str, tls: ssl.SSLContext) -> IdentityReconciler:
    """Return the reconciler of the certificate in ``tls`` and the APIService for ``service`` (NAMESPACE/NAME)."""
    namespace, _, name = service.partition("/")
    inside = f"{name}.{namespace}"
    hosts = (f"{inside}.svc", f"{inside}.svc.cluster.local", inside, "localhost", "127.0.0.1")

    def show(identity: Identity) -> None:
        show_certificate(tls, identity.certificate, identity.key)

    return IdentityReconciler(
        objects,
        SharedAuthority(objects, namespace, hosts, lambda: datetime.now(UTC), SECRET, FOLDER),
        RegisteredObject(
            server="the state API",
            kind="APIService",
            name=API_SERVICE,
            path=PATH,
            folder=FOLDER,
            wanted=lambda bundle: api_service(namespace, name, bundle),
            corrected=_corrected,
            bundle=_bundle,
        ),
        show,
        lambda: True,
    )


def api_service(namespace: str, name: str, bundle: bytes = b"") -> Json:
    """Return the APIService for a Service; ``bundle`` holds the authorities to trust, in PEM."""
    spec: Json = {
        "group": STATE_GROUP,
        "version": STATE_VERSION,
        # How it is listed among other groups. There are no resources, so nothing depends on it.
        "groupPriorityMinimum": 1000,
        "versionPriority": 15,
        "service": {"namespace": namespace, "name": name, "port": PORT},
    }
    if bundle:
        spec["caBundle"] = base64.b64encode(bundle).decode()
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": API_SERVICE, "labels": {OWNER_LABEL: OWNER}},
        "spec": spec,
    }


def _corrected(stored: Json, wanted: Json) -> Json | None:
    """Return ``stored`` with the wanted bundle, None if it has it: an administrator may choose another port."""
    spec = stored.get("spec") or {}
    if spec.get("caBundle") == wanted["spec"]["caBundle"] and not spec.get("insecureSkipTLSVerify"):
        return None
    kept = {key: value for key, value in spec.items() if key != "insecureSkipTLSVerify"}
    return {**stored, "spec": {**kept, "caBundle": wanted["spec"]["caBundle"]}}


def _bundle(stored: Json | None) -> bytes:
    try:
        return base64.b64decode(((stored or {}).get("spec") or {}).get("caBundle") or "")
    except ValueError:
        return b""


async def follow_front_proxy(
    published_by: FrontProxySettings, gate: ReviewingGate, tls: ssl.SSLContext
) -> None:
    """Make ``gate`` trust the API server's published front proxy, and ``tls`` ask for its certificate."""
    known: dict[str, str] | None = None
    while True:
        try:
            published = await published_by.front_proxy()
            if published != known:
                found = read_front_proxy(published)
                if found is not None:
                    recognize_clients(tls, published[AUTHORITIES])
                else:
                    log.warning(
                        "the API server has no front proxy: users can't ask through it (aggregation layer)"
                    )
                gate.adopt(found)
                known = published
        except (ClusterError, BadFrontProxy, ssl.SSLError) as error:
            log.warning("the settings of the API server's front proxy can't be used", error=str(error))
        await asyncio.sleep(PERIOD if known is not None else RETRY)
