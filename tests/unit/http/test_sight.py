"""What a user sees of the state API who may list the pods of one namespace: his own, and counts of the rest."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from fluence_extender.http.listeners.gate import ReviewingGate
from fluence_extender.http.metrics import Metrics
from fluence_extender.http.state.aggregation import PREFIX
from fluence_extender.http.state.app import api_app
from fluence_extender.model.access import METRICS, NODES, Caller, pods_in, question
from tests.unit.http.callers import KnownCallers
from tests.unit.http.held_placements import HeldPlacements

USER = {"Authorization": "Bearer users"}
ADMIN = {"Authorization": "Bearer admins"}
EVERY = ["/v1/gangs", "/v1/gangs/team/big", "/v1/allocations", "/v1/nodes", "/v1/nodes/n1"]
EVERY += ["/v1/backends", "/v1/queues", "/v1/queue", "/v1/reservations", "/v1/graph", "/metrics"]
ASK = [question("GET", path) for path in EVERY if path.startswith("/v1/")]
"""What the role for users grants."""


@pytest.fixture
def callers() -> KnownCallers:
    """A user who may list the pods of namespace team, and an admin."""
    return KnownCallers(
        tokens={"users": Caller("user"), "admins": Caller("admin")},
        rights={
            "user": {pods_in("team"), *ASK},
            "admin": {pods_in(""), NODES, METRICS, *ASK},
            "later": {*ASK},
        },
    )


@pytest.fixture
async def guarded(
    placements: HeldPlacements, metrics: Metrics, callers: KnownCallers
) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(api_app(placements, metrics, gate=ReviewingGate(callers)))
    async with httpx.AsyncClient(transport=transport, base_url="https://extender") as client:
        yield client


async def shown(api: httpx.AsyncClient, path: str, **headers: str) -> dict[str, Any]:
    answer = await api.get(path, headers={**USER, **headers})
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


@pytest.mark.parametrize("path", [*EVERY, f"{PREFIX}/gangs", f"{PREFIX}/metrics"])
async def test_nothing_is_shown_to_a_caller_without_a_name(path: str, guarded: httpx.AsyncClient) -> None:
    answer = await guarded.get(path, headers={"X-Remote-User": "admin", "X-Remote-Group": "system:masters"})
    assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert answer.json()["kind"] == "Status"
    assert (await guarded.post("/v1/simulate", content=b"")).status_code == 401


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/livez/scheduler", PREFIX])
async def test_probes_and_discovery_need_no_name(path: str, guarded: httpx.AsyncClient) -> None:
    assert (await guarded.get(path)).status_code == 200


@pytest.mark.parametrize("path", EVERY)
async def test_one_who_may_read_everything_sees_what_loopback_shows(
    path: str, guarded: httpx.AsyncClient, api: httpx.AsyncClient
) -> None:
    if path != "/metrics":
        assert (await guarded.get(path, headers=ADMIN)).content == (await api.get(path)).content


async def test_gangs_of_others_are_counted(guarded: httpx.AsyncClient) -> None:
    found = await shown(guarded, "/v1/gangs")
    assert [(one["namespace"], one["name"]) for one in found["items"]] == [("team", "big")]
    assert found["metadata"]["hidden"] == 1
    assert "vqe" not in json.dumps(found)
    assert (await shown(guarded, "/v1/gangs?namespace=default"))["metadata"]["hidden"] == 1
    assert (await shown(guarded, "/v1/gangs?namespace=team"))["metadata"]["hidden"] == 0


async def test_gang_of_others_is_refused_whether_it_exists_or_not(guarded: httpx.AsyncClient) -> None:
    texts = []
    for name in ("vqe", "nobody"):
        answer = await guarded.get(f"/v1/gangs/default/{name}", headers=USER)
        assert answer.status_code == 403
        texts.append(answer.json()["message"])
    assert texts == ["you may not list pods in namespace default; an administrator grants it with RBAC"] * 2
    assert (await shown(guarded, "/v1/gangs/team/big"))["name"] == "big"


async def test_line_shows_gangs_in_sight_at_their_places_and_counts_the_others(
    guarded: httpx.AsyncClient,
) -> None:
    found = await shown(guarded, "/v1/queue")
    assert [(one["position"], one["name"]) for one in found["items"]] == [(2, "big")]
    assert found["metadata"]["hidden"] == 1
    assert "vqe" not in json.dumps(found)


async def test_queues_are_shown_without_gangs_of_others(guarded: httpx.AsyncClient) -> None:
    first, second = (await shown(guarded, "/v1/queues"))["items"]
    assert (first["name"], first["waiting"], first["head"], first["expected_start"]) == (
        "default",
        2,
        "",
        None,
    )
    assert (second["name"], second["stop"]) == ("physics", "Hold")


async def test_nodes_that_administrators_reserve_are_named_to_those_who_may_list_nodes(
    guarded: httpx.AsyncClient, callers: KnownCallers
) -> None:
    found = await shown(guarded, "/v1/reservations")
    (reserved,) = found["items"]
    assert (reserved["name"], reserved["count"], reserved["nodes"]) == ("upgrade", 1, [])
    assert found["metadata"]["hidden"] == 1
    callers.rights["user"].add(NODES)
    later = KnownCallers(callers.tokens, callers.rights)
    transport = httpx.ASGITransport(api_app(HeldPlacements(), Metrics(), gate=ReviewingGate(later)))
    async with httpx.AsyncClient(transport=transport, base_url="https://extender") as client:
        (reserved,) = (await shown(client, "/v1/reservations"))["items"]
    assert reserved["nodes"] == ["n2"]


async def test_what_others_hold_is_counted(guarded: httpx.AsyncClient) -> None:
    found = await shown(guarded, "/v1/allocations")
    assert all(one["namespace"] == "team" for one in found["items"])
    assert found["metadata"]["hidden"] > 0


async def test_devices_are_shown_and_their_holders_counted(guarded: httpx.AsyncClient) -> None:
    found = (await shown(guarded, "/v1/backends"))["items"]
    assert [(one["name"], one["holders"], one["hidden"]) for one in found] == [
        ("ibm-a", [], 1),
        ("qpu0", [], 1),
        ("lab", [], 0),
    ]
    assert [one["held"] for one in found] == [1, 1, 0]


@pytest.mark.parametrize("path", ["/v1/nodes", "/v1/nodes/n1", "/v1/graph"])
async def test_nodes_need_the_right_to_list_nodes(
    path: str, guarded: httpx.AsyncClient, callers: KnownCallers
) -> None:
    refused = await guarded.get(path, headers=USER)
    assert (refused.status_code, refused.json()["reason"]) == (403, "Forbidden")
    assert refused.json()["message"] == "you may not list nodes; an administrator grants it with RBAC"


async def test_pods_of_others_on_a_node_are_counted(
    guarded: httpx.AsyncClient, callers: KnownCallers
) -> None:
    callers.rights["user"].add(NODES)
    found = await shown(guarded, "/v1/nodes/n1")
    assert (found["pods"], found["hidden"]) == ([], 2)
    assert found["held"]["cpu"] == 2.5


async def test_metrics_need_their_own_right(guarded: httpx.AsyncClient) -> None:
    refused = await guarded.get("/metrics", headers=USER)
    assert refused.status_code == 403
    for path in ("/metrics", f"{PREFIX}/metrics"):
        assert "fluence_leader" in (await guarded.get(path, headers=ADMIN)).text


async def test_tag_belongs_to_what_the_user_may_see(
    guarded: httpx.AsyncClient, callers: KnownCallers
) -> None:
    first = await guarded.get("/v1/gangs", headers=USER)
    tag = first.headers["ETag"]
    assert (await guarded.get("/v1/gangs", headers={**USER, "If-None-Match": tag})).status_code == 304
    assert (await guarded.get("/v1/gangs", headers={**ADMIN, "If-None-Match": tag})).status_code == 200
    callers.tokens["later"] = Caller("later")
    again = await guarded.get("/v1/gangs", headers={"Authorization": "Bearer later", "If-None-Match": tag})
    assert (again.status_code, again.json()["items"]) == (200, [])


async def test_while_the_api_server_is_away_the_answer_says_so(
    guarded: httpx.AsyncClient, callers: KnownCallers
) -> None:
    callers.away = True
    answer = await guarded.get("/v1/gangs", headers=USER)
    assert answer.status_code == 503
    assert "the API server can't be asked who may see this" in answer.json()["message"]


async def test_paths_of_the_api_server_are_our_own(guarded: httpx.AsyncClient) -> None:
    for path in ("gangs", "gangs/team/big", "backends", "allocations?node=n1"):
        below = await guarded.get(f"{PREFIX}/{path}", headers=ADMIN)
        assert below.content == (await guarded.get(f"/v1/{path}", headers=ADMIN)).content
    assert (await guarded.get(f"{PREFIX}/openapi.json")).json()["info"]["title"] == "fluence-extender"
    listed = (await guarded.get(PREFIX)).json()
    assert (listed["kind"], listed["resources"]) == ("APIResourceList", [])
