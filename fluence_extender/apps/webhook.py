"""The webhook's composition root: one process that watches, keeps its certificate and registration, and answers.

Order of a start: listen with a certificate that no client trusts, so that probes are answered; find out what the
cluster is like; make the certificate; register. From then on each of these keeps itself up to date.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial

import structlog

from fluence_extender import __version__
from fluence_extender.apps.processes import (
    check_resources,
    faulty_resources,
    first_error,
    log_unhandled,
)
from fluence_extender.apps.settings import WebhookSettings
from fluence_extender.cluster.connection import Connection, connect
from fluence_extender.cluster.live_resources import LiveResources
from fluence_extender.cluster.objects import ApiObjects, ApiPodGroups
from fluence_extender.cluster.port import (
    DEVICE_KINDS,
    QUEUE_KINDS,
    Listed,
    Observation,
    ResourcesFile,
    Sink,
)
from fluence_extender.cluster.reviews import ApiReviews
from fluence_extender.cluster.watch import Watcher
from fluence_extender.coordination.late import LateConsumerReconciler
from fluence_extender.coordination.pods import ApiReleases
from fluence_extender.http.listeners.gate import OpenGate, ReviewingGate, is_loopback
from fluence_extender.http.listeners.serving import Address, allow_open_files, background, stop_signals
from fluence_extender.identity.authority import SharedAuthority
from fluence_extender.identity.registration import Identity
from fluence_extender.identity.tls import show_certificate, tls_context
from fluence_extender.model.node import Node
from fluence_extender.objects.resource_quota import ResourceQuota
from fluence_extender.webhook.admission import Admission
from fluence_extender.webhook.context import ContextTracker
from fluence_extender.webhook.contract import Context
from fluence_extender.webhook.lookups import ApiLookups
from fluence_extender.webhook.metrics import WebhookMetrics
from fluence_extender.webhook.podgroups import PodGroupReconciler
from fluence_extender.webhook.producers import ProducerClaims
from fluence_extender.webhook.registration import RegistrationReconciler, ServiceTarget, Target, UrlTarget
from fluence_extender.webhook.server import WebhookApp, serve_https
from fluence_extender.webhook.sidecar_account import SidecarAccountReconciler

log = structlog.get_logger(__name__)

IMAGE = f"fluence-extender:{__version__}"
"""The image of sidecars if our own image isn't known."""

GARBAGE = 20_000, 20, 50
"""How seldom the collector of cyclic garbage runs; see `gc.set_threshold`."""

DRAIN = 1.0
"""Seconds in which answers ask clients to use another connection, before theirs is closed: a client doesn't repeat a
POST that crosses with the closing."""


async def run(settings: WebhookSettings, listening: Callable[[Address], None]) -> None:
    """Serve until SIGTERM or SIGINT. Raises `StartRefused`, `CannotListen` and the rooms' own start errors."""
    if settings.resources is not None:
        check_resources(settings.resources)
    asyncio.get_running_loop().set_exception_handler(log_unhandled)
    allow_open_files()
    async with connect(settings.kubeconfig) as connection:
        try:
            await _run(settings, connection, listening)
        except BaseExceptionGroup as group:
            raise first_error(group) from None


async def _run(
    settings: WebhookSettings, connection: Connection, listening: Callable[[Address], None]
) -> None:
    metrics = WebhookMetrics()
    objects = ApiObjects(connection)
    initial = Context(sidecar_image=settings.sidecar_image or IMAGE)
    context = ContextTracker(objects, initial, "" if settings.sidecar_image else _own_pod(settings))
    # A pod that is created while the file is missing may be placed after the file is back.
    live = LiveResources(lambda file, why: metrics.resources_rejected.inc(), keep_if_gone=True)
    pod_groups = PodGroupReconciler(ApiPodGroups(connection))
    sidecar_accounts = SidecarAccountReconciler(objects)
    late_consumers = LateConsumerReconciler(ApiReleases(connection))
    observers = (context.observe, pod_groups.observe, sidecar_accounts.observe, late_consumers.observe)
    watcher = Watcher(
        connection,
        partial(_observe, live, context, observers),
        settings.resources or settings.resources_namespace,
        without=(Node, ResourceQuota, *QUEUE_KINDS, *DEVICE_KINDS),
    )
    target = webhook_target(settings)
    tls = tls_context()
    registration = RegistrationReconciler(
        objects,
        SharedAuthority(objects, _own_namespace(settings), target.hosts, lambda: datetime.now(UTC)),
        target,
        lambda identity: _show(tls, identity),
        lambda: not context.missing,
    )
    producers = ProducerClaims(objects, _own_namespace(settings), time.time)
    lookups = ApiLookups(objects, producers, time.monotonic)
    admission = Admission(settings.handlers, lambda: context.context, lookups)
    gate = OpenGate() if is_loopback(settings.host) else ReviewingGate(ApiReviews(connection))
    app = WebhookApp(admission, registration, metrics, lambda: context.missing, gate)
    with stop_signals() as stop:
        async with serve_https(app, Address(settings.host, settings.port), tls) as address:
            listening(address)
            work = {
                "follow the cluster": watcher.run(),
                "check the resources": _check_resources(watcher, live),
                "read what isn't watched": context.run(),
                "keep certificate and registration": registration.run(),
                "keep PodGroups": pod_groups.run(),
                "keep the accounts of sidecars": sidecar_accounts.run(),
                "release late consumers": late_consumers.run(),
            }
            async with background(work):
                await stop.wait()
                app.draining = True
                await asyncio.sleep(DRAIN)


def webhook_target(settings: WebhookSettings) -> Target:
    """Return where the API server is to call the webhook."""
    if settings.url:
        return UrlTarget(settings.url)
    namespace, _, name = settings.service.partition("/")
    return ServiceTarget(namespace, name)


def _show(tls: ssl.SSLContext, identity: Identity) -> None:
    show_certificate(tls, identity.certificate, identity.key)
    log.info("the server shows a certificate", expires=identity.expires.isoformat())


def _observe(
    live: LiveResources, context: ContextTracker, observers: Sequence[Sink], seen: Observation
) -> None:
    if seen.kind is ResourcesFile:
        for one in seen.objects if isinstance(seen, Listed) else (seen.object,):
            assert isinstance(one, ResourcesFile)
            resources = live.read(one)
            if resources is not None:
                context.adopt(resources)
        return
    for observe in observers:
        observe(seen)


def _own_pod(settings: WebhookSettings) -> str:
    """Return the path of the pod that this process runs in, if it runs in one: the host name is the pod's name."""
    return f"/api/v1/namespaces/{_own_namespace(settings)}/pods/{socket.gethostname()}"


def _own_namespace(settings: WebhookSettings) -> str:
    """Return the namespace of the webhook's own objects."""
    return settings.service.partition("/")[0]


async def _check_resources(watcher: Watcher, live: LiveResources) -> None:
    """Raise `StartRefused` if resources.yaml is faulty from the beginning."""
    await watcher.synced(ResourcesFile)
    if live.fault is not None:
        raise faulty_resources(live.fault)
    log.info("resources.yaml is read")
    # Reviews are short-lived and hold no cycles, and listed objects stay, so the collector has little to find.
    gc.freeze()
    gc.set_threshold(*GARBAGE)
