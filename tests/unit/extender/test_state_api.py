from __future__ import annotations

import json

import pytest
from pydantic import TypeAdapter

from fluence_extender.extender.documents import pieces
from fluence_extender.extender.views import Allocation, Gang
from tests.unit.extender.held_placements import ALLOCATIONS, GANGS, GRAPH

STATE = ["/v1/gangs", "/v1/gangs/team/big", "/v1/allocations", "/v1/graph"]


async def test_gangs_are_shown_with_their_members(api):
    answer = await api.get("/v1/gangs")
    assert answer.headers["content-type"] == "application/json"
    shown = TypeAdapter(list[Gang]).validate_json(answer.content)
    assert [(gang.namespace, gang.name, gang.state, gang.size) for gang in shown] == [
        ("default", "vqe", "planned", 2),
        ("team", "big", "waiting", 8),
    ]
    assert answer.json()[1] == {
        "namespace": "team",
        "name": "big",
        "state": "waiting",
        "reason": "waiting for members (1 of 8 exist)",
        "size": 8,
        "members": [{"pod": "big-0", "uid": "u-2", "node": "", "backend": ""}],
    }


async def test_one_gang_is_found_by_its_name(api):
    answer = await api.get("/v1/gangs/default/vqe")
    assert Gang.model_validate_json(answer.content).members[0].backend == GANGS[0].members[0].backend
    missing = await api.get("/v1/gangs/default/big")
    assert (missing.status_code, missing.json()) == (404, {"detail": "no gang default/big"})


async def test_allocations_are_shown_with_exact_amounts(api):
    answer = await api.get("/v1/allocations")
    shown = TypeAdapter(list[Allocation]).validate_json(answer.content)
    assert [one.model_dump() for one in shown] == [
        {
            "namespace": held.namespace,
            "pod": held.pod,
            "uid": held.uid,
            "node": held.node,
            "core": held.core,
            "memory": held.memory,
            "gpu": held.gpu,
            "backend": held.backend,
            "devices": dict(held.devices),
        }
        for held in ALLOCATIONS
    ]


async def test_the_graph_is_whole_and_compact_unless_asked(api, placements):
    assert (await api.get("/v1/graph")).json() == GRAPH
    assert (await api.get("/v1/graph?expand=true")).json() == GRAPH
    assert placements.expanded == [False, True]
    assert (await api.get("/v1/graph?expand=nonsense")).status_code == 422


@pytest.mark.parametrize("path", STATE)
async def test_state_isnt_told_from_a_half_listed_cluster(api, placements, path):
    placements.missing = "listing pods"
    answer = await api.get(path)
    assert (answer.status_code, answer.json()) == (503, {"detail": "not ready: listing pods"})


@pytest.mark.parametrize("path", [*STATE, "/readyz", "/metrics"])
async def test_the_api_is_read_only(api, path):
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert (await api.request(method, path)).status_code == 405


async def test_readiness_follows_the_service_and_liveness_does_not(api, verbs, placements):
    assert (await api.get("/readyz")).status_code == 200
    placements.missing = "replaying 3 bound pods"
    answer = await api.get("/readyz")
    assert (answer.status_code, answer.text) == (503, "not ready: replaying 3 bound pods\n")
    assert (await api.get("/healthz")).status_code == 200
    assert (await verbs.get("/healthz")).status_code == 200


async def test_the_listeners_share_no_paths_but_liveness(api, verbs):
    for path in (*STATE, "/metrics", "/readyz", "/openapi.json"):
        assert (await verbs.get(path)).status_code == 404
    for verb in ("filter", "prioritize", "bind", "preempt"):
        assert (await api.post(f"/{verb}", json={})).status_code == 404


async def test_the_documents_describe_every_field_and_need_no_other_host(api):
    document = (await api.get("/openapi.json")).json()
    assert set(document["paths"]) == {
        "/v1/gangs",
        "/v1/gangs/{namespace}/{name}",
        "/v1/allocations",
        "/v1/graph",
        "/healthz",
        "/readyz",
        "/metrics",
    }
    for model in ("Gang", "Member", "Allocation"):
        for field in document["components"]["schemas"][model]["properties"].values():
            assert field["description"]
            assert field.get("examples") or field["type"] == "array"
    for path in ("/docs", "/redoc"):
        assert (await api.get(path)).status_code == 404


@pytest.mark.parametrize(
    "document",
    [
        {},
        [],
        {"a": []},
        {"a": {}, "b": [1, 2, 3, 4, 5], "c": None, 'd"': "é"},
        [1, 2, 3],
        [1, 2, 3, 4],
        {"graph": {"nodes": {"0": {"metadata": {"list": [1, 2, 3, 4, 5, 6, 7]}}}}},
        "text",
    ],
)
def test_the_pieces_of_a_document_are_the_document(document):
    assert json.loads(b"".join(pieces(document, size=3))) == document
