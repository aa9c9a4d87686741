"""The API server accepts Queues and Reservations that make sense, refuses others, and says why."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from fluence_extender.objects.queues import read_queue, read_reservation
from tests.e2e.harness import Manifest, documents
from tests.e2e.queue_objects import PATHS, define, queue_object
from tests.localcluster import Api, ApiError, ControlPlane

PAGES = [Path(__file__).parents[2] / "docs" / name for name in ("queues.md", "migrating.md")]
START = {"start": "2026-12-01T09:00:00Z"}
WINDOW = START | {"duration": "3h"}
LONG = {"key": "a", "operator": "In"}

SELECTOR = {"matchLabels": {"team": "a"}, "matchExpressions": [{"key": "b", "operator": "Exists"}]}

AS_DOCUMENTED: dict[str, Any] = {
    "namespaces": {"names": [], "selector": {}},
    "defaultFor": ["physics-ns"],
    "scheduling": {
        "policy": "easy",
        "reservationDepth": 1,
        "queueDepth": 1000,
        "starvationAfter": "6h",
        "admissionTimeout": "5m",
    },
    "defaults": {"duration": "1h", "priorityClassName": ""},
    "maxDuration": "24h",
    "overrun": "Extend",
    "max": {"running": 0, "queued": 0, "runningPerUser": 0, "queuedPerUser": 0},
    "stop": "None",
    "parent": "research",
    "guaranteed": {"cpu": "200", "nvidia.com/gpu": "16", "fluxion.flux-framework.org/qpu": "1"},
    "limit": {"cpu": 400, "memory": "1.5Ti"},
    "lendable": {"cpu": "500m"},
    "weight": 2.5,
    "halfLife": "7d",
    "ageing": {"classStep": "1h"},
    "preemption": {"reclaim": "Borrowed", "within": "LowerPriority", "minRuntime": "10m", "by": "Suspend"},
}

ACCEPTED: list[tuple[str, dict[str, Any]]] = [
    ("Queue", {}),
    ("Queue", AS_DOCUMENTED),
    *(("Queue", {"scheduling": {"policy": one}}) for one in ("fcfs", "easy", "hybrid", "conservative")),
    *(("Queue", {"stop": one}) for one in ("None", "Hold", "Drain", "Evict")),
    *(("Queue", {"overrun": one}) for one in ("Extend", "Requeue", "Evict")),
    *(("Queue", {"maxDuration": one}) for one in ("90", "90s", "15m", "1h30m", "2d", "0.5h")),
    ("Queue", {"defaults": {"duration": "24h"}, "maxDuration": "1d"}),
    ("Queue", {"defaults": {"duration": "3600"}, "maxDuration": "60m"}),
    ("Queue", {"defaults": {"duration": "1h59m"}, "maxDuration": "2h"}),
    ("Queue", {"namespaces": {"selector": SELECTOR}}),
    ("Reservation", WINDOW),
    ("Reservation", WINDOW | {"nodes": {"names": [], "selector": {}}, "queues": [], "reason": "firmware"}),
    ("Reservation", WINDOW | {"nodes": {"names": ["n1", "n2"]}, "queues": ["physics"]}),
    ("Reservation", WINDOW | {"start": "2026-12-01T10:00:00+01:00"}),
]

REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("Queue", {"parent": "one"}, "a queue can't be its own parent"),
    ("Queue", {"guaranteed": {"cpu": "-1"}}, "guaranteed"),
    ("Queue", {"limit": {"cpu": -1}}, "limit"),
    ("Queue", {"limit": {"memory": "much"}}, "limit"),
    ("Queue", {"lendable": ["cpu"]}, "lendable"),
    ("Queue", {"weight": 0}, "weight"),
    ("Queue", {"weight": -1}, "weight"),
    ("Queue", {"weight": 1e9}, "weight"),
    ("Queue", {"halfLife": "0d"}, "a duration must be more than 0"),
    ("Queue", {"ageing": {"classStep": "soon"}}, "classStep"),
    ("Queue", {"preemption": {"reclaim": "All"}}, "reclaim"),
    ("Queue", {"preemption": {"reclaim": "Borrowed"}}, "it needs guaranteed"),
    ("Queue", {"preemption": {"within": "Any"}}, "within"),
    ("Queue", {"preemption": {"minRuntime": "0m"}}, "a duration must be more than 0"),
    ("Queue", {"preemption": {"by": "Evict"}}, "by"),
    ("Queue", {"scheduling": {"policy": "lottery"}}, "policy"),
    ("Queue", {"scheduling": {"reservationDepth": 0}}, "reservationDepth"),
    ("Queue", {"scheduling": {"queueDepth": -1}}, "queueDepth"),
    ("Queue", {"scheduling": {"starvationAfter": "soon"}}, "starvationAfter"),
    ("Queue", {"stop": "Now"}, "stop"),
    ("Queue", {"overrun": "Ignore"}, "overrun"),
    ("Queue", {"max": {"running": -1}}, "running"),
    ("Queue", {"max": {"queuedPerUser": "many"}}, "queuedPerUser"),
    ("Queue", {"maxDuration": "1 hour"}, "maxDuration"),
    ("Queue", {"maxDuration": "0s"}, "a duration must be more than 0"),
    ("Queue", {"maxDuration": "-1h"}, "maxDuration"),
    ("Queue", {"maxDuration": ""}, "maxDuration"),
    ("Queue", {"maxDuration": 3600}, "must be of type string"),
    ("Queue", {"defaults": {"duration": "2h"}, "maxDuration": "1h"}, "must not be longer than maxDuration"),
    (
        "Queue",
        {"defaults": {"duration": "1h30m"}, "maxDuration": "89m"},
        "must not be longer than maxDuration",
    ),
    (
        "Queue",
        {"defaults": {"duration": "1d"}, "maxDuration": "86399"},
        "must not be longer than maxDuration",
    ),
    ("Queue", {"defaultFor": ["a", "a"]}, "Duplicate"),
    ("Queue", {"defaultFor": [""]}, "defaultFor"),
    ("Queue", {"namespaces": {"selector": {"matchExpressions": [LONG]}}}, "In and NotIn need values"),
    ("Queue", {"namespaces": {"selector": {"matchExpressions": [LONG | {"operator": "Near"}]}}}, "operator"),
    ("Reservation", {}, "start"),
    ("Reservation", START, "duration"),
    ("Reservation", {"duration": "3h"}, "start"),
    ("Reservation", WINDOW | {"start": "tomorrow"}, "start"),
    ("Reservation", WINDOW | {"duration": "0"}, "a duration must be more than 0"),
    ("Reservation", WINDOW | {"nodes": ["n1"]}, "nodes"),
]


@pytest.fixture(scope="module")
def api(control_plane: ControlPlane) -> Api:
    define(control_plane.api)
    return control_plane.api


@pytest.mark.parametrize(("kind", "spec"), ACCEPTED, ids=str)
def test_what_makes_sense_is_accepted_and_read_in_full(api: Api, kind: str, spec: dict[str, Any]) -> None:
    made = api.create(queue_object(kind, "one", **spec))
    try:
        raw = json.dumps(made).encode()
        read = read_queue(raw) if kind == "Queue" else read_reservation(raw)
        assert (read.name, read.problems) == ("one", ())
        assert made["spec"] == spec
    finally:
        api.delete(f"{PATHS[kind]}/one")


@pytest.mark.parametrize(("kind", "spec", "why"), REFUSED, ids=str)
def test_what_contradicts_itself_is_refused_with_its_field(
    api: Api, kind: str, spec: dict[str, Any], why: str
) -> None:
    with pytest.raises(ApiError) as refused:
        api.create(queue_object(kind, "one", **spec))
    assert refused.value.status == 422
    assert why in str(refused.value)


DOCUMENTED = [
    body
    for page in PAGES
    for fence in re.findall(r"^```yaml\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    for body in documents(fence)
    if body.get("kind") in PATHS
]


@pytest.mark.parametrize("body", DOCUMENTED, ids=lambda body: body["metadata"]["name"])
def test_objects_of_the_pages_are_accepted_as_they_are(api: Api, body: Manifest) -> None:
    made = api.create(body)
    api.delete(f"{PATHS[body['kind']]}/{body['metadata']['name']}")
    assert made["spec"] == body["spec"]


def test_name_that_no_label_can_have_is_refused(api: Api) -> None:
    with pytest.raises(ApiError, match="at most 63 characters"):
        api.create(queue_object("Queue", "q" * 64))
