"""Events are folded and bounded, and recording them never blocks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import pytest

from fluence_extender.cluster import events
from fluence_extender.cluster.connection import Connection
from fluence_extender.cluster.events import EventRecorder
from fluence_extender.cluster.port import Regarding
from tests.core.growth import assert_linear
from tests.unit.cluster.fake_api_server import FakeApiServer, Handler, answer, drop, eventually, hang, refuse

PATH = "/apis/events.k8s.io/v1/namespaces/ns/events"
POD = Regarding("v1", "Pod", "ns", "p", "u1")


@pytest.fixture
async def recorder(connection: Connection) -> AsyncIterator[EventRecorder]:
    made = EventRecorder(connection, period=0.05, capacity=3)
    task = asyncio.create_task(made.run())
    yield made
    task.cancel()
    await asyncio.wait([task])


async def test_event_is_written_with_all_its_fields(server: FakeApiServer, recorder: EventRecorder) -> None:
    server.scripts["POST", PATH].append(answer({}, 201))
    recorder.record(POD, "Waiting", "x" * 2000, warning=True)
    await eventually(lambda: len(server.bodies) == 1)
    (body,) = server.bodies
    assert body["reason"] == "Waiting"
    assert body["type"] == "Warning"
    assert body["note"] == "x" * 1024
    assert body["regarding"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "ns",
        "name": "p",
        "uid": "u1",
    }
    assert body["reportingController"] == "fluence.flux-framework.org/extender"


async def test_equal_events_become_one_with_a_count(server: FakeApiServer, recorder: EventRecorder) -> None:
    server.scripts["POST", PATH].append(answer({}, 201))
    recorder.record(POD, "Waiting", "for members")
    await eventually(lambda: len(server.bodies) == 1)
    name = server.bodies[0]["metadata"]["name"]
    server.scripts["PATCH", f"{PATH}/{name}"].append(answer({}))
    for _ in range(9):
        recorder.record(POD, "Waiting", "for members")
    await eventually(lambda: len(server.bodies) == 2)
    assert server.bodies[1]["series"]["count"] == 10
    await asyncio.sleep(0.15)
    assert len(server.bodies) == 2


async def test_event_that_expired_is_created_again(server: FakeApiServer, recorder: EventRecorder) -> None:
    server.scripts["POST", PATH].extend([answer({}, 201)] * 2)
    recorder.record(POD, "Waiting", "for members")
    await eventually(lambda: len(server.bodies) == 1)
    recorder.record(POD, "Waiting", "for members")
    await eventually(lambda: server.count("POST", PATH) == 2)
    assert server.bodies[-1]["series"]["count"] == 2


async def test_oldest_of_too_many_events_are_dropped(server: FakeApiServer, recorder: EventRecorder) -> None:
    server.scripts["POST", PATH].extend([answer({}, 201)] * 9)
    for number in range(10):
        recorder.record(POD, "Waiting", str(number))
    await eventually(lambda: len(server.bodies) == 3)
    assert [body["note"] for body in server.bodies] == ["7", "8", "9"]


@pytest.mark.parametrize("refusal", [refuse(403, "no"), refuse(404, "no namespace"), refuse(409, "exists")])
async def test_refused_event_is_dropped_and_the_next_one_written(
    server: FakeApiServer, recorder: EventRecorder, refusal: Handler
) -> None:
    server.scripts["POST", PATH].extend([refusal, answer({}, 201)])
    recorder.record(POD, "Waiting", "first")
    recorder.record(POD, "Waiting", "second")
    await eventually(lambda: len(server.bodies) == 2)
    assert server.bodies[-1]["note"] == "second"


async def test_event_survives_an_outage(
    server: FakeApiServer, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "Backoff", lambda first, cap: events_backoff)
    server.scripts["POST", PATH].extend([drop, drop, refuse(500, "etcd is away"), answer({}, 201)])
    recorder = EventRecorder(connection)
    task = asyncio.create_task(recorder.run())
    recorder.record(POD, "Waiting", "for members")
    await eventually(lambda: server.count("POST", PATH) == 4)
    task.cancel()
    await asyncio.wait([task])


async def test_flush_does_not_wait_for_an_api_server_that_hangs(
    server: FakeApiServer, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "CLOSE_LIMIT", 0.05)
    server.scripts["POST", PATH].append(hang)
    recorder = EventRecorder(connection)
    recorder.record(POD, "Waiting", "for members")
    async with asyncio.timeout(5):
        await recorder.flush()


async def test_event_about_a_node_goes_to_the_default_namespace(
    server: FakeApiServer, recorder: EventRecorder
) -> None:
    path = "/apis/events.k8s.io/v1/namespaces/default/events"
    server.scripts["POST", path].append(answer({}, 201))
    recorder.record(Regarding("v1", "Node", "", "n1"), "Deficit", "2 cores")
    await eventually(lambda: len(server.bodies) == 1)


class _NoWait:
    def delay(self) -> float:
        return 0.0

    def reset(self) -> None:
        return


events_backoff = _NoWait()


async def test_namespace_that_floods_drops_its_own_events_only(
    server: FakeApiServer, recorder: EventRecorder
) -> None:
    other = Regarding("v1", "Pod", "quiet", "p", "u2")
    theirs = PATH.replace("/ns/", "/quiet/")
    server.scripts["POST", PATH].extend([answer({}, 201)] * 2)
    server.scripts["POST", theirs].append(answer({}, 201))
    recorder.record(other, "Waiting", "for members")
    for number in range(10):
        recorder.record(POD, "Waiting", str(number))
    await eventually(lambda: len(server.bodies) == 3)
    assert sorted(body["note"] for body in server.bodies) == ["8", "9", "for members"]


async def test_namespace_that_floods_waits_for_its_budget_and_others_do_not(
    server: FakeApiServer, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "BURST", 2)
    monkeypatch.setattr(events, "REFILL", 10.0)
    other = Regarding("v1", "Pod", "quiet", "p", "u2")
    theirs = PATH.replace("/ns/", "/quiet/")
    server.scripts["POST", PATH].extend([answer({}, 201)] * 5)
    server.scripts["POST", theirs].append(answer({}, 201))
    made = EventRecorder(connection)
    task = asyncio.create_task(made.run())
    for number in range(5):
        made.record(POD, "Waiting", str(number))
    made.record(other, "Waiting", "for members")
    await eventually(lambda: server.count("POST", theirs) == 1)
    assert server.count("POST", PATH) < 5
    await eventually(lambda: server.count("POST", PATH) == 5)
    task.cancel()
    await asyncio.wait([task])


async def test_namespaces_take_turns_when_each_write_takes_long(
    server: FakeApiServer, connection: Connection
) -> None:
    quiet = PATH.replace("/ns/", "/quiet/")
    server.scripts["POST", PATH].extend([answer({}, 201)] * 100)
    server.scripts["POST", quiet].append(answer({}, 201))
    made = EventRecorder(connection)
    for number in range(100):
        made.record(POD, "Waiting", str(number))
    made.record(Regarding("v1", "Pod", "quiet", "p", "u2"), "Waiting", "for members")
    task = asyncio.create_task(made.run())
    await eventually(lambda: len(server.bodies) == 101)
    assert "for members" in [body["note"] for body in server.bodies[:2]]
    task.cancel()
    await asyncio.wait([task])


async def test_fault_in_one_event_does_not_end_the_writing(
    server: FakeApiServer, recorder: EventRecorder
) -> None:
    server.scripts["POST", PATH].append(answer({}, 201))
    recorder.record(POD, "Waiting", "not UTF-8: \udc80")
    recorder.record(POD, "Waiting", "for members")
    await eventually(lambda: len(server.bodies) == 1)
    assert server.bodies[0]["note"] == "for members"


@pytest.mark.parametrize("kind", ["pods", "messages", "namespaces", "the same"])
def test_time_to_record_events_grows_with_their_number(kind: str) -> None:
    def event(number: int) -> tuple[Regarding, str]:
        namespace = f"ns{number}" if kind == "namespaces" else "ns"
        pod = Regarding("v1", "Pod", namespace, f"p{number}" if kind == "pods" else "p", "u1")
        return pod, f"message {number}" if kind == "messages" else "message"

    async def record(made: list[tuple[Regarding, str]]) -> None:
        recorder = EventRecorder(cast(Connection, None), capacity=256)
        for pod, message in made:
            recorder.record(pod, "Waiting", message)

    assert_linear(lambda made: asyncio.run(record(made)), lambda count: [event(i) for i in range(count)])
