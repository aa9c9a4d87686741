"""libreapi_cli as a chooser of nodes, brought up to date before each question.

Its graph can't be changed in place: the library counts nodes that join wrongly, and keeps the memory of nodes that
leave. So a changed graph is loaded in a new process while the old one goes on to answer, and then takes its place.
Where the library has no answer, the caller's exact search decides.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future

import structlog

from fluence_extender.engine.errors import EngineError, EngineLost
from fluence_extender.engine.mirror import Mirror
from fluence_extender.engine.worker import Worker
from fluence_extender.graph.containment import Containment
from fluence_extender.graph.current import CurrentGraph
from fluence_extender.model.assignment import DeviceShare
from fluence_extender.model.resources import Resources
from fluence_extender.room.capacity import CapacityTable

log = structlog.get_logger(__name__)

RETRY = 30.0
"""Seconds from the start of a load to the next one, where the graph hasn't changed."""

Loaded = Mirror | None
"""A loaded graph; None for a graph without nodes and devices, which the library doesn't take."""


class Library:
    """The library on ``graph``; ``held`` returns the device shares in use, and ``start`` loads a graph.

    ``fault`` says why the library doesn't answer, or not about the present graph; "" when well. Calls come one at a
    time.
    """

    def __init__(
        self,
        graph: CurrentGraph,
        held: Callable[[], Iterable[DeviceShare]],
        start: Callable[[Containment], Worker],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._graph = graph
        self._held = held
        self._start = start
        self._clock = clock
        self._mirror: Loaded = None
        self._loading: Future[Loaded] | None = None
        self._revision = -1
        self._began = 0.0
        self.fault = ""

    def load(self, table: CapacityTable) -> Future[Loaded]:
        """Begin to load the present graph, with what is in use; the future may have an `EngineError`.

        The graph is used from the next question on that comes after it is loaded.
        """
        self._loading = _in_thread(self._loader(table))
        return self._loading

    def choose(
        self, requests: Resources, count: int, nodes: Sequence[str], table: CapacityTable
    ) -> dict[str, int] | None:
        """Return how many of ``count`` equal pods to put on each node, as the library chooses among ``nodes``.

        Return None where the library finds no place that ``table`` has room for, or can't be asked now.
        """
        self._renew(table)
        if self._mirror is None:
            return None
        try:
            placed = self._mirror.choose(requests, count, nodes, table, self._held())
        except EngineLost as lost:
            self._lose(lost, table)
            return None
        except EngineError as error:
            log.warning("the library has refused a question", error=str(error))
            return None
        return placed if placed is not None and table.takes(placed, requests) else None

    def close(self) -> None:
        """End all processes."""
        if self._loading is not None:
            self._loading.add_done_callback(_close_loaded)
            self._loading = None
        self._replace(None)

    def _renew(self, table: CapacityTable) -> None:
        """Use the graph that has been loaded meanwhile, and begin to load another one if there is a reason."""
        if self._loading is not None and self._loading.done():
            loading, self._loading = self._loading, None
            error = loading.exception()
            if error is None:
                self._replace(loading.result())
            else:
                self.fault = str(error)
                log.error("the library's graph couldn't be loaded", error=self.fault)
        if self._loading is None and self._due():
            self.load(table)

    def _due(self) -> bool:
        retried = bool(self.fault) and self._clock() >= self._began + RETRY
        return retried or self._graph.revision != self._revision

    def _loader(self, table: CapacityTable) -> Callable[[], Loaded]:
        """Return what loads the present graph, in any thread."""
        self._revision, self._began = self._graph.revision, self._clock()
        source, taken, shares = self._graph.source(), table.copy(), tuple(self._held())

        def load() -> Loaded:
            containment = source.build()
            if not containment.nodes and not containment.devices:
                return None
            mirror = Mirror(containment, self._start(containment))
            try:
                mirror.follow(taken, shares)
            except BaseException:
                mirror.close()
                raise
            return mirror

        return load

    def _replace(self, mirror: Loaded) -> None:
        if self._mirror is not None:
            self._mirror.close()
        self._mirror = mirror
        self.fault = ""

    def _lose(self, lost: EngineLost, table: CapacityTable) -> None:
        log.error("the library's process is lost; its graph is loaded in another one", error=str(lost))
        self._replace(None)
        self.fault = str(lost)
        self._renew(table)


def _in_thread(load: Callable[[], Loaded]) -> Future[Loaded]:
    """Run ``load`` in a thread that doesn't keep the service from ending."""
    future: Future[Loaded] = Future()
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            future.set_result(load())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="library-load", daemon=True).start()
    return future


def _close_loaded(loading: Future[Loaded]) -> None:
    """Free a graph that nobody uses."""
    mirror = None if loading.exception() is not None else loading.result()
    if mirror is not None:
        mirror.close()
