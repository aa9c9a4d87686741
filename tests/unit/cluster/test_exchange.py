"""Calls on raw connections to a scripted server."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop

from fluence_extender.cluster.exchange import Exchange

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
Script = Callable[[int, bytes], Awaitable[bytes]]
"""What the server sends, given the number of the connection and the request; b"" hangs up."""


def new_socket(address: tuple[Any, ...]) -> socket.socket:
    return socket.socket(*address[:3])


@asynccontextmanager
async def serving(script: Script) -> AsyncIterator[Exchange]:
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

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    exchange = Exchange(f"http://127.0.0.1:{port}/below", None, "", new_socket, 5.0)
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


async def test_connection_whose_call_was_given_up_is_not_used_again() -> None:
    async def script(number: int, request: bytes) -> bytes:
        if number == 1:
            await asyncio.sleep(0.2)
        return b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%d" % number

    async with serving(script) as exchange:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await exchange.send("GET", "/slow", {}, None)
        assert (await exchange.send("GET", "/", {}, None)).body == b"2"


async def test_server_that_hangs_up_before_its_answer_is_told_apart() -> None:
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


async def test_answer_in_parts_after_an_interim_one_is_whole() -> None:
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


async def test_address_where_nobody_listens_is_an_error() -> None:
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
