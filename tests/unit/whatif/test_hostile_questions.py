"""A question that anybody may ask is read and answered within bounds, and the service works on meanwhile."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from fluence_extender.http.listeners.gate import ReviewingGate
from fluence_extender.http.metrics import Metrics
from fluence_extender.http.state.app import api_app
from fluence_extender.http.state.simulate import NOT_JSON
from fluence_extender.kinds.pod_sets import BadManifest
from fluence_extender.model.access import Caller, new_pods_in, pods_in, question
from fluence_extender.whatif import simulation, simulator
from fluence_extender.whatif.documents import read_manifests
from fluence_extender.whatif.manifests import RequestedGang
from fluence_extender.whatif.simulation import Simulation, SimulationResult
from fluence_extender.whatif.simulator import MOST_OF_ONE, MOST_WAITING
from tests.core.growth import assert_linear
from tests.core.values import node
from tests.core.world import World
from tests.unit.http.callers import KnownCallers
from tests.unit.whatif.conftest import request_of

Json = dict[str, Any]
ENDLESS = 10**15


def template(**spec: Any) -> Json:
    containers = [{"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}]
    pod = {"schedulerName": "fluence", "restartPolicy": "Never", "containers": containers}
    return {"spec": {**pod, **spec}}


def made(kind: str, **spec: Any) -> bytes:
    return json.dumps({"kind": kind, "metadata": {"name": "x"}, "spec": spec}).encode()


def job_set(*replicated: Json) -> bytes:
    return made("JobSet", replicatedJobs=[{"name": f"r{i}", **one} for i, one in enumerate(replicated)])


def of_job(**spec: Any) -> Json:
    return {"spec": {"template": template(), **spec}}


ENDLESS_QUESTIONS: Mapping[str, bytes] = {
    "replicas": made("Deployment", replicas=ENDLESS, template=template()),
    "parallelism": made("Job", parallelism=ENDLESS, template=template()),
    "jobs": job_set({"replicas": ENDLESS, "template": of_job()}),
    "jobs without pods": job_set({"replicas": ENDLESS, "template": of_job(parallelism=0)}),
    "jobs without completions": job_set({"replicas": ENDLESS, "template": of_job(completions=0)}),
    "groups without workers": made(
        "LeaderWorkerSet", replicas=ENDLESS, leaderWorkerTemplate={"size": 0, "workerTemplate": template()}
    ),
    "many nested jobs": job_set(*({"replicas": ENDLESS, "template": of_job(parallelism=0)},) * 1000),
    "large pods": made("Job", parallelism=10_000, template=template(schedulerHints="a" * 900_000)),
    "a pod beyond all bounds": made("Job", parallelism=1, template=template(schedulerHints="a" * 2_000_000)),
    "many labels": made(
        "Job",
        parallelism=10_000,
        template={"metadata": {"labels": {f"l{i}": "v" for i in range(50_000)}}, **template()},
    ),
    "deep lists": b'{"a": ' + b"[" * 500_000,
    "deep JSON": b'{"a": ' * 200_000,
    "deep lists that end": b"[" * 90 + b"]" * 90,
    "many values": b'{"a": [' + b"1," * 1_500_000 + b"1]}",
    "a long number": b'{"kind": "Job", "spec": {"parallelism": ' + b"9" * 100_000 + b"}}",
    "a number of 300 digits": b'{"kind": "Job", "spec": {"parallelism": ' + b"9" * 300 + b"}}",
    "a name of digits": b'{"kind": "Pod", "metadata": {"name": "' + b"9" * 1_000_000 + b'"}, "spec": {}}',
    "deadline": made("Pod", activeDeadlineSeconds=10**400, **template()["spec"]),
}
"""Bodies that keep a core busy for ever, or fill the memory, unless what they ask for is bounded."""

SOON = 20.0
"""CPU seconds for the largest of them on a shared machine. Without bounds they take hours, or gigabytes."""


@pytest.mark.parametrize("kind", ENDLESS_QUESTIONS)
def test_question_without_an_end_is_refused_soon(kind: str) -> None:
    began = time.thread_time()
    with pytest.raises(BadManifest) as refused:
        request_of(read_manifests(ENDLESS_QUESTIONS[kind]))
    assert time.thread_time() - began < SOON
    assert len(str(refused.value)) < 1000


READ: Mapping[str, Callable[[int], bytes]] = {
    "lists": lambda n: b'{"kind": "A", "a": [' + b"[]," * n + b"0]}",
    "maps": lambda n: b'{"kind": "A", "a": [' + b'{"a": 1},' * n + b"0]}",
    "keys": lambda n: b'{"kind": "A"' + b"".join(b', "%d": 1' % i for i in range(n)) + b"}",
    "objects": lambda n: b"[" + b'{"kind": "A"},' * n + b'{"kind": "A"}]',
    "a text": lambda n: b'{"kind": "A", "a": "' + b"\\n" * n + b'"}',
    "duplicate keys": lambda n: b'{"kind": "A"' + b', "a": "b"' * n + b"}",
}


@pytest.mark.parametrize("kind", READ)
def test_time_to_read_manifests_grows_with_them(kind: str) -> None:
    def read(text: bytes) -> None:
        with suppress(BadManifest):
            read_manifests(text)

    assert_linear(read, READ[kind])


@pytest.mark.parametrize("count", ["pods", "jobs", "replicated jobs", "keys without effect"])
def test_time_to_make_pods_grows_with_them(count: str) -> None:
    def body(size: int) -> bytes:
        match count:
            case "pods":
                return made("Job", parallelism=min(size, 9_000), template=template())
            case "jobs":
                return job_set({"replicas": min(size, 9_000), "template": of_job()})
            case "replicated jobs":
                return job_set(*({"template": of_job()},) * min(size, 9_000))
        labels = {f"fluence.flux-framework.org/grouq{i}": "" for i in range(min(size, 9_000))}
        return made("Job", template={"metadata": {"labels": labels}, **template()})

    assert_linear(lambda text: request_of(read_manifests(text)), body)


@pytest.fixture
def world() -> Iterator[World]:
    world = World(*(node(f"n{number}") for number in range(4)))
    yield world
    world.close()


Asker = tuple[str, dict[str, str]]
"""The address from which a question comes, and its headers."""


def client_of(app: FastAPI, host: str = "10.0.0.1") -> httpx.AsyncClient:
    """Return a client, at the address ``host``, of the application that the service serves."""
    transport = httpx.ASGITransport(app, client=(host, 1))
    return httpx.AsyncClient(transport=transport, base_url="http://service", timeout=60)


def application(world: World) -> FastAPI:
    return api_app(world.state, Metrics())


async def test_service_answers_others_while_a_long_question_is_computed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(self: Simulation, gang: RequestedGang) -> SimulationResult:
        began = time.monotonic()
        while time.monotonic() - began < 0.1:
            sum(range(1000))
        return plan(self, gang)

    plan = Simulation._result
    monkeypatch.setattr(simulation, "LONGEST", 0.1)
    paces: list[float] = []

    async def keep_pace() -> None:
        while True:
            began = time.monotonic()
            await asyncio.sleep(0.01)
            paces.append(time.monotonic() - began)

    job = json.loads(made("Job", parallelism=1, template=template()))
    jobs = [{**job, "metadata": {"name": f"x{number}"}} for number in range(30)]
    async with client_of(application(world)) as client:
        with monkeypatch.context() as patched:
            patched.setattr(Simulation, "_result", slow)
            pace = asyncio.create_task(keep_pace())
            answer = await client.post("/v1/simulate", json=jobs)
            pace.cancel()
        gangs = answer.json()["gangs"]
        assert len(gangs) == 30
        assert "the time for one question is spent; ask about fewer pods at once" in gangs[-1]["reason"]
        assert len(paces) > 20
        assert sorted(paces)[len(paces) // 2] < 0.1
        assert (await client.post("/v1/simulate", json=job)).json()["fits"]


async def test_pods_times_nodes_are_bounded_before_anything_is_planned(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulator, "MOST_PLACES", 400)
    async with client_of(application(world)) as client:
        few = await client.post("/v1/simulate", content=made("Job", parallelism=100, template=template()))
        many = await client.post("/v1/simulate", content=made("Job", parallelism=101, template=template()))
    assert few.status_code == 200
    assert (many.status_code, many.json()["message"]) == (
        400,
        "101 pods on 4 nodes: pods times nodes may be 400 in one question; ask about at most 100 pods at once",
    )


@pytest.mark.parametrize("sent", ["application/yaml", "text/plain", "application/x-www-form-urlencoded"])
async def test_what_is_not_json_is_refused(sent: str, world: World) -> None:
    async with client_of(application(world)) as client:
        answer = await client.post("/v1/simulate", content=b"kind: Pod", headers={"Content-Type": sent})
        assert (answer.status_code, answer.json()["message"]) == (415, NOT_JSON)
        for kind in ({"Content-Type": "application/json; charset=utf-8"}, {}):
            answer = await client.post("/v1/simulate", content=b"kind: Pod", headers=kind)
            assert answer.status_code == 400
            assert answer.json()["message"].startswith("not JSON: ")


@pytest.mark.parametrize("kind", ["jobs without pods", "many values", "replicas"])
async def test_hostile_question_gets_an_answer_that_names_the_limit(kind: str, world: World) -> None:
    async with client_of(application(world)) as client:
        answer = await client.post("/v1/simulate", content=ENDLESS_QUESTIONS[kind])
        assert answer.status_code == 400
        assert "more than" in answer.text or "makes no pods" in answer.text


async def answered(
    monkeypatch: pytest.MonkeyPatch, app: FastAPI, greedy: Sequence[Asker], other: Asker
) -> list[int]:
    """Return the statuses of as many questions as may wait, of the ``greedy`` in turn, then of one by ``other``."""
    going = threading.Event()

    def waiting(_: Simulation) -> list[object]:
        going.wait(30)
        return []

    async def ask(who: Asker) -> int:
        host, headers = who
        async with client_of(app, host) as client:
            return (await client.post("/v1/simulate", content=manifest, headers=headers)).status_code

    monkeypatch.setattr(Simulation, "run", waiting)
    manifest = made("Job", template=template())
    asked = [asyncio.create_task(ask(greedy[at % len(greedy)])) for at in range(MOST_WAITING)]
    await asyncio.sleep(0.2)
    asked.append(asyncio.create_task(ask(other)))
    await asyncio.sleep(0.2)
    going.set()
    return list(await asyncio.gather(*asked))


async def test_one_client_leaves_room_for_the_questions_of_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = await answered(monkeypatch, application(world), [("10.0.0.1", {})], ("10.0.0.2", {}))
    assert (found.count(200), found[-1]) == (MOST_OF_ONE + 1, 200)


@pytest.mark.parametrize(
    "greedy",
    [["anna"], ["system:serviceaccount:lab:a", "system:serviceaccount:lab:b"]],
    ids=["user", "accounts of a namespace"],
)
async def test_one_user_leaves_room_for_others_behind_the_same_address(
    greedy: list[str], world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = [*greedy, "bert"]
    simulates = question("POST", "/v1/simulate")
    callers = KnownCallers(
        {user: Caller(user) for user in users},
        {user: {simulates, pods_in("default"), new_pods_in("default")} for user in users},
    )
    app = api_app(world.state, Metrics(), gate=ReviewingGate(callers))
    proxied = [("10.0.0.1", {"Authorization": f"Bearer {user}"}) for user in users]
    found = await answered(monkeypatch, app, proxied[:-1], proxied[-1])
    assert (found.count(200), found[-1]) == (MOST_OF_ONE + 1, 200)


async def test_one_user_at_several_addresses_is_one_client(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulates = question("POST", "/v1/simulate")
    callers = KnownCallers(
        {"anna": Caller("anna")}, {"anna": {simulates, pods_in("default"), new_pods_in("default")}}
    )
    app = api_app(world.state, Metrics(), gate=ReviewingGate(callers))
    askers = [(f"10.0.0.{at}", {"Authorization": "Bearer anna"}) for at in range(MOST_WAITING)]
    found = await answered(monkeypatch, app, askers, askers[0])
    assert found.count(200) == MOST_OF_ONE
