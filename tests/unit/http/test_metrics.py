"""Metrics: what is counted, and that gauges show the state of the service."""

from __future__ import annotations

import httpx
import pytest

from fluence_extender.http.metrics import Metrics
from fluence_extender.room.audit import DriftKind
from fluence_extender.webhook.metrics import WebhookMetrics
from tests.unit.http.held_placements import HeldPlacements, Post, by_name


async def test_answers_are_counted_by_verb_and_outcome(api: httpx.AsyncClient, post: Post) -> None:
    await post("filter", by_name(["n1", "n2"]))
    await post("filter", by_name(["n1", "n2"]))
    await post("filter", by_name(["n1"]))
    text = (await api.get("/metrics")).text
    assert 'fluence_extender_answers_total{outcome="placed",verb="filter"} 2.0' in text
    assert 'fluence_extender_answers_total{outcome="not-offered",verb="filter"} 1.0' in text
    assert 'fluence_extender_request_duration_seconds_count{verb="filter"} 3.0' in text
    assert 'fluence_extender_request_duration_seconds_bucket{le="5e-05",verb="filter"}' in text


async def test_the_gauges_mirror_the_service(api: httpx.AsyncClient, placements: HeldPlacements) -> None:
    text = (await api.get("/metrics")).text
    assert 'fluence_extender_gangs{state="planned"} 1.0' in text
    assert 'fluence_extender_gangs{state="waiting"} 1.0' in text
    assert 'fluence_extender_gangs{state="bound"} 0.0' in text
    assert "fluence_extender_allocations 2.0" in text
    assert "fluence_extender_ready 1.0" in text
    placements.missing = "listing pods"
    assert "fluence_extender_ready 0.0" in (await api.get("/metrics")).text


async def test_metrics_come_in_both_formats(api: httpx.AsyncClient) -> None:
    plain = await api.get("/metrics")
    assert plain.headers["content-type"].startswith("text/plain; version=")
    accept = {"accept": "application/openmetrics-text; version=1.0.0"}
    modern = await api.get("/metrics", headers=accept)
    assert modern.headers["content-type"].startswith("application/openmetrics-text")
    assert modern.text.endswith("# EOF\n")


def test_engine_and_rejected_files_are_shown() -> None:
    metrics = Metrics()
    metrics.set_engine("fluxion", "0.54.0")
    metrics.resources_rejected.inc()
    metrics.selectors_stuck.inc()
    text = metrics.render()[0].decode()
    assert 'fluence_extender_engine_info{engine="fluxion",version="0.54.0"} 1.0' in text
    assert "fluence_extender_resources_rejected_total 1.0" in text
    assert "fluence_selector_process_failures_total 1.0" in text


def test_two_services_in_one_process_share_no_metrics() -> None:
    one, other = Metrics(), Metrics()
    one.observe_verb("bind", "bound", 0.001)
    assert b'verb="bind"} 1.0' in one.render()[0]
    assert b'outcome="bound"' not in other.render()[0]


@pytest.mark.parametrize("made", [Metrics, WebhookMetrics])
def test_metrics_of_ours_have_one_prefix(made: type[Metrics] | type[WebhookMetrics]) -> None:
    """The others are those that prometheus_client has for every Python process."""
    names = [family.name for family in made().registry.collect()]
    ours = [name for name in names if not name.startswith(("process_", "python_"))]
    assert ours
    assert [name for name in ours if not name.startswith("fluence_")] == []


def test_every_kind_of_drift_starts_at_zero_and_counts() -> None:
    metrics = Metrics()
    assert all(f'fluence_drift_total{{kind="{kind}"}} 0.0' in shown(metrics) for kind in DriftKind)
    metrics.count_drift(DriftKind.POD_DIFFERS)
    assert 'fluence_drift_total{kind="pod-differs"} 1.0' in shown(metrics)


def shown(metrics: Metrics) -> str:
    return metrics.render()[0].decode()
