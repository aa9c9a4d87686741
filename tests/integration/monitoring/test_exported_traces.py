"""A running service sends one trace a gang to a receiver of OpenTelemetry, in its real protocol."""

from __future__ import annotations

import gzip
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span
from structlog.testing import capture_logs

from fluence_extender.apps.extender.traces import GangTraces, open_traces
from fluence_extender.demo.embedded import EmbeddedSite
from fluence_extender.demo.manifests import examples, read
from fluence_extender.model.tracing import GangTrace, TraceSpan

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
TRACE = GangTrace(TraceSpan("gang", 1.0, 2.0), (TraceSpan("bind", 1.0, 2.0),))


class Receiver(ThreadingHTTPServer):
    """Takes in what is exported to it."""

    def __init__(self) -> None:
        self.received: list[ResourceSpans] = []
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def traces(self) -> list[list[Span]]:
        """The spans of each trace, the root first."""
        found: dict[bytes, list[Span]] = defaultdict(list)
        for resource in list(self.received):
            for scope in resource.scope_spans:
                for span in scope.spans:
                    found[span.trace_id].append(span)
        return [sorted(one, key=lambda span: bool(span.parent_span_id)) for one in found.values()]


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        assert self.path == "/v1/traces"
        assert isinstance(self.server, Receiver)
        self.server.received.extend(ExportTraceServiceRequest.FromString(body).resource_spans)
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with Receiver() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv(ENDPOINT, server.url)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        yield server
        server.shutdown()


def opened() -> GangTraces:
    found = open_traces()
    assert found is not None
    return found


def test_gang_of_a_running_service_has_one_trace_up_to_its_last_binding(receiver: Receiver) -> None:
    began = time.time_ns()
    with EmbeddedSite(4, "lonode") as site:
        for manifest in read(examples()[1]):
            site.apply(manifest)
        deadline = time.monotonic() + 30
        while not receiver.traces():
            assert time.monotonic() < deadline
            time.sleep(0.1)
    (trace,) = receiver.traces()
    root, *parts = trace
    assert root.name == "gang"
    attributes = {one.key: one.value for one in root.attributes}
    assert attributes["k8s.namespace.name"].string_value == "default"
    assert attributes["fluence.pods"].int_value > 1
    # The time of creation counts whole seconds.
    assert began - 10**9 <= root.start_time_unix_nano <= root.end_time_unix_nano <= time.time_ns()
    assert "bound" in [event.name for event in root.events]
    assert all(one.parent_span_id == root.span_id for one in parts)
    assert max(one.end_time_unix_nano for one in parts) == root.end_time_unix_nano
    service = {one.key: one.value.string_value for one in receiver.received[0].resource.attributes}
    assert service["service.name"] == "fluence-extender"


def test_service_has_the_name_that_the_environment_says(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "placement")
    traces = opened()
    traces.send(TRACE)
    traces.close()
    service = {one.key: one.value.string_value for one in receiver.received[0].resource.attributes}
    assert service["service.name"] == "placement"


def test_receiver_that_is_away_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENDPOINT, "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    traces = opened()
    began = time.monotonic()
    for _ in range(3000):
        traces.send(TRACE)
    assert time.monotonic() - began < 10
    traces.close()


def test_nothing_is_sent_where_no_receiver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENDPOINT, raising=False)
    assert open_traces() is None
    monkeypatch.setenv(ENDPOINT, "http://there")
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert open_traces() is None


def test_another_protocol_and_missing_packages_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENDPOINT, "http://there")
    with capture_logs() as logs, monkeypatch.context() as only:
        only.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
        assert open_traces() is None
    assert "set http/protobuf" in logs[0]["why"]
    with capture_logs() as logs:
        monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
        assert open_traces() is None
    assert "pip install 'fluence-extender[traces]'" in logs[0]["why"]
