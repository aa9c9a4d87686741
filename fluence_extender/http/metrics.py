"""The service's metrics, in a registry of their own.

Gauges that mirror the service's state are set when they are read, so they can't drift from what ``/v1`` shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    Info,
    PlatformCollector,
    ProcessCollector,
)
from prometheus_client.exposition import choose_encoder

from fluence_extender.model.gang import GangState
from fluence_extender.room.audit import DriftKind

VERBS = ("filter", "prioritize", "bind", "preempt")

# Seconds. A look-up takes tens of microseconds, a bind may wait for its gang for many seconds.
LATENCY_BUCKETS = (
    50e-6, 100e-6, 200e-6, 500e-6, 1e-3, 2e-3, 5e-3, 10e-3, 25e-3, 50e-3,
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0,
)  # fmt: skip

ERROR_BUCKETS = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 4 * 3600.0, 24 * 3600.0)


@dataclass(frozen=True, slots=True)
class QueueCount:
    """How many gangs of a queue wait and run, and for how many seconds the oldest one has waited."""

    waiting: int
    running: int
    oldest_wait: float


class Metrics:
    """All metrics of one service, in ``registry``."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        registry = self.registry
        latency = Histogram(
            "fluence_extender_request_duration_seconds",
            "Time from a request's arrival to its answer.",
            ["verb"],
            buckets=LATENCY_BUCKETS,
            registry=registry,
        )
        self._latency = {verb: latency.labels(verb) for verb in VERBS}
        self._answers = Counter(
            "fluence_extender_answers", "Answers given.", ["verb", "outcome"], registry=registry
        )
        self._gangs = Gauge("fluence_extender_gangs", "Gangs by state.", ["state"], registry=registry)
        self._allocations = Gauge(
            "fluence_extender_allocations", "Pods that hold an allocation.", registry=registry
        )
        self._queue_waiting = Gauge(
            "fluence_queue_waiting", "Gangs that wait, by queue.", ["queue"], registry=registry
        )
        self._queue_running = Gauge(
            "fluence_queue_running", "Gangs that have places, by queue.", ["queue"], registry=registry
        )
        self._queue_oldest = Gauge(
            "fluence_queue_oldest_wait_seconds",
            "How long ago the gang was created that waits longest, by queue; 0 if none waits.",
            ["queue"],
            registry=registry,
        )
        self._untried = Gauge(
            "fluence_oldest_untried_seconds",
            "The longest time for which a gang that may start has waited for an attempt; 0 if all were tried.",
            registry=registry,
        )
        self._ready = Gauge(
            "fluence_extender_ready", "1 once the cluster is listed and replayed.", registry=registry
        )
        self._leader = Gauge(
            "fluence_leader", "1 while this replica leads: it decides and writes.", registry=registry
        )
        self._engine = Info("fluence_extender_engine", "The engine in use.", registry=registry)
        self.resources_rejected = Counter(
            "fluence_extender_resources_rejected",
            "Changes of resources.yaml that were refused, the old graph kept.",
            registry=registry,
        )
        self.selectors_stuck = Counter(
            "fluence_selector_process_failures",
            "Starts that failed of the process that evaluates the selectors of claims.",
            registry=registry,
        )
        self.preemptions = Counter(
            "fluence_preemptions", "Gangs that were evicted for another gang.", registry=registry
        )
        self.audits = Counter("fluence_audits", "Completed audits.", registry=registry)
        self._drift = Counter(
            "fluence_drift",
            "Differences between ledger and cluster that an audit found and repaired.",
            ["kind"],
            registry=registry,
        )
        for kind in DriftKind:
            self._drift.labels(kind)
        errors = Histogram(
            "fluence_start_estimate_error_seconds",
            "How far the first and the last estimate of a gang's start were off when it got its places.",
            ["estimate"],
            buckets=ERROR_BUCKETS,
            registry=registry,
        )
        self._estimates = {which: errors.labels(which) for which in ("first", "last")}
        waited = ["namespace", "reason", "priority"]
        self._waits = Counter(
            "fluence_waits", "Waits for places of gangs that have become whole.", waited, registry=registry
        )
        self._wait_seconds = Counter(
            "fluence_wait_seconds", "How long these gangs waited for places.", waited, registry=registry
        )
        self.history_spooled = Counter(
            "fluence_history_spooled",
            "Accounts of pods that were taken in, to be written.",
            registry=registry,
        )
        self.history_written = Counter(
            "fluence_history_written", "Accounts of pods that were written.", registry=registry
        )
        self.history_lost = Counter(
            "fluence_history_lost", "Accounts of pods that were never written.", registry=registry
        )
        self.history_waiting = Gauge(
            "fluence_history_waiting", "Pods whose accounts wait to be written.", registry=registry
        )
        self.history_last_write = Gauge(
            "fluence_history_last_write_timestamp_seconds",
            "When the database of past work was last written, in seconds since the epoch; 0 before.",
            registry=registry,
        )
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        GCCollector(registry=registry)

    def observe_verb(self, verb: str, outcome: str, seconds: float) -> None:
        """Count one answer of ``verb`` and the time it took."""
        self._latency[verb].observe(seconds)
        self._answers.labels(verb, outcome).inc()

    def count_drift(self, kind: DriftKind) -> None:
        """Count one difference that was found."""
        self._drift.labels(kind).inc()

    def observe_estimate_error(self, estimate: str, seconds: float) -> None:
        """Count the error in ``seconds`` of the ``first`` or ``last`` ``estimate`` of a start."""
        self._estimates[estimate].observe(abs(seconds))

    def count_wait(self, namespace: str, reason: str, priority: int, seconds: float) -> None:
        """Count one wait of a gang that has become whole."""
        labels = namespace, reason, str(priority)
        self._waits.labels(*labels).inc()
        self._wait_seconds.labels(*labels).inc(seconds)

    def set_engine(self, engine: str, version: str) -> None:
        """Set which engine places gangs, and its version."""
        self._engine.info({"engine": engine, "version": version})

    def set_gauges(self, gangs: Mapping[str, int], allocations: int, ready: bool, leading: bool) -> None:
        """Set the gauges to the service's state as it is now; ``gangs`` are counted by state."""
        for state in GangState:
            self._gangs.labels(state).set(gangs.get(state.value, 0))
        self._allocations.set(allocations)
        self._ready.set(ready)
        self._leader.set(leading)

    def set_queues(self, queues: Mapping[str, QueueCount], untried: float) -> None:
        """Set the gauges of the queues, by name; queues that are gone have none.

        ``untried`` is the longest time, in seconds, for which a gang that may start has waited for an attempt.
        """
        self._untried.set(untried)
        for gauge in (self._queue_waiting, self._queue_running, self._queue_oldest):
            gauge.clear()
        for name, count in queues.items():
            self._queue_waiting.labels(name).set(count.waiting)
            self._queue_running.labels(name).set(count.running)
            self._queue_oldest.labels(name).set(count.oldest_wait)

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """Return the exposition and its content type, in the format that the ``Accept`` header requests."""
        encoder, content_type = choose_encoder(accept)
        return encoder(self.registry), content_type
