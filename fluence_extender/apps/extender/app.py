"""The extender's composition root: one process that watches, decides, writes and answers.

Order of a start: read the resources, choose the engine, read the key of records, list the cluster, replay what runs,
then report ready. The verbs answer from the first moment, with an error until the service is ready.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial

import structlog

from fluence_extender import __version__
from fluence_extender.apps.extender.adapters import LivePlacements
from fluence_extender.apps.extender.engines import Engine, choose_engine
from fluence_extender.apps.extender.exposure import Exposure, exposed
from fluence_extender.apps.extender.past_work import open_history
from fluence_extender.apps.processes import StartRefused, faulty_resources, first_error
from fluence_extender.apps.settings import Settings
from fluence_extender.cluster.early_watch import EarlyWatch
from fluence_extender.cluster.live_resources import LiveResources
from fluence_extender.cluster.port import DEVICE_KINDS, QUEUE_KINDS, WORKLOADS, Kind, Regarding, ResourcesFile
from fluence_extender.cluster.session import ClusterSession, open_session
from fluence_extender.devices.evaluator import Evaluator
from fluence_extender.devices.judge import Judge
from fluence_extender.engine.errors import EngineError
from fluence_extender.engine.library import Library
from fluence_extender.gangs.controller import Controller, Ports
from fluence_extender.gangs.execution.actions import RecordEvent
from fluence_extender.gangs.execution.driver import Driver
from fluence_extender.gangs.leadership.audit import SHOWN_WITHIN, Auditor
from fluence_extender.gangs.leadership.election import Election, keep_marked
from fluence_extender.gangs.leadership.lease import ALONE, ByLease, Leadership
from fluence_extender.gangs.lifecycle.limits import Limits
from fluence_extender.http.listeners.serving import Address, background, stop_signals
from fluence_extender.http.metrics import Metrics
from fluence_extender.http.scheduler.app import VerbsApp
from fluence_extender.http.server import Listeners, serve
from fluence_extender.http.state.app import api_app
from fluence_extender.http.state.service import ServiceState
from fluence_extender.identity.record_key import shared_seal
from fluence_extender.kinds.job import Job
from fluence_extender.model.names import RESOURCES_CONFIGMAP
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.objects.resource_quota import ResourceQuota
from fluence_extender.room.ledger import Ledger
from fluence_extender.whatif.estimates import Estimates
from fluence_extender.whatif.simulator import Simulator

log = structlog.get_logger(__name__)

LISTED_FIRST: Mapping[Kind, str] = {Node: "node", Pod: "pod", Job: "job", ResourcesFile: "resources-file"}
"""The kinds without which the service isn't ready, and how messages name them."""

GROUPS_TIMEOUT = 5.0
"""Seconds to wait for the lists of PodGroups and other workloads, which we may not be allowed to read. After that, the
start waits as long for the selectors of claims."""

GARBAGE = 20_000
"""The number of new objects between two runs of the collector, which finds little: reference counts free nearly all of
our objects."""

GARBAGE_AT_START = 100_000
"""The same until we are ready: hundreds of thousands of objects are made then, and stay."""

LONGEST_START = 60.0
"""The most seconds of a start without the collector. A start that waits for the API server may last for days."""

PROGRESS = 5.0
"""Seconds between two messages about what a start waits for."""

STALE_AFTER = 30.0
"""Seconds without the API server after which we aren't ready any more."""

FRESH = 10.0
"""The most seconds since the last contact of the watch of pods for which an audit trusts the watch.

The watch must also have been open for as long as an audit waits: a new watch, or a new list, has to catch up first.
"""


async def run_until_signal(
    settings: Settings, watch: EarlyWatch, listening: Callable[[Listeners, Engine], None]
) -> None:
    """Serve the cluster of an API server until SIGTERM or SIGINT. Raise what `run` raises."""
    with stop_signals() as stop:
        async with open_session(watch) as session:
            await run(settings, session, listening, stop)


async def run(
    settings: Settings,
    session: ClusterSession,
    listening: Callable[[Listeners, Engine], None],
    stop: asyncio.Event,
) -> None:
    """Serve the cluster of ``session`` until ``stop`` is set.

    ``listening`` is called once both listeners are open. Raises `StartRefused`, `EngineUnavailable`, `CannotListen` and
    the start errors of the rooms.
    """
    engine = choose_engine(settings.engine, settings.policy)
    async with exposed(settings) as exposure:
        try:
            await _run(settings, engine, session, exposure, listening, stop)
        except BaseExceptionGroup as group:
            raise first_error(group) from None


@contextlib.asynccontextmanager
async def serving(
    settings: Settings, session: ClusterSession, stop: asyncio.Event
) -> AsyncIterator[Listeners]:
    """Serve the cluster of ``session`` within this context, from the moment when both listeners are open.

    ``stop`` is set at the end. Raise what `run` raises.
    """
    listening: asyncio.Future[Listeners] = asyncio.get_running_loop().create_future()

    def on_listening(listeners: Listeners, _: Engine) -> None:
        listening.set_result(listeners)

    try:
        async with asyncio.TaskGroup() as tasks:
            work = tasks.create_task(run(settings, session, on_listening, stop))
            await asyncio.wait((listening, work), return_when=asyncio.FIRST_COMPLETED)
            if not listening.done():
                work.result()
            try:
                yield listening.result()
            finally:
                stop.set()
    except BaseExceptionGroup as group:
        raise first_error(group) from None


async def _run(
    settings: Settings,
    engine: Engine,
    session: ClusterSession,
    exposure: Exposure,
    listening: Callable[[Listeners, Engine], None],
    stop: asyncio.Event,
) -> None:
    metrics = Metrics()
    metrics.set_engine(engine.name, engine.version)

    def reject(file: ResourcesFile, why: str) -> None:
        metrics.resources_rejected.inc()
        driver.executor.record_event(_refusal_event(settings.resources_namespace, file, why))

    live = LiveResources(reject)
    history = open_history(settings.history, settings.history_keep, metrics)
    limits = Limits(
        binds_direct=settings.bind_by == "direct",
        completion=settings.completion_limit,
        assembly=settings.assembly_limit,
        grow_after=settings.grow_after,
        largest_node=settings.largest_node,
    )
    ledger = Ledger(settings.policy, settings.levels)
    library = engine.library(ledger, settings.policy)
    judge = Judge()
    controller = Controller(
        ledger,
        limits,
        leading=not settings.lease,
        ports=Ports(
            read_resources=live.read,
            sink=history.writer if history is not None else None,
            judge=judge,
            chooser=library,
            on_preempted=metrics.preemptions.inc,
            on_waited=metrics.count_wait,
        ),
    )
    leadership: Leadership = ByLease(settings.identity) if settings.lease else ALONE
    driver = Driver(controller, session.writes, leadership)
    evaluator = Evaluator(judge, driver.wake, metrics.selectors_stuck.inc)
    following = asyncio.Event()
    auditor = Auditor(
        controller,
        metrics.count_drift,
        session.own_pods,
        lambda: session.open_for(Pod) > SHOWN_WITHIN and session.staleness(Pod) < FRESH,
        settings.audit_every,
        metrics.audits.inc,
    )
    election: Election | None = None
    if isinstance(leadership, ByLease):
        namespace, _, name = settings.lease.partition("/")
        lease = partial(session.read_lease, namespace, name)
        election = Election(leadership, driver, lease, session.own_pods, lambda: controller.started)
    requested = election.poke if election is not None else lambda: None
    missing = partial(_missing, session)
    placements = LivePlacements(controller, driver, missing, requested)
    account = history.reader if history is not None else None
    simulator = Simulator(controller, session.try_pod, session.disruption_budgets)
    state = ServiceState(controller, placements, simulator, account)
    try:
        # "follow the cluster" comes first: its first step delivers what has been listed, and "start" waits for that.
        work = {
            "follow the cluster": _follow(
                session, controller, driver, settings.resources_namespace, following
            ),
            "start": _start(session, controller, driver, live, evaluator, library, following),
            "decide": driver.run(),
            "evaluate selectors": evaluator.run(),
            "audit": auditor.run(driver.wake),
            "estimate starts": Estimates(controller, metrics.observe_estimate_error).run(),
            **exposure.work(),
        }
        if election is not None:
            work["follow the lease"] = election.run()
            mark = partial(session.mark_leader, namespace, settings.identity)
            work["mark the leader"] = keep_marked(lambda: driver.leading, mark)
        async with background(work):
            await serve(
                VerbsApp(placements, metrics),
                api_app(state, metrics, settings.scheduler_livez, exposure.gate),
                Address(settings.host, settings.port),
                Address(settings.api_host, settings.api_port),
                lambda listeners: listening(listeners, engine),
                stop,
                exposure.tls,
            )
    finally:
        if history is not None:
            await asyncio.to_thread(history.close)
        if library is not None:
            library.close()


async def _follow(
    session: ClusterSession, controller: Controller, driver: Driver, namespace: str, following: asyncio.Event
) -> None:
    """Read the key that tells which records on pods and Jobs are ours; then follow the cluster."""
    controller.registry.seal = await shared_seal(session.objects, namespace)
    # From here on each write needs the lead.
    session.permit_writes(driver.fence.demand)
    following.set()
    await session.watch(driver.sink)


async def _start(
    session: ClusterSession,
    controller: Controller,
    driver: Driver,
    live: LiveResources,
    evaluator: Evaluator,
    library: Library | None,
    following: asyncio.Event,
) -> None:
    """Replay once everything has been listed. Raises `StartRefused`."""
    gc.set_threshold(GARBAGE_AT_START, 50, 100)
    telling = asyncio.create_task(tell_progress(session))
    collecting = asyncio.get_running_loop().call_later(LONGEST_START, gc.enable)
    await following.wait()
    await session.synced(*LISTED_FIRST)
    if live.fault is not None:
        raise faulty_resources(live.fault)
    # A gang that needs a PodGroup, another workload or a claim waits for it anyway, and Queues may be forbidden to
    # list.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(GROUPS_TIMEOUT):
            await session.synced(*WORKLOADS, *QUEUE_KINDS, *DEVICE_KINDS, ResourceQuota)
    await evaluator.settle(GROUPS_TIMEOUT)
    controller.take_decided()
    await driver.start()
    if library is not None:
        try:
            await asyncio.wrap_future(library.load(controller.ledger.free.now()))
        except EngineError as error:
            raise StartRefused(f"libreapi_cli can't load the resource graph: {error}") from error
    # Listed objects live as long as the process, so the collector needn't walk them again and again.
    gc.freeze()
    gc.set_threshold(GARBAGE, 20, 50)
    collecting.cancel()
    telling.cancel()
    gc.enable()
    log.info(
        "ready",
        version=__version__,
        nodes=len(controller.eligibility.nodes),
        backends=len({device.backend for device in controller.ledger.graph.catalogue.devices}),
        held=len(controller.ledger.holdings),
    )


async def tell_progress(session: ClusterSession) -> None:
    """Log every few seconds what the start waits for, until the task is cancelled."""
    while True:
        await asyncio.sleep(PROGRESS)
        log.info("starting", now=_missing(session) or "taking over what runs")


def _missing(session: ClusterSession) -> str:
    """Return what isn't known of the cluster now, "" if everything is."""
    unlisted = [name for kind, name in LISTED_FIRST.items() if not session.is_synced(kind)]
    if unlisted:
        failures = session.failures()
        why = "; ".join(failures[kind] for kind in LISTED_FIRST if kind in failures)
        return f"waiting for the list of {', '.join(unlisted)}" + (f" ({why})" if why else "")
    if session.staleness(Node, Pod) > STALE_AFTER:
        return "the API server has not been reached for too long"
    return ""


def _refusal_event(namespace: str, file: ResourcesFile, why: str) -> RecordEvent:
    regarding = Regarding("v1", "ConfigMap", namespace, RESOURCES_CONFIGMAP)
    return RecordEvent(
        regarding, "ResourcesRefused", f"{file.source} is refused, the old resources stay in force: {why}"
    )
