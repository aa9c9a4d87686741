"""The state API: what is shown, filtered, paged and not sent again."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.unit.http.held_placements import ALLOCATIONS, BACKENDS, GANGS, GRAPH, NODES, HeldPlacements
from tests.unit.http.openapi_check import answer_schema, example_of, problems

LISTS = ["/v1/gangs", "/v1/allocations", "/v1/nodes", "/v1/backends"]
LISTS += ["/v1/queues", "/v1/queue", "/v1/reservations"]
ITEMS = ["/v1/gangs/team/big", "/v1/nodes/n1", "/v1/graph"]
STATE = [*LISTS, *ITEMS]


async def items(api: httpx.AsyncClient, path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await api.get(path)).json()["items"]
    return found


async def test_gangs_are_shown_with_their_members(api: httpx.AsyncClient) -> None:
    answer = await api.get("/v1/gangs")
    assert answer.headers["content-type"] == "application/json"
    assert [(gang["namespace"], gang["name"], gang["state"]) for gang in answer.json()["items"]] == [
        ("default", "vqe", "planned"),
        ("team", "big", "waiting"),
    ]
    assert answer.json()["items"][1] == {
        "namespace": "team",
        "name": "big",
        "state": "waiting",
        "reason": "waiting for members (1 of 8 exist)",
        "why": "WaitingForMembers",
        "size": 8,
        "convention": "podgroup",
        "owner": "",
        "created": None,
        "expected_start": None,
        "started": None,
        "expected_end": None,
        "queue": "physics",
        "user": "grace",
        "position": 2,
        "preemptions": 0,
        "preempted": None,
        "former": [],
        "quantum": None,
        "members": [
            {
                "pod": "big-0",
                "uid": "u-2",
                "node": "",
                "backend": "",
                "run": "",
                "ended": False,
                "failed": False,
            }
        ],
    }


async def test_one_gang_is_found_by_its_name_and_shows_its_history(api: httpx.AsyncClient) -> None:
    found = (await api.get("/v1/gangs/default/vqe")).json()
    assert found["members"][0]["backend"] == GANGS[0].members[0].backend
    assert found["asks"] == [
        {
            "members": 2,
            "requests": {"cpu": 1.5, "memory": 2**31, "pods": 1},
            "devices": {"qpu": 1},
            "requires": {"vendor": "ibm"},
        }
    ]
    assert found["history"][1] == {
        "at": "2026-06-30T12:00:00.125000Z",
        "what": "planned",
        "pod": "",
        "detail": "on n1 with ibm-a",
        "count": 1,
        "until": "2026-06-30T12:00:00.125000Z",
    }
    assert (found["forgotten"], found["leading"]) == (3, True)
    missing = await api.get("/v1/gangs/default/big")
    assert (missing.status_code, missing.json()) == (404, {"detail": "no gang default/big"})
    assert (await api.get("/v1/gangs/team/big?convention=group")).status_code == 404
    assert (await api.get("/v1/gangs/team/big?convention=podgroup")).status_code == 200


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("namespace=team", ["big"]),
        ("state=waiting", ["big"]),
        ("state=bound", []),
        ("node=n1", ["vqe"]),
        ("backend=ibm-a", ["vqe"]),
        ("backend=ibm-a&state=waiting", []),
        ("gone=true", ["vqe", "big", "old"]),
        ("state=gone", ["old"]),
    ],
)
async def test_gangs_are_filtered(api: httpx.AsyncClient, query: str, names: list[str]) -> None:
    assert [gang["name"] for gang in await items(api, f"/v1/gangs?{query}")] == names


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/v1/nodes?schedulable=true", ["n1"]),
        ("/v1/nodes?schedulable=false", ["n2"]),
        ("/v1/backends?type=qpu", ["qpu0", "lab"]),
        ("/v1/backends?backend=ibm-a", ["ibm-a", "qpu0"]),
        ("/v1/backends?node=n2", ["lab"]),
        ("/v1/backends?usable=true&type=qpu", ["qpu0"]),
        ("/v1/backends?usable=false", ["lab"]),
        ("/v1/queue?queue=physics", ["big"]),
        ("/v1/queue?namespace=default", ["vqe"]),
        ("/v1/queue?namespace=default&queue=physics", []),
    ],
)
async def test_nodes_devices_and_the_line_are_filtered(
    api: httpx.AsyncClient, path: str, names: list[str]
) -> None:
    assert [one["name"] for one in await items(api, path)] == names


async def test_allocations_are_shown_with_exact_amounts(api: httpx.AsyncClient) -> None:
    shown = await items(api, "/v1/allocations")
    assert [(one["pod"], one["core"], one["memory"], one["claim"]) for one in shown] == [
        (held.pod, held.core, held.memory, held.claim) for held in ALLOCATIONS
    ]
    assert shown[0]["devices"] == {"qpu": 1}
    assert await items(api, "/v1/allocations?backend=ibm-a") == shown[:1]
    assert await items(api, "/v1/allocations?node=n1&namespace=default") == shown
    assert await items(api, "/v1/allocations?namespace=team") == []


async def test_nodes_and_devices_are_shown_as_they_are(api: httpx.AsyncClient) -> None:
    first, second = await items(api, "/v1/nodes")
    assert (first["name"], first["free"], first["problems"]) == ("n1", dict(NODES[0].free), [])
    assert (second["schedulable"], second["problems"]) == (False, ["cordoned"])
    one = (await api.get("/v1/nodes/n1")).json()
    assert {key: one[key] for key in first} == first
    assert [(pod["pod"], pod["claim"]) for pod in one["pods"]] == [("vqe-0", "planned"), ("agent", "other")]
    assert (await api.get("/v1/nodes/n9")).json() == {"detail": "no node n9"}
    shown = await items(api, "/v1/backends")
    assert [one["path"] for one in shown] == [one.path for one in BACKENDS]
    assert shown[0]["holders"][0]["path"] == "/cluster/ibm-a/qpu0"


async def test_the_graph_is_whole(api: httpx.AsyncClient) -> None:
    assert (await api.get("/v1/graph")).json() == GRAPH


@pytest.mark.parametrize(
    "path", ["/v1/backends?usable=nonsense", "/v1/gangs?state=tired", "/v1/nodes?schedulable=perhaps"]
)
async def test_an_impossible_value_is_refused_with_a_text(api: httpx.AsyncClient, path: str) -> None:
    answer = await api.get(path)
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith(path.partition("?")[2].partition("=")[0])


@pytest.mark.parametrize(
    ("url", "text"),
    [
        (
            "/v1/gangs?statee=bound&zone=a&limit=1",
            "unknown parameters limit, statee, zone; /v1/gangs takes namespace, state, node, backend, gone",
        ),
        ("/v1/backends?vendor=ibm", "takes type, backend, node, usable"),
        ("/v1/gangs/team/big?state=bound", "unknown parameter state; /v1/gangs/team/big takes convention"),
        ("/v1/graph?expand=true", "unknown parameter expand; /v1/graph takes none"),
        ("/v1/nodes/n1?limit=x", "unknown parameter limit; /v1/nodes/n1 takes none"),
    ],
)
async def test_an_unknown_parameter_is_refused_with_the_known_ones(
    api: httpx.AsyncClient, url: str, text: str
) -> None:
    answer = await api.get(url)
    assert answer.status_code == 400
    assert text in answer.json()["detail"]
    assert (answer.json()["kind"], answer.json()["message"]) == ("Status", answer.json()["detail"])


async def test_a_simulation_with_an_unknown_parameter_is_refused(api: httpx.AsyncClient) -> None:
    answer = await api.post("/v1/simulate?name=x", content=b"{}")
    assert (answer.status_code, answer.json()["detail"]) == (
        400,
        "unknown parameter name; /v1/simulate takes namespace",
    )


@pytest.mark.parametrize("path", STATE)
async def test_the_timeout_parameter_of_kubernetes_clients_is_accepted(
    api: httpx.AsyncClient, path: str
) -> None:
    assert (await api.get(f"{path}?timeout=10s")).content == (await api.get(path)).content


@pytest.mark.parametrize("path", STATE)
async def test_an_answer_that_has_not_changed_is_not_made_again(
    api: httpx.AsyncClient, placements: HeldPlacements, path: str
) -> None:
    first = await api.get(path)
    tag = first.headers["etag"]
    assert tag.startswith('"')
    for condition in (tag, f'"other", {tag}', f"W/{tag}", "*"):
        again = await api.get(path, headers={"if-none-match": condition})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert placements.read == 0 or path not in LISTS
    assert (await api.get(path, headers={"if-none-match": '"other"'})).content == first.content
    placements.revision = "2"
    changed = await api.get(path, headers={"if-none-match": tag})
    assert changed.status_code == 200
    assert changed.headers["etag"] != tag


@pytest.mark.parametrize("path", STATE)
async def test_a_standby_says_that_it_is_one(
    api: httpx.AsyncClient, placements: HeldPlacements, path: str
) -> None:
    leader = await api.get(path)
    assert leader.headers["fluence-leading"] == "true"
    placements.leading = False
    standby = await api.get(path, headers={"if-none-match": leader.headers["etag"]})
    assert (standby.status_code, standby.headers["fluence-leading"]) == (200, "false")
    if path in LISTS:
        assert standby.json()["metadata"]["leading"] is False
    elif path != "/v1/graph":
        assert standby.json()["leading"] is False


@pytest.mark.parametrize("path", STATE)
async def test_no_state_is_shown_of_a_half_listed_cluster(
    api: httpx.AsyncClient, placements: HeldPlacements, path: str
) -> None:
    placements.missing = "listing pods"
    answer = await api.get(path)
    assert (answer.status_code, answer.json()) == (503, {"detail": "not ready: listing pods"})


@pytest.mark.parametrize("path", [*STATE, "/readyz", "/metrics"])
async def test_the_api_is_read_only(api: httpx.AsyncClient, path: str) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert (await api.request(method, path)).status_code == 405


async def test_readiness_follows_the_service_and_liveness_does_not(
    api: httpx.AsyncClient, verbs: httpx.AsyncClient, placements: HeldPlacements
) -> None:
    assert (await api.get("/readyz")).status_code == 200
    placements.missing = "replaying 3 bound pods"
    answer = await api.get("/readyz")
    assert (answer.status_code, answer.text) == (503, "not ready: replaying 3 bound pods\n")
    assert (await api.get("/healthz")).status_code == 200
    assert (await verbs.get("/healthz")).status_code == 200


async def test_the_listeners_share_no_paths_but_liveness(
    api: httpx.AsyncClient, verbs: httpx.AsyncClient
) -> None:
    for path in (*STATE, "/metrics", "/readyz", "/openapi.json"):
        assert (await verbs.get(path)).status_code == 404
    for verb in ("filter", "prioritize", "bind", "preempt"):
        assert (await api.post(f"/{verb}", json={})).status_code == 404


async def test_the_documents_describe_every_field_and_need_no_other_host(api: httpx.AsyncClient) -> None:
    document = (await api.get("/openapi.json")).json()
    assert set(document["paths"]) == {
        "/v1/gangs",
        "/v1/gangs/{namespace}/{name}",
        "/v1/allocations",
        "/v1/nodes",
        "/v1/nodes/{name}",
        "/v1/backends",
        "/v1/graph",
        "/v1/simulate",
        "/v1/queues",
        "/v1/queue",
        "/v1/reservations",
        "/v1/usage",
        "/v1/history",
        "/livez/scheduler",
        "/healthz",
        "/readyz",
        "/metrics",
    }
    for name, model in document["components"]["schemas"].items():
        for field in model.get("properties", {}).values():
            assert field.get("description"), name
            assert field.get("examples") or field.get("type") == "array" or "$ref" in field, name
    for path in ("/docs", "/redoc"):
        assert (await api.get(path)).status_code == 404


@pytest.mark.parametrize("path", STATE)
async def test_answers_and_examples_are_as_the_document_says(api: httpx.AsyncClient, path: str) -> None:
    document = (await api.get("/openapi.json")).json()
    assert problems(document, path, 200, (await api.get(path)).json()) == []
    assert problems(document, path, 200, example_of(document, answer_schema(document, path, 200))) == []
    assert problems(document, path, 200, {"nonsense": 1}) != []


async def test_problems_are_as_the_document_says(api: httpx.AsyncClient, placements: HeldPlacements) -> None:
    document = (await api.get("/openapi.json")).json()
    for path, query, status in (
        ("/v1/gangs/a/b", "", 404),
        ("/v1/nodes/none", "", 404),
        ("/v1/gangs", "?statee=x", 400),
        ("/v1/nodes/n1", "?x=y", 400),
        ("/v1/nodes", "?schedulable=x", 422),
    ):
        answer = await api.get(path + query)
        assert answer.status_code == status
        assert problems(document, path, status, answer.json()) == []
    placements.missing = "listing pods"
    assert problems(document, "/v1/gangs", 503, (await api.get("/v1/gangs")).json()) == []
