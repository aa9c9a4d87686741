"""Traces of gangs by OpenTelemetry, if the environment names a receiver.

The variables are those of the OpenTelemetry specification: ``OTEL_EXPORTER_OTLP_ENDPOINT`` (or
``OTEL_EXPORTER_OTLP_TRACES_ENDPOINT``), ``OTEL_SERVICE_NAME``, ``OTEL_RESOURCE_ATTRIBUTES``, ``OTEL_BSP_*`` and so on.
The protocol is http/protobuf. The packages are an extra, and they are imported only here.

Invariant: if the receiver is away or packages are missing, only traces are lost.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import structlog

from fluence_extender import __version__
from fluence_extender.model.tracing import GangTrace

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

log = structlog.get_logger(__name__)

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
SPOKEN = "http/protobuf"
SERVICE = "fluence-extender"
_NANO = 1_000_000_000


class GangTraces:
    """Sends each trace as spans; a thread of the provider does so, some seconds later."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer(SERVICE, __version__)

    def send(self, trace: GangTrace) -> None:
        """Take in a trace; one that can't be sent is lost."""
        from opentelemetry.trace import set_span_in_context

        whole = self._tracer.start_span(
            trace.whole.name, attributes=trace.whole.attributes, start_time=_nanos(trace.whole.start)
        )
        for event in trace.events:
            whole.add_event(event.name, event.attributes, _nanos(event.at))
        context = set_span_in_context(whole)
        for part in trace.parts:
            span = self._tracer.start_span(
                part.name, context, attributes=part.attributes, start_time=_nanos(part.start)
            )
            span.end(_nanos(part.end))
        whole.end(_nanos(trace.whole.end))

    def close(self) -> None:
        """Send what is left, and end."""
        self._provider.shutdown()


def open_traces() -> GangTraces | None:
    """Return the sender of traces to the receiver that the environment names, None if it names none."""
    endpoint = next((os.environ[name] for name in ENDPOINTS if os.environ.get(name)), "")
    if not endpoint or os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    protocol = next((os.environ[name] for name in PROTOCOLS if os.environ.get(name)), SPOKEN)
    if protocol != SPOKEN:
        log.error("no traces are sent", why=f"the protocol {protocol} isn't spoken here; set {SPOKEN}")
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        log.error("no traces are sent", why=f"{error}; pip install 'fluence-extender[traces]'")
        return None
    ours = Resource({"service.name": SERVICE, "service.version": __version__})
    provider = TracerProvider(resource=ours.merge(OTELResourceDetector().detect()), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    log.info("traces of gangs are sent", to=endpoint)
    return GangTraces(provider)


def _nanos(at: float) -> int:
    return int(at * _NANO)
