"""The composition root: one process that watches, decides, writes and answers.

Order of a start: read the resources, choose the engine, list the cluster, replay what runs, then say ready. The verbs
answer from the first moment, with an honest error until then.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

import structlog

from fluence_extender import __version__
from fluence_extender.cluster import port
from fluence_extender.cluster.api import open_cluster
from fluence_extender.cluster.connection import connect
from fluence_extender.cluster.port import Cluster, Kind, Regarding
from fluence_extender.cluster.resources_file import read_resources_file
from fluence_extender.cluster.watch import Watcher
from fluence_extender.engines import Engine, choose_engine, create_mirror
from fluence_extender.extender.apps import api_app, verbs_app
from fluence_extender.extender.metrics import Metrics
from fluence_extender.extender.server import Address, Listeners, serve
from fluence_extender.gangs.controller import Controller
from fluence_extender.gangs.driver import Driver
from fluence_extender.gangs.limits import Limits
from fluence_extender.graph.problem import InvalidResourcesFile
from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.graph.virtual import ResourcesFile
from fluence_extender.ledger.books import Books
from fluence_extender.model.names import RESOURCES_CONFIGMAP
from fluence_extender.resources_keeper import ResourcesKeeper
from fluence_extender.service import Service
from fluence_extender.settings import Settings

log = structlog.get_logger(__name__)

LISTED_FIRST = (Kind.NODE, Kind.POD, Kind.JOB, Kind.RESOURCES_FILE)
STALE_AFTER = 30.0
"""Seconds without the API server after which we no longer claim to know the cluster."""


class StartRefused(Exception):
    """The service can't start; the text says why and what to do."""


async def run(settings: Settings, listening: Callable[[Listeners, Engine], None]) -> None:
    """Serve until SIGTERM or SIGINT. Raises `StartRefused`, `EngineUnavailable` and the rooms' own start errors."""
    if settings.resources is not None:
        _check(read_resources_file(settings.resources))
    engine = choose_engine(settings.engine)
    metrics = Metrics()
    metrics.name_engine(engine.name, engine.version)
    async with connect(settings.kubeconfig) as connection, open_cluster(connection) as cluster:
        limits = Limits(completion=settings.completion_limit)
        books = Books(create_mirror(engine, settings.policy, settings.levels), settings.policy)
        keeper = ResourcesKeeper(
            lambda resources: _adopt(controller, resources),
            lambda file, why: _reject(cluster, metrics, settings.resources_namespace, file, why),
        )
        controller = Controller(books, limits, on_resources=keeper.take)
        driver = Driver(controller, cluster, limits)
        source: str | Path = settings.resources or settings.resources_namespace
        watcher = Watcher(connection, driver.sink, source)
        service = Service(controller, driver, lambda: _missing(watcher))
        verbs, api = verbs_app(service, metrics), api_app(service, metrics)
        addresses = Address(settings.host, settings.port), Address(settings.api_host, settings.api_port)
        background = [
            asyncio.create_task(watcher.run(), name="watch"),
            asyncio.create_task(_start(watcher, controller, keeper), name="start"),
            asyncio.create_task(driver.run(), name="decide"),
        ]
        serving = asyncio.create_task(
            serve(verbs, api, *addresses, lambda listeners: listening(listeners, engine)), name="serve"
        )
        try:
            await _first_end(serving, background)
        finally:
            for task in (serving, *background):
                task.cancel()
            await asyncio.gather(serving, *background, return_exceptions=True)
            books.close()


async def _first_end(serving: asyncio.Task[None], background: list[asyncio.Task[None]]) -> None:
    """Return when serving has ended; a background task that fails ends everything with its error."""
    waiting = {serving, *background}
    while serving in waiting:
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            with contextlib.suppress(asyncio.CancelledError):
                _raise_first(task)


def _raise_first(task: asyncio.Task[None]) -> None:
    error = task.exception()
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if error is not None:
        raise error


async def _start(watcher: Watcher, controller: Controller, keeper: ResourcesKeeper) -> None:
    """Replay once everything has been listed."""
    await watcher.synced(*LISTED_FIRST)
    if keeper.fault is not None:
        raise StartRefused(f"resources.yaml can't be used:\n{keeper.fault}")
    await asyncio.wait_for(_groups_listed(watcher), timeout=None)
    controller.books.resources = keeper.current
    controller.start()
    log.info(
        "ready",
        version=__version__,
        nodes=len(controller.eligibility.nodes),
        backends=len({device.backend for device in controller.books.mirror.catalogue.devices}),
        held=len(controller.books.holdings),
    )


async def _groups_listed(watcher: Watcher) -> None:
    """Wait for PodGroups where they are served; where they aren't, their watch says so and nothing is missing."""
    while not watcher.is_synced(Kind.POD_GROUP) and Kind.POD_GROUP not in watcher.failures():
        await asyncio.sleep(0.05)


def _missing(watcher: Watcher) -> str:
    """What isn't known of the cluster now, "" when everything is."""
    unlisted = [str(kind) for kind in LISTED_FIRST if not watcher.is_synced(kind)]
    if unlisted:
        failures = watcher.failures()
        why = "; ".join(failures[kind] for kind in LISTED_FIRST if kind in failures)
        return f"waiting for the list of {', '.join(unlisted)}" + (f" ({why})" if why else "")
    if watcher.staleness(Kind.NODE, Kind.POD) > STALE_AFTER:
        return "the API server has not been reached for too long"
    return ""


def _check(file: port.ResourcesFile) -> None:
    try:
        parse_resources(file.text or "", file.source)
    except InvalidResourcesFile as fault:
        raise StartRefused(f"resources.yaml can't be used:\n{fault}") from fault


def _adopt(controller: Controller, resources: ResourcesFile) -> None:
    controller.books.resources = resources
    controller.rebuild()


def _reject(cluster: Cluster, metrics: Metrics, namespace: str, file: port.ResourcesFile, why: str) -> None:
    metrics.resources_rejected.inc()
    regarding = Regarding("v1", "ConfigMap", namespace, RESOURCES_CONFIGMAP)
    message = f"{file.source} is refused, the old resources stay in force: {why}"
    task = asyncio.ensure_future(cluster.event(regarding, "ResourcesRefused", message[:1000], warning=True))
    _reports.add(task)
    task.add_done_callback(_reports.discard)


_reports: set[asyncio.Future[None]] = set()
