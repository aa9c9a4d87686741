"""The two listeners: each application on its own port, and an error that names a port in use."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections.abc import Callable

import httpx
import pytest

from fluence_extender.http.listeners.serving import Address, CannotListen, stop_signals
from fluence_extender.http.metrics import Metrics
from fluence_extender.http.scheduler.app import VerbsApp
from fluence_extender.http.scheduler.pending import STOPPING
from fluence_extender.http.server import Listeners, serve
from fluence_extender.http.state.app import api_app
from tests.unit.http.held_placements import HeldPlacements, binding, by_name, on

ANY = Address("127.0.0.1", 0)


def listeners(placements: HeldPlacements, verbs_at: Address = ANY, api_at: Address = ANY) -> Listeners:
    metrics = Metrics()
    return Listeners(VerbsApp(placements, metrics), api_app(placements, metrics), verbs_at, api_at)


async def until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not happened():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def post(port: int, path: str, request: object) -> bytes:
    """Send one request on a connection of its own, and return the answer's body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = json.dumps(request).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer.partition(b"\r\n\r\n")[2]


async def test_both_applications_are_served_on_their_own_ports() -> None:
    async with listeners(on("n2")) as running, httpx.AsyncClient() as client:
        assert running.verbs_address.port != running.api_address.port
        verbs, api = f"http://{running.verbs_address}", f"http://{running.api_address}"
        answer = await client.post(f"{verbs}/filter", json=by_name([f"n{i}" for i in range(20_000)]))
        assert answer.json()["NodeNames"] == ["n2"]
        assert len((await client.get(f"{api}/v1/graph")).json()["graph"]["nodes"]) == 2500
        assert (await client.post(f"{api}/filter", json={})).status_code == 404


async def test_the_error_names_a_port_in_use_and_nothing_stays_open() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CannotListen, match=rf"can't listen on 127\.0\.0\.1:{port}: .+in use"):
            await listeners(HeldPlacements(), api_at=Address("127.0.0.1", port)).start()


async def test_the_error_names_an_address_of_another_host() -> None:
    for host, port in (("no such host", 1), ("127.0.0.1", 70_000)):
        with pytest.raises(CannotListen, match=f"can't listen on {host}:{port}: "):
            await listeners(HeldPlacements(), Address(host, port)).start()


def test_an_ipv6_address_is_written_with_brackets() -> None:
    assert str(Address("::1", 8888)) == "[::1]:8888"


async def test_hundreds_of_binds_wait_together_and_are_released_together() -> None:
    placements = HeldPlacements()
    placements.barrier = asyncio.Event()
    async with listeners(placements) as running:
        port = running.verbs_address.port
        calls = [asyncio.create_task(post(port, "/bind", binding(f"u{i}"))) for i in range(400)]
        await until(lambda: len(running.verbs.pending_binds) == 400)
        assert json.loads(await post(port, "/filter", by_name(["n1"])))["Error"] == ""
        placements.barrier.set()
        answers = await asyncio.gather(*calls)
    assert set(answers) == {b'{"Error":""}'}
    assert len(placements.bound) == 400


async def test_a_client_that_hangs_up_doesnt_undo_its_bind() -> None:
    placements = HeldPlacements()
    placements.barrier = asyncio.Event()
    async with listeners(placements) as running:
        _, writer = await asyncio.open_connection("127.0.0.1", running.verbs_address.port)
        body = json.dumps(binding()).encode()
        writer.write(b"POST /bind HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        await until(lambda: len(running.verbs.pending_binds) == 1)
        writer.close()
        await writer.wait_closed()
        await asyncio.sleep(0.02)
        assert placements.bound == {}
        placements.barrier.set()
        await until(lambda: placements.bound == {"uid-1": "n1"})


async def test_a_waiting_bind_gets_an_error_when_the_service_stops() -> None:
    placements = HeldPlacements()
    placements.barrier = asyncio.Event()
    running = listeners(placements)
    await running.start()
    async with httpx.AsyncClient(timeout=30) as client:
        call = asyncio.create_task(client.post(f"http://{running.verbs_address}/bind", json=binding()))
        await until(lambda: len(running.verbs.pending_binds) == 1)
        await running.stop()
        assert (await call).json() == {"Error": STOPPING}
        with pytest.raises(httpx.ConnectError):
            await client.get(f"http://{running.verbs_address}/healthz")
    assert placements.bound == {}


async def test_a_body_over_the_limit_is_refused_and_the_connection_stays_usable() -> None:
    async with listeners(on("n2")) as running:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.verbs_address.port)
        size = 33 * 1024 * 1024
        writer.write(b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size)
        assert b" 413 " in await reader.readline()
        for _ in range(33):
            writer.write(bytes(1024 * 1024))
            await writer.drain()
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        rest = await reader.read()
        assert b"over 33554432 bytes" in rest
        assert rest.endswith(b"ok\n")
        writer.close()
        await writer.wait_closed()


async def test_a_truncated_request_changes_nothing() -> None:
    placements = on("n2")
    async with listeners(placements) as running:
        for verb in ("filter", "bind"):
            _, writer = await asyncio.open_connection("127.0.0.1", running.verbs_address.port)
            writer.write(b'POST /%b HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n{"Pod"' % verb.encode())
            await writer.drain()
            writer.close()
            await writer.wait_closed()
        async with httpx.AsyncClient() as client:
            answer = await client.post(f"http://{running.verbs_address}/filter", json=by_name(["n1", "n2"]))
        assert answer.json()["NodeNames"] == ["n2"]
    assert placements.bound == {}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_serving(number: signal.Signals) -> None:
    ports: list[int] = []

    def listening(running: Listeners) -> None:
        ports.extend([running.verbs_address.port, running.api_address.port])
        asyncio.get_running_loop().call_later(0.01, os.kill, os.getpid(), number)

    metrics, placements = Metrics(), HeldPlacements()
    async with asyncio.timeout(20):
        with stop_signals() as stop:
            await serve(
                VerbsApp(placements, metrics), api_app(placements, metrics), ANY, ANY, listening, stop
            )
    assert all(ports)
    assert len(set(ports)) == 2
