"""Reads of the Lease and of this scheduler's pods, and writes that aren't permitted."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import uvloop
from aiohttp.abc import AbstractStreamWriter
from structlog.testing import capture_logs

from fluence_extender.cluster.api import ApiCluster
from fluence_extender.cluster.connection import POOL, ApiRequest, Connection, connect
from fluence_extender.cluster.errors import ClusterError, NotLeading
from fluence_extender.cluster.events import EventRecorder
from fluence_extender.cluster.port import Lease, Regarding
from fluence_extender.cluster.reads import list_own_pods, read_lease, warn_of_old_cluster
from fluence_extender.gangs.execution.writes import Fence
from fluence_extender.gangs.leadership.lease import ByLease
from fluence_extender.model.pod import Pod
from tests.unit.cluster.fake_api_server import (
    FakeApiServer,
    Handler,
    answer,
    drop,
    hang,
    kubeconfig_text,
    refuse,
)

LEASE = ("GET", "/apis/coordination.k8s.io/v1/namespaces/fluence-system/leases/fluence")
PODS = ("GET", "/api/v1/pods")
BIND = ("POST", "/api/v1/namespaces/ns/pods/p/binding")


def spec(**fields: Any) -> Any:
    return answer({"metadata": {"name": "fluence", "managedFields": [{"x": 1}]}, "spec": fields})


async def test_lease_is_read_completely(server: FakeApiServer, connection: Connection) -> None:
    held = {
        "holderIdentity": "fluence-a_1",
        "renewTime": "2026-01-01T00:00:00.000000Z",
        "acquireTime": "2025-01-01T00:00:00.000000Z",
        "leaseTransitions": 4,
        "leaseDurationSeconds": 15,
        "strategy": "OldestEmulationVersion",
    }
    server.scripts[LEASE].append(spec(**held))
    read = await read_lease(connection, "fluence-system", "fluence", 5.0)
    assert read == Lease("fluence-a_1", "2026-01-01T00:00:00.000000Z", 4, 15.0)


@pytest.mark.parametrize("fields", [{}, {"holderIdentity": None, "renewTime": None}, {"holderIdentity": ""}])
async def test_lease_without_a_holder_is_held_by_no_replica(
    server: FakeApiServer, connection: Connection, fields: dict[str, Any]
) -> None:
    server.scripts[LEASE].append(spec(**fields))
    assert await read_lease(connection, "fluence-system", "fluence", 5.0) == Lease("", "", 0, 0.0)


@pytest.mark.parametrize(
    ("told", "warned"),
    [
        (answer({"gitVersion": "v1.35.4+k3s1"}), ["v1.35.4+k3s1"]),
        (answer({"gitVersion": "v1.9.0"}), ["v1.9.0"]),
        (answer({"gitVersion": "v1.36.0-gke.1"}), []),
        (answer({"gitVersion": "v1.100.0"}), []),
        (answer({"gitVersion": "v2.0.0"}), []),
        (answer({"gitVersion": "main"}), []),
        (answer({"gitVersion": 1}), []),
        (answer([]), []),
        (refuse(403, "no"), []),
    ],
)
async def test_cluster_that_is_too_old_is_told_in_the_log(
    server: FakeApiServer, connection: Connection, told: Handler, warned: list[str]
) -> None:
    server.scripts["GET", "/version"].append(told)
    with capture_logs() as logs:
        await warn_of_old_cluster(connection)
    assert [one["cluster"] for one in logs] == warned
    assert all(one["event"] == "Kubernetes 1.36 or newer is needed" for one in logs)


async def test_lease_that_does_not_exist_is_none(server: FakeApiServer, connection: Connection) -> None:
    server.scripts[LEASE].append(refuse(404, "leases not found"))
    assert await read_lease(connection, "fluence-system", "fluence", 5.0) is None


@pytest.mark.parametrize("trouble", [refuse(403, "forbidden"), refuse(503, "busy"), hang])
async def test_lease_that_cannot_be_read_raises_within_the_limit(
    server: FakeApiServer, connection: Connection, trouble: Any
) -> None:
    server.scripts[LEASE].append(trouble)
    with pytest.raises(ClusterError):
        await read_lease(connection, "fluence-system", "fluence", 0.3)


def page(version: str, next_page: str, *pods: tuple[str, str]) -> Any:
    items = [
        {
            "metadata": {"name": uid, "namespace": "ns", "uid": uid, "resourceVersion": at},
            "spec": {"schedulerName": "fluence", "containers": [], "nodeName": "n1"},
            "status": {"phase": "Running"},
        }
        for uid, at in pods
    ]
    return answer({"metadata": {"resourceVersion": version, "continue": next_page}, "items": items})


async def test_only_pods_that_are_not_known_in_their_version_are_decoded(
    server: FakeApiServer, connection: Connection
) -> None:
    server.scripts[PODS].extend([page("90", "more", ("a", "11"), ("b", "80")), page("90", "", ("c", "33"))])
    look = await list_own_pods(connection, {"a": "11", "b": "12", "gone": "5"})
    assert (look.version, look.uids) == ("90", frozenset("abc"))
    assert [(pod.uid, pod.resource_version, pod.node) for pod in look.changed] == [
        ("b", "80", "n1"),
        ("c", "33", "n1"),
    ]


async def test_list_of_own_pods_whose_pages_expire_raises(
    server: FakeApiServer, connection: Connection
) -> None:
    server.scripts[PODS].extend([page("90", "more", ("a", "11")), refuse(410, "expired")])
    with pytest.raises(ClusterError):
        await list_own_pods(connection, {})


def deny() -> None:
    raise NotLeading("not the leader: the lease is held by another")


async def test_no_write_is_sent_while_it_is_not_permitted(
    server: FakeApiServer, connection: Connection
) -> None:
    connection.permit = deny
    cluster = ApiCluster(connection, EventRecorder(connection))
    with pytest.raises(NotLeading, match="held by another"):
        await cluster.bind(Pod("ns", "p", "u1"), "n1", {})
    assert server.count(*BIND) == 0
    server.scripts[LEASE].append(spec(holderIdentity="x_1"))
    assert await read_lease(connection, "fluence-system", "fluence", 5.0) is not None


async def test_write_that_was_cut_off_is_not_sent_again_once_it_is_not_permitted(
    server: FakeApiServer, connection: Connection
) -> None:
    permits = [lambda: None, deny]
    connection.permit = lambda: permits.pop(0)()
    server.scripts[BIND].append(drop)
    with pytest.raises(NotLeading):
        await ApiCluster(connection, EventRecorder(connection)).bind(Pod("ns", "p", "u1"), "n1", {})
    assert server.count(*BIND) == 1


async def test_write_that_was_turned_away_for_load_is_not_sent_again_once_it_is_not_permitted(
    server: FakeApiServer, connection: Connection
) -> None:
    permits = [lambda: None, deny]
    connection.permit = lambda: permits.pop(0)()
    server.scripts[BIND].append(refuse(429, "busy"))
    with pytest.raises(NotLeading):
        await ApiCluster(connection, EventRecorder(connection)).bind(Pod("ns", "p", "u1"), "n1", {})
    assert server.count(*BIND) == 1


async def test_dry_run_changes_nothing_and_so_needs_no_permit(
    server: FakeApiServer, connection: Connection
) -> None:
    connection.permit = deny
    server.scripts["POST", "/api/v1/namespaces/ns/pods"].append(answer({}, 201))
    tried = ApiRequest("POST", "/api/v1/namespaces/ns/pods", "try a pod", {"dryRun": "All"}, {})
    assert await connection.call(tried) == b"{}"


@pytest.fixture(params=["straight", "by a proxy"])
async def reached(
    request: pytest.FixtureRequest, server: FakeApiServer, tmp_path: Path
) -> AsyncIterator[Connection]:
    """A connection to the server, which is its own proxy too."""
    path = tmp_path / "reached"
    text = kubeconfig_text(server.url)
    if request.param == "by a proxy":
        text = text.replace(
            f'{{server: "{server.url}"}}', f'{{server: "{server.url}", proxy-url: "{server.url}"}}'
        )
    path.write_text(text)
    async with connect(str(path)) as opened:
        assert bool(opened._transport.proxy) is (request.param == "by a proxy")
        yield opened


async def test_permitted_write_is_sent_directly_and_through_a_proxy(
    server: FakeApiServer, reached: Connection
) -> None:
    asked: list[str] = []
    reached.permit = lambda: asked.append("asked")
    server.scripts[BIND].append(answer({}, 201))
    await ApiCluster(reached, EventRecorder(reached)).bind(Pod("ns", "p", "u1"), "n1", {})
    assert server.count(*BIND) == 1
    assert asked


async def test_write_that_waits_for_its_connection_until_the_lease_is_over_is_not_sent(
    server: FakeApiServer, reached: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a process was stopped there: what is ready then goes on before any timer says that the lead is over."""
    now = 1000.0
    leadership = ByLease("fluence-a", lambda: now)
    for number in range(9):
        leadership.saw(Lease("fluence-a_1", str(number), 1, 15.0), now)
        now += 0.5
    fence = Fence(ApiCluster(reached, EventRecorder(reached)), leadership)
    reached.permit = fence.demand
    make = reached._transport._new_socket
    made: list[bool] = []

    def hang_first(address: tuple[Any, ...]) -> socket.socket:
        nonlocal now
        made.append(leadership.leads)
        now += 2.6
        return make(address)

    monkeypatch.setattr(reached._transport, "_new_socket", hang_first)
    with pytest.raises(NotLeading, match="hasn't been read lately"):
        await fence.write(lambda cluster: cluster.bind(Pod("ns", "p", "u1"), "n1", {}))
    assert made == [True]
    await asyncio.sleep(0.05)
    assert server.count(*BIND) == 0


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_permitted_write_is_with_the_operating_system_in_the_same_turn_of_the_loop(
    run: Callable[[Coroutine[Any, Any, bytes]], bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A process that is stopped between two turns must not send the write when it runs again."""
    write = aiohttp.BytesPayload.write_with_length
    turns: list[str] = []
    sent: list[bytes] = []

    with socket.create_server(("127.0.0.1", 0)) as listener:
        path = tmp_path / "kubeconfig"
        path.write_text(kubeconfig_text(f"http://127.0.0.1:{listener.getsockname()[1]}"))

        async def write_and_receive(
            payload: aiohttp.BytesPayload, writer: AbstractStreamWriter, length: int | None
        ) -> None:
            await write(payload, writer, length)
            assert not turns
            peer, _ = listener.accept()
            with peer:
                peer.settimeout(60)
                sent.append(peer.recv(65536))
                peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

        monkeypatch.setattr(aiohttp.BytesPayload, "write_with_length", write_and_receive)

        async def call() -> bytes:
            async with connect(str(path)) as connection:
                loop = asyncio.get_running_loop()

                def permit() -> None:
                    loop.call_soon(turns.append, "turn")

                connection.permit = permit
                return await connection.call(ApiRequest("POST", "/x", "write", body={}))

        assert run(call()) == b"ok"
    assert sent[0].endswith(b"{}")


async def test_events_that_are_not_permitted_are_dropped(
    server: FakeApiServer, connection: Connection
) -> None:
    connection.permit = deny
    recorder = EventRecorder(connection)
    recorder.record(Regarding("v1", "Pod", "ns", "p", "u1"), "Busy", "busy")
    await recorder.flush()
    connection.permit = lambda: None
    await recorder.flush()
    assert server.count("POST", "/apis/events.k8s.io/v1/namespaces/ns/events") == 0


async def test_lease_is_read_before_all_waiting_calls(server: FakeApiServer, connection: Connection) -> None:
    for _ in range(POOL):
        await connection._calls.acquire()
    with pytest.raises(ClusterError, match="no answer within"):
        await connection.call(ApiRequest("GET", "/readyz", "ask"), 0.1)
    server.scripts[LEASE].append(spec(holderIdentity="x_1"))
    assert await read_lease(connection, "fluence-system", "fluence", 5.0) is not None
