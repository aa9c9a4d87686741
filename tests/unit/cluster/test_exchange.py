"""Calls on raw connections to a scripted server."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
import uvloop

from fluence_extender.cluster.exchange import Answer, Exchange, _Line
from fluence_extender.identity.certificates import make_authority, make_leaf
from fluence_extender.identity.tls import show_certificate, tls_context

STREAM = (socket.SOCK_STREAM, 0)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
Script = Callable[[int, bytes], Awaitable[bytes]]
"""What the server sends, given the number of the connection and the request; b"" hangs up."""


def new_socket(address: tuple[Any, ...]) -> socket.socket:
    return socket.socket(*address[:3])


def contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server's on loopback, and that of a client that trusts it."""
    authority = make_authority(datetime.now(UTC))
    leaf = make_leaf(authority, ["127.0.0.1"], datetime.now(UTC))
    server = tls_context()
    show_certificate(server, leaf.certificate_pem, leaf.key_pem)
    return server, ssl.create_default_context(cadata=authority.certificate_pem.decode())


@asynccontextmanager
async def serving(script: Script, secure: bool = False) -> AsyncIterator[Exchange]:
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        number = connections
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    (int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length:")), 0
                )
                answer = await script(number, head + await reader.readexactly(length))
                if not answer:
                    return
                writer.write(answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()

    theirs, ours = contexts() if secure else (None, None)
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=theirs)
    port = server.sockets[0].getsockname()[1]
    scheme = "https" if secure else "http"
    exchange = Exchange(f"{scheme}://127.0.0.1:{port}/below", ours, "", new_socket, 60.0)
    try:
        yield exchange
    finally:
        exchange.close()
        server.close()
        await server.wait_closed()


async def test_calls_in_a_row_share_a_connection() -> None:
    seen: list[tuple[int, bytes]] = []

    async def script(number: int, request: bytes) -> bytes:
        seen.append((number, request))
        return OK

    async with serving(script) as exchange:
        for _ in range(2):
            answer = await exchange.send("PATCH", "/pods/p?a=b", {"Accept": "x"}, b"body")
            assert (answer.status, answer.body) == (200, b"ok")
    assert [number for number, _ in seen] == [1, 1]
    head, _, body = seen[0][1].partition(b"\r\n\r\n")
    assert head.startswith(b"PATCH /below/pods/p?a=b HTTP/1.1\r\nHost: 127.0.0.1:")
    assert head.endswith(b"\r\nAccept: x\r\nContent-Length: 4")
    assert body == b"body"


async def test_calls_at_once_have_a_connection_each() -> None:
    both = asyncio.Barrier(2)

    async def script(number: int, request: bytes) -> bytes:
        await both.wait()
        return b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%d" % number

    async with serving(script) as exchange:
        answers = await asyncio.gather(*(exchange.send("GET", "/", {}, None) for _ in range(2)))
    assert {answer.body for answer in answers} == {b"1", b"2"}


async def test_connection_that_the_server_closes_is_not_used_again() -> None:
    async def script(number: int, request: bytes) -> bytes:
        return b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\n%d" % number

    async with serving(script) as exchange:
        bodies = [(await exchange.send("GET", "/", {}, None)).body for _ in range(2)]
    assert bodies == [b"1", b"2"]


async def test_connection_whose_call_was_cancelled_is_not_used_again() -> None:
    asked, given_up = asyncio.Event(), asyncio.Event()

    async def script(number: int, request: bytes) -> bytes:
        if number == 1:
            asked.set()
            await given_up.wait()
        return b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%d" % number

    async with serving(script) as exchange:
        call = asyncio.create_task(exchange.send("GET", "/slow", {}, None))
        await asked.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        given_up.set()
        assert (await exchange.send("GET", "/", {}, None)).body == b"2"


async def test_descriptor_of_a_call_cancelled_as_its_handshake_ends_is_free_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def script(number: int, request: bytes) -> bytes:
        return OK

    calls: list[asyncio.Task[Answer]] = []
    numbers: list[int] = []
    servers: list[tuple[str, int]] = []
    made = _Line.connection_made

    def give_up(line: _Line, transport: asyncio.Transport) -> None:
        made(line, transport)
        numbers.append(transport.get_extra_info("socket").fileno())
        servers.append(transport.get_extra_info("peername"))
        calls[0].cancel()

    monkeypatch.setattr(_Line, "connection_made", give_up)
    async with serving(script, secure=True) as exchange:
        calls.append(asyncio.create_task(exchange.send("GET", "/", {}, None)))
        with pytest.raises(asyncio.CancelledError):
            await calls[0]
        # Whoever is given the number next, and that may be at once, can connect by it.
        taken = new_socket((socket.AF_INET, *STREAM)).detach()
        if taken != numbers[0]:
            os.dup2(taken, numbers[0])
            os.close(taken)
        with socket.socket(fileno=numbers[0]) as namesake:
            namesake.setblocking(False)
            await asyncio.get_running_loop().sock_connect(namesake, servers[0])


async def test_server_that_closes_the_connection_before_its_answer_raises_connection_reset() -> None:
    async def script(number: int, request: bytes) -> bytes:
        return b""

    async with serving(script) as exchange:
        with pytest.raises(ConnectionResetError):
            await exchange.send("GET", "/", {}, None)


async def test_server_that_does_not_speak_http_is_an_error() -> None:
    async def script(number: int, request: bytes) -> bytes:
        return b"SSH-2.0-server\r\n\r\n"

    async with serving(script) as exchange:
        with pytest.raises(OSError, match="isn't HTTP"):
            await exchange.send("GET", "/", {}, None)


async def test_chunked_answer_after_an_interim_one_is_complete() -> None:
    async def script(number: int, request: bytes) -> bytes:
        chunks = b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
        head = b"HTTP/1.1 429 Too Many\r\nretry-after: 7\r\nTransfer-Encoding: chunked\r\n\r\n"
        return b"HTTP/1.1 100 Continue\r\n\r\n" + head + chunks

    async with serving(script) as exchange:
        answer = await exchange.send("GET", "/", {}, None)
    assert (answer.status, answer.body, answer.retry_after) == (429, b"abcde", "7")


async def test_request_that_is_not_permitted_is_not_sent() -> None:
    seen: list[bytes] = []

    async def script(number: int, request: bytes) -> bytes:
        seen.append(request)
        return OK

    def never() -> None:
        raise PermissionError

    async with serving(script) as exchange:
        with pytest.raises(PermissionError):
            await exchange.send("POST", "/", {}, b"{}", never)
    assert seen == []


@pytest.mark.parametrize("header", ["a\r\nb: c", "a\nb"])
async def test_line_break_in_a_header_is_refused(header: str) -> None:
    async def script(number: int, request: bytes) -> bytes:
        return OK

    async with serving(script) as exchange:
        with pytest.raises(ValueError, match="line break"):
            await exchange.send("GET", "/", {"Authorization": header}, None)


async def test_address_without_a_listener_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    exchange = Exchange(f"http://127.0.0.1:{port}", None, "", new_socket, 5.0)
    with pytest.raises(ConnectionRefusedError):
        await exchange.send("GET", "/", {}, None)


def test_calls_work_on_uvloop() -> None:
    async def script(number: int, request: bytes) -> bytes:
        return OK

    async def twice() -> list[bytes]:
        async with serving(script) as exchange:
            return [(await exchange.send("GET", "/", {}, None)).body for _ in range(2)]

    assert uvloop.run(twice()) == [b"ok", b"ok"]


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_permitted_request_reaches_the_operating_system_at_once(
    run: Callable[[Coroutine[Any, Any, Answer]], Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in a later turn of the loop, before which the process may be stopped."""
    ask = _Line.ask
    seen: list[bytes] = []

    with socket.create_server(("127.0.0.1", 0)) as listener:

        def ask_and_look(line: _Line, request: bytes) -> asyncio.Future[Answer]:
            waiting = ask(line, request)
            there, _ = listener.accept()
            with there:
                there.settimeout(60)
                seen.append(there.recv(65536))
                there.sendall(OK)
            return waiting

        monkeypatch.setattr(_Line, "ask", ask_and_look)

        async def call() -> Answer:
            exchange = Exchange(f"http://127.0.0.1:{listener.getsockname()[1]}", None, "", new_socket, 60.0)
            return await exchange.send("POST", "/", {}, b"{}")

        assert run(call()).body == b"ok"
    assert seen[0].endswith(b"{}")
