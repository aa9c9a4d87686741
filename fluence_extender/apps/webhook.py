"""The webhook's composition root: one process that watches, keeps its certificate and registration, and answers.

Order of a start: listen under a certificate that nobody trusts, so that probes are answered; find out what the cluster
is like; make the certificate; register. From then on each of these is kept up to date by itself.
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
from urllib.parse import urlsplit

import structlog

from fluence_extender import __version__
from fluence_extender.apps.extender.first_lists import StartRefused, check, first_error, note_failure
from fluence_extender.apps.extender.live_resources import LiveResources
from fluence_extender.apps.settings import WebhookSettings
from fluence_extender.cluster.connection import Connection, connect
from fluence_extender.cluster.group_objects import ApiPodGroups
from fluence_extender.cluster.objects import ApiObjects
from fluence_extender.cluster.port import Kind, Listed, Observation, ResourcesFile, Sink
from fluence_extender.cluster.resources_file import read_resources_file
from fluence_extender.cluster.watch import Watcher
from fluence_extender.coordination.late_keeper import LateKeeper
from fluence_extender.coordination.pods import ApiReleases
from fluence_extender.coordination.rights import SidecarAccounts
from fluence_extender.http.listeners.serving import Address, allow_open_files, background, stop_signals
from fluence_extender.webhook.admission import Admission
from fluence_extender.webhook.claim_keeper import ClaimKeeper
from fluence_extender.webhook.claims import ApiClaims
from fluence_extender.webhook.contract import Context
from fluence_extender.webhook.endpoint import WebhookApp
from fluence_extender.webhook.group_keeper import GroupKeeper
from fluence_extender.webhook.identity import GivenFiles, Identity, SharedAuthority, Source
from fluence_extender.webhook.keeper import Keeper
from fluence_extender.webhook.limit_ranges import ApiLimitRanges
from fluence_extender.webhook.listener import SecureListener
from fluence_extender.webhook.metrics import WebhookMetrics
from fluence_extender.webhook.registration import Service, Target, Url
from fluence_extender.webhook.surroundings import Surroundings
from fluence_extender.webhook.tls import load, server_context

log = structlog.get_logger(__name__)

IMAGE = f"fluence-extender:{__version__}"
"""The image of sidecars where ours isn't known."""

GARBAGE = 20_000, 20, 50
"""How seldom the collector of cyclic garbage looks; see `gc.set_threshold`."""

DRAIN = 1.0
"""Seconds in which clients are asked to go elsewhere before connections are closed under them: they don't repeat a POST
that crosses with that."""


async def run(settings: WebhookSettings, listening: Callable[[Address], None]) -> None:
    """Serve until SIGTERM or SIGINT. Raises `StartRefused`, `CannotListen` and the rooms' own start errors."""
    if settings.resources is not None:
        check(read_resources_file(settings.resources))
    asyncio.get_running_loop().set_exception_handler(note_failure)
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
    surroundings = Surroundings(objects, initial, "" if settings.sidecar_image else _own_pod(settings))
    # A pod that is created while the file is gone may be placed when it is there again.
    live = LiveResources(surroundings.adopt, lambda file, why: metrics.resources_rejected.inc(), keeps=True)
    place = settings.resources or settings.resources_namespace
    groups = GroupKeeper(ApiPodGroups(connection), time.monotonic)
    claim_keeper = ClaimKeeper(objects)
    late = LateKeeper(ApiReleases(connection), time.monotonic)
    take = partial(_take, live, (surroundings.take, groups.take, claim_keeper.take, late.take))
    watcher = Watcher(connection, take, place, without=(Kind.NODE,))
    target = webhook_target(settings)
    tls = server_context()
    keeper = Keeper(
        objects,
        _source(settings, objects, target),
        target,
        lambda identity: _show(tls, identity),
        lambda: not surroundings.missing,
    )
    claims = ApiClaims(objects, time.time)
    accounts = SidecarAccounts(objects, time.monotonic)
    limits = ApiLimitRanges(objects, time.monotonic)
    admission = Admission(settings.handlers, lambda: surroundings.context, accounts, claims, limits)
    app = WebhookApp(admission, keeper, metrics, lambda: surroundings.missing)
    with stop_signals() as stop:
        async with SecureListener(app, Address(settings.host, settings.port), tls) as listener:
            listening(listener.address)
            work = {
                "follow the cluster": watcher.run(),
                "check the resources": _checked(watcher, live),
                "look at what isn't watched": surroundings.run(),
                "keep certificate and registration": keeper.run(),
                "keep PodGroups": groups.run(),
                "hand claims to their pods": claim_keeper.run(),
                "release late consumers": late.run(),
            }
            async with background(work):
                await stop.wait()
                app.draining = True
                await asyncio.sleep(DRAIN)


def webhook_target(settings: WebhookSettings) -> Target:
    """Where the API server is told to call."""
    if settings.url:
        return Url(settings.url, urlsplit(settings.url).hostname or "")
    namespace, _, name = settings.service.partition("/")
    return Service(namespace, name)


def _source(settings: WebhookSettings, objects: ApiObjects, target: Target) -> Source:
    if settings.certificates is not None:
        return GivenFiles(settings.certificates, target.hosts)
    namespace = settings.service.partition("/")[0]
    return SharedAuthority(objects, namespace, target.hosts, lambda: datetime.now(UTC))


def _show(tls: ssl.SSLContext, identity: Identity) -> None:
    load(tls, identity.certificate, identity.key)
    log.info("a certificate is served", expires=identity.expires.isoformat())


def _take(live: LiveResources, others: Sequence[Sink], seen: Observation) -> None:
    if seen.kind is Kind.RESOURCES_FILE:
        for one in seen.objects if isinstance(seen, Listed) else (seen.object,):
            assert isinstance(one, ResourcesFile)
            live.take(one)
        return
    for other in others:
        other(seen)


def _own_pod(settings: WebhookSettings) -> str:
    """Where the pod is found that we are in, if we are in one: its host name is its name."""
    namespace = settings.service.partition("/")[0]
    return f"/api/v1/namespaces/{namespace}/pods/{socket.gethostname()}"


async def _checked(watcher: Watcher, live: LiveResources) -> None:
    """Refuse to go on with a resources.yaml that was faulty from the beginning."""
    await watcher.synced(Kind.RESOURCES_FILE)
    if live.fault is not None:
        raise StartRefused(f"resources.yaml can't be used:\n{live.fault}")
    log.info("resources.yaml is read")
    # Reviews are short-lived and hold no cycles, and what was listed stays: the collector has little to find.
    gc.freeze()
    gc.set_threshold(*GARBAGE)
