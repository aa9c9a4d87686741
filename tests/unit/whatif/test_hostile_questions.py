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
from fluence_extender.model.access import Caller, question
from fluence_extender.whatif import simulator
from fluence_extender.whatif.computation import Overrun, computed
from fluence_extender.whatif.documents import BadManifest, read_manifests
from fluence_extender.whatif.manifests import requested_gangs
from fluence_extender.whatif.simulation import Simulation
from fluence_extender.whatif.simulator import MOST_OF_ONE, MOST_WAITING
from tests.core.growth import assert_linear
from tests.core.values import node
from tests.core.world import World
from tests.unit.http.callers import KnownCallers

Json = dict[str, Any]
ENDLESS = 10**15


def template(**spec: Any) -> Json:
    containers = [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]
    return {"spec": {"schedulerName": "fluence", "containers": containers, **spec}}


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
    "an alias to a long text": b"a: &a " + b"x" * 1_000_000 + b"\nkind: Pod\nb: [" + b"*a, " * 100_000 + b"]",
    "aliases of aliases": b"a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
    + b"".join(b"a%d: &a%d [%s]\n" % (i, i, b", ".join([b"*a%d" % (i - 1)] * 9)) for i in range(1, 40)),
    "merged aliases": b"a0: &a0 {k: v}\n"
    + b"".join(b"a%d: &a%d {<<: [*a%d, *a%d], k%d: v}\n" % (i, i, i - 1, i - 1, i) for i in range(1, 200)),
    "an alias to itself": b"a: &a [*a]",
    "deep lists": b"a: " + b"[" * 500_000,
    "deep maps": b"{a: " * 200_000,
    "deep JSON": b'{"a": ' * 200_000,
    "many values": b"a: [" + b"1," * 1_500_000 + b"]",
    "a long number": b'{"kind": "Job", "spec": {"parallelism": ' + b"9" * 100_000 + b"}}",
    "a number of 300 digits": b'{"kind": "Job", "spec": {"parallelism": ' + b"9" * 300 + b"}}",
    "a number in base 60": b"kind: Job\nspec: {parallelism: 1" + b":1" * 500_000 + b"}",
    "a fraction in base 60": b"kind: Job\nspec: {parallelism: 1" + b":1" * 500_000 + b".5}",
    "a hexadecimal number": b"kind: Job\nspec: {parallelism: 0x" + b"f" * 1_000_000 + b"}",
    "keys that collide": b"{" + b"".join(b"%d: 1," % (i * (2**61 - 1)) for i in range(1, 100_000)) + b"}",
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
        requested_gangs(read_manifests(ENDLESS_QUESTIONS[kind]))
    assert time.thread_time() - began < SOON
    assert len(str(refused.value)) < 1000


READ: Mapping[str, Callable[[int], bytes]] = {
    "lists": lambda n: b"kind: A\na: [" + b"[]," * n + b"]",
    "maps": lambda n: b"kind: A\n" + b"".join(b"k%d: {a: b}\n" % i for i in range(n)),
    "numbers": lambda n: b"kind: A\na: [" + b"".join(b"%d," % i for i in range(n)) + b"]",
    "anchors": lambda n: b"kind: A\na: [" + b"".join(b"&a%d x," % i for i in range(n)) + b"]",
    "aliases": lambda n: b"kind: A\na: &a x\nb: [" + b"*a," * n + b"]",
    "merges": lambda n: b"kind: A\na: &a {x: y}\nb: [" + b"{<<: *a}," * n + b"]",
    "comments": lambda n: b"kind: A\n" + b"# comment\n" * n,
    "a quoted text": lambda n: b'kind: A\na: "' + b"\\n" * n + b'"',
    "a folded text": lambda n: b"kind: A\na: >\n" + b"  a\n" * n,
    "a plain text": lambda n: b"kind: A\na: " + b"a b " * n,
    "digits and underscores": lambda n: b"kind: A\na: " + b"1_" * n + b"x",
    "a time": lambda n: b"kind: A\na: 2001-01-01" + b" " * n + b"1",
    "duplicate keys": lambda n: b"kind: A\n" + b"a: b\n" * n,
    "JSON": lambda n: b'{"kind": "A", "a": [' + b'{"a": 1},' * n + b"0]}",
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

    assert_linear(lambda text: requested_gangs(read_manifests(text)), body)


async def test_computation_that_never_ends_is_ended_from_outside() -> None:
    ended = threading.Event()

    def endless() -> None:
        try:
            while True:
                try:
                    sum(range(1000))
                except Exception:
                    continue
        finally:
            ended.set()

    with pytest.raises(Overrun, match=r"it takes more than 0\.2 s"):
        await computed(endless, 0.2)
    assert ended.is_set()
    assert not [one for one in threading.enumerate() if one.name == "what-if"]


async def test_computation_hands_over_its_result_or_its_failure() -> None:
    assert await computed(lambda: 7, 10) == 7
    with pytest.raises(ZeroDivisionError):
        await computed(lambda: 1 // 0, 10)


async def test_computation_ends_with_the_task_that_waits_for_it() -> None:
    def endless() -> None:
        while True:
            time.sleep(0.001)

    waiting = asyncio.create_task(computed(endless, 60))
    await asyncio.sleep(0.05)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not [one for one in threading.enumerate() if one.name == "what-if"]


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


async def test_service_answers_others_while_a_hostile_question_is_computed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def endless(_: Simulation) -> None:
        while True:
            sum(range(1000))

    monkeypatch.setattr(simulator, "LONGEST_ANSWER", 1.5)
    paces: list[float] = []

    async def keep_pace() -> None:
        while True:
            began = time.monotonic()
            await asyncio.sleep(0.01)
            paces.append(time.monotonic() - began)

    manifest = made("Job", parallelism=2, template=template())
    async with client_of(application(world)) as client:
        with monkeypatch.context() as patched:
            patched.setattr(Simulation, "run", endless)
            pace = asyncio.create_task(keep_pace())
            answer = await client.post("/v1/simulate", content=manifest)
            pace.cancel()
        assert answer.status_code == 422
        assert (
            "there is no answer, because it takes more than 1.5 s; ask about fewer pods at once"
            in answer.text
        )
        assert len(paces) > 20
        assert sorted(paces)[len(paces) // 2] < 0.1
        assert (await client.post("/v1/simulate", content=manifest)).json()["fits"]


@pytest.mark.parametrize("kind", ["jobs without pods", "aliases of aliases", "keys that collide", "replicas"])
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
    callers = KnownCallers({user: Caller(user) for user in users}, {user: {simulates} for user in users})
    app = api_app(world.state, Metrics(), gate=ReviewingGate(callers))
    proxied = [("10.0.0.1", {"Authorization": f"Bearer {user}"}) for user in users]
    found = await answered(monkeypatch, app, proxied[:-1], proxied[-1])
    assert (found.count(200), found[-1]) == (MOST_OF_ONE + 1, 200)


async def test_one_user_at_several_addresses_is_one_client(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulates = question("POST", "/v1/simulate")
    callers = KnownCallers({"anna": Caller("anna")}, {"anna": {simulates}})
    app = api_app(world.state, Metrics(), gate=ReviewingGate(callers))
    askers = [(f"10.0.0.{at}", {"Authorization": "Bearer anna"}) for at in range(MOST_WAITING)]
    found = await answered(monkeypatch, app, askers, askers[0])
    assert found.count(200) == MOST_OF_ONE
