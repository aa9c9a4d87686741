"""deploy/monitoring: alerts that fire when they should and not otherwise, and boards of metrics that exist."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from fluence_extender.demo.embedded import EmbeddedSite
from fluence_extender.demo.manifests import examples, read
from fluence_extender.http.metrics import Metrics
from tests.docs import catalog
from tests.integration.monitoring.prometheus import prometheus, promtool

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "deploy" / "monitoring"
RULES = FOLDER / "rules.yaml"
RUNBOOKS = ROOT / "docs" / "runbooks.md"

Rule = dict[str, Any]

MINUTES = 120
"""When the alerts are judged, after series of one value a minute."""

HEALTHY = {
    'fluence_extender_ready{instance="a"}': "1x120",
    'fluence_leader{instance="a"}': "1x120",
    'fluence_leader{instance="b"}': "0x120",
    'fluence_queue_waiting{queue="q"}': "3x120",
    'fluence_queue_running{queue="q"}': "5x120",
    'fluence_queue_oldest_wait_seconds{queue="q"}': "60x120",
    "fluence_oldest_untried_seconds": "0x120",
    'fluence_drift_total{kind="missing"}': "0x120",
    "fluence_audits_total": "0+1x120",
    "fluence_extender_resources_rejected_total": "0x120",
    "fluence_webhook_resources_rejected_total": "0x120",
    "fluence_selector_process_failures_total": "0x120",
    'fluence_extender_request_duration_seconds_bucket{verb="filter",le="0.001"}': "0+60x120",
    'fluence_extender_request_duration_seconds_bucket{verb="filter",le="0.5"}': "0+60x120",
    'fluence_extender_request_duration_seconds_bucket{verb="filter",le="+Inf"}': "0+60x120",
    'fluence_extender_answers_total{verb="filter",outcome="placed"}': "0+60x120",
    'fluence_extender_answers_total{verb="filter",outcome="failed"}': "0x120",
    "fluence_history_lost_total": "0x120",
    "fluence_history_waiting": "4x120",
    "fluence_history_last_write_timestamp_seconds": "0+60x120",
    "fluence_webhook_registered": "1x120",
    "fluence_webhook_certificate_expiry_timestamp_seconds": "2592000x120",
    'fluence_webhook_answers_total{outcome="patched"}': "0+60x120",
    'fluence_webhook_answers_total{outcome="failed"}': "0x120",
}
LATE = "0x100 1x19"
"""A counter that grows once, shortly before the alerts are judged."""

FAULTS: dict[str, dict[str, str]] = {
    "FluenceAway": {
        name: ""
        for name in HEALTHY
        if name.startswith(("fluence_extender", "fluence_leader", "fluence_queue", "fluence_audits"))
    },
    "FluenceNotReady": {'fluence_extender_ready{instance="a"}': "0x120"},
    "FluenceWithoutLeader": {'fluence_leader{instance="a"}': "0x120"},
    "FluenceTwoLeaders": {'fluence_leader{instance="b"}': "1x120"},
    "FluenceGangWaitsLong": {'fluence_queue_oldest_wait_seconds{queue="q"}': "90000+60x120"},
    "FluenceNothingStarts": {'fluence_queue_running{queue="q"}': "0x120"},
    "FluenceBehind": {"fluence_oldest_untried_seconds": "45x120"},
    "FluenceDrift": {'fluence_drift_total{kind="missing"}': LATE},
    "FluenceAuditsStopped": {"fluence_audits_total": "7x120"},
    "FluenceResourcesRejected": {"fluence_webhook_resources_rejected_total": LATE},
    "FluenceSelectorsNotEvaluated": {"fluence_selector_process_failures_total": "0+1x120"},
    "FluenceFilterSlow": {
        'fluence_extender_request_duration_seconds_bucket{verb="filter",le="0.001"}': "0+50x120"
    },
    "FluenceAnswersFail": {'fluence_extender_answers_total{verb="filter",outcome="failed"}': "0+1x120"},
    "FluenceHistoryLost": {"fluence_history_lost_total": LATE},
    "FluenceHistoryNotWritten": {"fluence_history_last_write_timestamp_seconds": "600x120"},
    "FluenceWebhookAway": {name: "" for name in HEALTHY if name.startswith("fluence_webhook")},
    "FluenceWebhookNotRegistered": {"fluence_webhook_registered": "0x120"},
    "FluenceWebhookCertificateEnds": {"fluence_webhook_certificate_expiry_timestamp_seconds": "200000x120"},
    "FluenceWebhookFails": {'fluence_webhook_answers_total{outcome="failed"}': "0+1x120"},
}


def rules() -> list[Rule]:
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    found: list[Rule] = group["rules"]
    return found


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((FOLDER / "grafana.json").read_text())["panels"]
    return found


def board_expressions() -> list[str]:
    return [target["expr"] for panel in panels() for target in panel["targets"]]


def test_rules_are_valid() -> None:
    assert f"{len(rules())} rules found" in promtool("check", "rules", str(RULES))


def test_the_operators_rules_are_the_same() -> None:
    theirs = yaml.safe_load((FOLDER / "prometheusrule.yaml").read_text())
    assert theirs["kind"] == "PrometheusRule"
    assert theirs["spec"] == yaml.safe_load(RULES.read_text())


@pytest.mark.parametrize("alert", ["", *FAULTS])
def test_alert_fires_for_its_fault_alone(alert: str, tmp_path: Path) -> None:
    series = {**HEALTHY, **FAULTS.get(alert, {})}
    wanted = [{"labels": f'{{alertname="{alert}"}}', "value": 1}] if alert else []
    firing = 'count by (alertname) (ALERTS{alertstate="firing"})'
    question = {"expr": firing, "eval_time": f"{MINUTES}m", "exp_samples": wanted}
    given = [{"series": name, "values": values} for name, values in series.items() if values]
    case = {"interval": "1m", "input_series": given, "promql_expr_test": [question]}
    test = {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [case]}
    file = tmp_path / "case.yaml"
    file.write_text(yaml.safe_dump(test))
    assert "SUCCESS" in promtool("test", "rules", str(file))


def test_every_alert_has_a_test_a_runbook_and_a_way_there() -> None:
    names = [rule["alert"] for rule in rules()]
    assert names == list(FAULTS)
    text = RUNBOOKS.read_text()
    assert re.findall(r"^## (\w+)$", text, re.MULTILINE) == names
    for rule in rules():
        anchor = rule["alert"].lower()
        assert rule["annotations"]["runbook_url"].endswith(f"/docs/runbooks.md#{anchor}")
        after = "at once" if rule["for"] == "0m" else rule["for"]
        assert f"| [{rule['alert']}](#{anchor}) | {rule['labels']['severity']} | {after} |" in text


def test_metrics_of_alerts_and_boards_exist() -> None:
    known = catalog.metrics() | {f"{name}_bucket" for name in catalog.metrics()}
    for family in Metrics().registry.collect():
        known |= {sample.name for sample in family.samples}
    named = {
        name
        for expression in [*(rule["expr"] for rule in rules()), *board_expressions()]
        for name in re.findall(r"\b(?:fluence|process|python)_\w+", expression)
    }
    assert len(named) > 20
    assert named - known == set()


def test_every_metric_is_on_the_board() -> None:
    text = " ".join(board_expressions())
    shown = {name for name in catalog.metrics() if re.search(rf"\b{name}(_bucket)?\b", text)}
    assert catalog.metrics() - shown == {"fluence_queue_running"} - shown


def test_panels_of_the_board_lie_beside_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
    assert len({panel["id"] for panel in panels()}) == len(panels())


JUDGED_BY_FILTERS = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "judged", "namespace": "default"},
    "spec": {
        "schedulerName": "fluence",
        "containers": [{"name": "main", "image": "app"}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
    },
}
"""A pod for which kube-scheduler calls the verbs."""


def test_prometheus_reads_the_running_service_and_the_alerts_are_quiet(tmp_path: Path) -> None:
    with EmbeddedSite(4, "lonode", str(tmp_path / "history.db")) as site:
        for file in examples():
            for manifest in read(file):
                site.apply(manifest)
        site.apply(JUDGED_BY_FILTERS)
        job = {"job_name": "fluence", "static_configs": [{"targets": [site.api_url.removeprefix("http://")]}]}
        timing = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        config = {"global": timing, "rule_files": [str(RULES)], "scrape_configs": [job]}
        with prometheus(tmp_path, yaml.safe_dump(config)) as server:
            deadline = time.monotonic() + 60
            while (
                server.values("fluence_leader") != [1.0]
                or not server.values("sum(fluence_extender_gangs)")[0]
            ):
                assert time.monotonic() < deadline
                time.sleep(0.5)
            (group,) = server.ask("/api/v1/rules")["groups"]
            while any(rule["health"] == "unknown" for rule in group["rules"]):
                assert time.monotonic() < deadline
                time.sleep(0.5)
                (group,) = server.ask("/api/v1/rules")["groups"]
            assert [rule["lastError"] for rule in group["rules"] if rule.get("lastError")] == []
            assert [rule["name"] for rule in group["rules"] if rule["state"] == "firing"] == []
            time.sleep(3)
            empty = [one for one in board_expressions() if not server.values(one)]
            assert [one for one in empty if "webhook" not in one] == []
