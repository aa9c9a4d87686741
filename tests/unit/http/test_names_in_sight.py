"""No answer and no text names an object of a namespace that its reader may not see.

Worlds in which gangs of two namespaces are in each other's way are read as the users of either namespace read them:
through every path of the state API, by what-if questions, and on their objects. Each name of an object contains the
name of its namespace, so a text that names anything of the namespace is found, whatever its form.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from fluence_extender.cluster.budgets import decode_budget
from fluence_extender.cluster.errors import Disrupted
from fluence_extender.cluster.port import ResourcesFile
from fluence_extender.gangs.reporting import past_gangs
from fluence_extender.http.listeners.gate import ReviewingGate
from fluence_extender.http.metrics import Metrics
from fluence_extender.http.scheduler.port import Nowhere
from fluence_extender.http.state.app import api_app
from fluence_extender.model.access import NODES, Caller, new_pods_in, pods_in, question
from fluence_extender.model.names import AFTER_ANNOTATION, GATE, GROUP_LABEL, GROUP_SIZE_ANNOTATION
from fluence_extender.objects.queues import NodeReservation, Queue, Stop
from tests.core.values import asks, node
from tests.core.world import World
from tests.unit.gangs.conftest import gang
from tests.unit.http.callers import KnownCallers
from tests.unit.whatif.conftest import job

MINE, OTHER = "quartz", "zwiebel"
LONG = OTHER + "e" * 21
LISTS = ("gangs", "gangs?gone=true", "allocations", "queues", "queue", "reservations", "backends", "nodes")
ASK = [question("GET", f"/v1/{path}") for one in LISTS for path in (one.partition("?")[0], f"{one}/one")]
SIMULATES = question("POST", "/v1/simulate")
CALLERS = {"mine": {MINE}, "other": {OTHER, LONG}, "both": {MINE, OTHER, LONG}}
DEVICES = ResourcesFile("test", "resources: [{type: qpu, name: fez}]")
BUDGET = {
    "metadata": {"namespace": OTHER, "name": f"{OTHER}-vault", "generation": 1},
    "spec": {"selector": {}},
    "status": {"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1},
}

Scene = Callable[[World, pytest.MonkeyPatch], None]


def low(w: World, *cpu: int, name: str = "low", namespace: str = OTHER, **fields: Any) -> None:
    """A gang of the other namespace runs."""
    gang(w, f"{namespace}-{name}", *cpu, namespace=namespace, **fields)
    w.advance(2)


def high(w: World, *cpu: int, namespace: str = MINE, **fields: Any) -> None:
    """A gang of a higher priority comes."""
    gang(w, f"{namespace}-high", *cpu, namespace=namespace, priority=10, **fields)
    w.advance(2)


def preempting(w: World, _: pytest.MonkeyPatch) -> None:
    low(w, 1000, 1000)
    low(w, 1000, namespace=MINE)
    high(w, 4000)


def late(w: World, _: pytest.MonkeyPatch) -> None:
    low(w, 2000)
    high(w, 4000)
    w.advance(w.limits.leaving + 3)


def evicted_and_gone(w: World, patch: pytest.MonkeyPatch) -> None:
    preempting(w, patch)
    w.cluster.reap()
    w.advance(5)


def requeued(w: World, _: pytest.MonkeyPatch) -> None:
    w.jobs.submit(f"{OTHER}-low", 4, namespace=OTHER)
    w.advance(2)
    w.jobs.submit(f"{MINE}-high", 4, namespace=MINE, priority=10)
    w.advance(5)
    w.cluster.reap()
    w.advance(5)


def refused(w: World, _: pytest.MonkeyPatch) -> None:
    low(w, 3000)
    w.cluster.fail("evict", Disrupted(f"the budget {OTHER}-vault needs 3 healthy pods", 429), times=20)
    high(w, 3000)
    w.advance(4)


def protected(w: World, _: pytest.MonkeyPatch) -> None:
    low(w, 3000)
    w.cluster.protected |= {pod.uid for pod in w.cluster.pods()}
    high(w, 3000)
    w.advance(4)


def behind(w: World, patch: pytest.MonkeyPatch) -> None:
    preempting(w, patch)
    low(w, 1000, name="late")


def behind_for_devices(w: World, _: pytest.MonkeyPatch) -> None:
    w.cluster.put(DEVICES)
    w.advance(2)
    low(w, 1000, devices={"qpu": 1})
    high(w, 3500, devices={"qpu": 1})
    low(w, 100, name="late", devices={"qpu": 1})
    w.advance(2)


def forgotten(w: World, patch: pytest.MonkeyPatch) -> None:
    """The gang whose name a history has was forgotten long ago, and nothing else of its namespace is left."""
    patch.setattr(past_gangs, "REMEMBERED_FOR", 5.0)
    evicted_and_gone(w, patch)
    for pod in w.cluster.pods():
        if pod.namespace == OTHER:
            w.cluster.remove(pod)
    w.advance(10)


def long_names(w: World, _: pytest.MonkeyPatch) -> None:
    """The end of a text that is too long for the history falls into a name."""
    for at in range(4):
        low(w, 1000, name=f"{at}" + "e" * 33, namespace=LONG)
    high(w, 4000)
    w.advance(4)


def dependent(w: World, _: pytest.MonkeyPatch) -> None:
    low(w, 1000)
    pod = {"labels": {GROUP_LABEL: f"{MINE}-next"}, "requests": asks(100), "gates": (GATE,)}
    after = {GROUP_SIZE_ANNOTATION: "1", AFTER_ANNOTATION: f"ok:gang/{MINE}-first"}
    w.pod(f"{MINE}-next-0", MINE, annotations=after, **pod)  # type: ignore[arg-type]
    w.advance(3)


def guarded(w: World, _: pytest.MonkeyPatch) -> None:
    """A disruption budget, which what-if questions know, covers what runs."""
    low(w, 3000)
    for pod in w.cluster.pods():
        w.change(pod, phase="Running", ready=True)
    w.advance(1)


def stopped(w: World, _: pytest.MonkeyPatch) -> None:
    namespaces = frozenset({MINE, OTHER})
    w.cluster.put(Queue("shared", stop=Stop.HOLD, uid="shared", default_for=namespaces))
    w.advance(1)
    low(w, 1000)
    high(w, 1000)
    w.advance(15)


SCENES: dict[str, Scene] = {
    scene.__name__: scene
    for scene in (
        preempting,
        late,
        evicted_and_gone,
        requeued,
        refused,
        protected,
        behind,
        behind_for_devices,
        forgotten,
        long_names,
        dependent,
        guarded,
        stopped,
    )
}


def wanted(namespace: str, priority: int, cpu: str = "3500m", **limits: str) -> dict[str, Any]:
    """Return a Job to ask about."""
    made = job(f"{namespace}-wanted", 1, cpu, limits=limits)
    made["metadata"]["namespace"] = namespace
    if priority:
        made["spec"]["template"]["spec"]["priorityClassName"] = f"of-{priority}"
    return made


CLASSES = [
    {"kind": "PriorityClass", "metadata": {"name": f"of-{value}"}, "value": value} for value in (5, 20)
]


async def read(w: World, caller: str, *seen: str) -> Iterator[str]:
    """Return all that the caller gets from the state API; ``seen`` are the namespaces that the caller may see."""

    rights = {
        name: {NODES, SIMULATES, *ASK, *map(pods_in, some), *map(new_pods_in, some)}
        for name, some in CALLERS.items()
    }
    callers = KnownCallers({name: Caller(name) for name in rights}, rights)
    w.cluster.budgets = (decode_budget(json.dumps(BUDGET).encode()),)
    transport = httpx.ASGITransport(api_app(w.state, Metrics(), gate=ReviewingGate(callers)))
    headers = {"Authorization": f"Bearer {caller}"}
    found = []
    async with httpx.AsyncClient(transport=transport, base_url="http://fluence", headers=headers) as client:
        paths = [
            *LISTS,
            "nodes/n0",
            *(f"{name}?namespace={one}" for name in ("gangs", "queue") for one in seen),
        ]
        known = (await client.get("/v1/gangs?gone=true")).json()["items"]
        paths += [f"gangs/{one['namespace']}/{one['name']}" for one in known]
        for path in paths:
            answer = await client.get(f"/v1/{path}")
            assert answer.status_code == 200, (path, answer.text)
            found.append(answer.text)
        for question_ in ([*CLASSES, wanted(one, priority)] for one in seen for priority in (0, 5, 20)):
            answer = await client.post("/v1/simulate", content=json.dumps(question_))
            assert answer.status_code == 200, answer.text
            found.append(answer.text)
        for question_ in ([wanted(one, 0, "100m", qpu="1")] for one in seen):
            found.append((await client.post("/v1/simulate", content=json.dumps(question_))).text)
    return iter(found)


def written(w: World, namespace: str) -> Iterator[str]:
    """Yield what users of the namespace read on objects, and what filter answers about their pods.

    They read their own objects, and the status of those of the cluster.
    """
    for kind in (Queue, NodeReservation):
        for one in w.cluster._objects[kind].values():
            assert isinstance(one, Queue | NodeReservation)
            yield repr(one.status)
    for event in w.cluster.events:
        if event.regarding.namespace == namespace:
            yield event.message
    for pod in w.cluster.pods():
        if pod.namespace == namespace:
            yield w.cluster.waiting.get(pod.uid, "")
            yield repr(sorted({**pod.labels, **pod.annotations}.items()))
            place = w.placements.locate(w.asked(pod))
            yield place.reason if isinstance(place, Nowhere) else ""


@pytest.fixture
def at_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A small cluster in which the scene of that name has been played."""
    w = World(node("n0"))
    SCENES[request.param](w, monkeypatch)
    yield w
    w.close()


@pytest.mark.parametrize("at_once", SCENES, indirect=True)
def test_users_of_a_namespace_read_no_name_of_another(at_once: World) -> None:
    for caller, seen, hidden in (("mine", MINE, OTHER), ("other", OTHER, MINE)):
        texts = [*at_once.run(read(at_once, caller, seen)), *written(at_once, seen)]
        assert [text for text in texts if hidden in text] == []


NAMED = {
    "preempting": f"preempting {MINE}/{MINE}-low, {OTHER}/{OTHER}-low: ",
    "evicted_and_gone": f"preempted by gang {MINE}/{MINE}-high (priority 10)",
    "requeued": f"preempted by gang {MINE}/{MINE}-high (priority 10)",
    "late": f"; {OTHER}/{OTHER}-low-0 has not gone within",
    "refused": f"; {OTHER}/{OTHER}-low-0 can't be evicted now",
    "behind": f"; behind {MINE}/{MINE}-high (priority 10)",
    "behind_for_devices": f"busy: qpu held for {MINE}/{MINE}-high (priority 10)",
    "dependent": f"would preempt 1 gang (1 pod): {OTHER}/{OTHER}-low (1)",
    "guarded": f"; PodDisruptionBudget {OTHER}/{OTHER}-vault allows 0 of 1 evictions",
}


@pytest.mark.parametrize("at_once", NAMED, indirect=True)
def test_who_may_see_both_namespaces_reads_all_names(at_once: World, request: pytest.FixtureRequest) -> None:
    name = request.node.callspec.params["at_once"]
    texts = list(at_once.run(read(at_once, "both", MINE, OTHER)))
    assert any(NAMED[name] in text for text in texts)
