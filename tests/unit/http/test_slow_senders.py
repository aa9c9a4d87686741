"""Senders that take their time are cut, and bodies and connections are bounded, so that others are served."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from starlette.types import Message, Receive, Scope, Send

from fluence_extender.http.listeners import serving
from fluence_extender.http.listeners.bodies import TEXT, Bodies, RequestRefused, refuse, respond
from fluence_extender.http.listeners.serving import Address, listen, uvicorn_server

HEAD = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


class Answering:
    """Answers each body with its length."""

    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = await self._bodies.posted_json(scope, receive, "this")
        except RequestRefused as error:
            await refuse(send, error.status, str(error))
            return
        await respond(send, 200, TEXT, str(len(body)).encode())


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Site:
    """A server that listens on ``port``, and the connections to it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._writers: list[asyncio.StreamWriter] = []

    async def connected(self, *parts: bytes) -> Connection:
        """Open a connection and send something."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers.append(writer)
        for part in parts:
            writer.write(part)
            await writer.drain()
        return reader, writer

    async def close(self) -> None:
        """Close all connections."""
        for writer in self._writers:
            writer.close()
        for writer in self._writers:
            with suppress(OSError):
                await writer.wait_closed()


@asynccontextmanager
async def served(bodies: Bodies, most: int | None = None) -> AsyncIterator[Site]:
    """Serve what answers with the lengths of bodies."""
    server = uvicorn_server(Answering(bodies), most_connections=most)
    with listen(Address("127.0.0.1", 0)) as opened:
        await server.startup(sockets=[opened])
        site = Site(opened.getsockname()[1])
        try:
            yield site
        finally:
            await site.close()
            await server.shutdown(sockets=[opened])


async def rest(connection: Connection) -> bytes:
    """Return what comes until the connection is closed."""
    try:
        return await asyncio.wait_for(connection[0].read(), 20)
    except ConnectionResetError:
        return b""


def whole(body: bytes) -> bytes:
    return HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def begun(length: int, body: bytes = b"") -> bytes:
    return HEAD + b"Content-Length: %d\r\n\r\n" % length + body


async def test_head_that_does_not_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "HEAD_TIMEOUT", 0.3)
    async with served(Bodies()) as site:
        slow = await site.connected(b"POST / HTTP/1.1\r\nX-A: ")
        sending = asyncio.create_task(dripping(slow[1]))
        assert await rest(slow) == b""
        sending.cancel()
        assert b"200 OK" in await rest(await site.connected(whole(b"1")))


async def dripping(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"a")
        await asyncio.sleep(0.05)


async def test_connection_without_a_request_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "KEEP_ALIVE", 0.3)
    async with served(Bodies()) as site:
        assert await rest(await site.connected()) == b""


async def test_head_that_is_too_long_is_cut() -> None:
    async with served(Bodies()) as site:
        long = await site.connected(b"POST / HTTP/1.1\r\n")
        for _ in range(200):
            long[1].write(b"X-A: %s\r\n" % (b"a" * 1000))
        assert await rest(long) == b""


async def test_request_that_is_slow_after_its_head_is_not_cut_by_the_limit_of_heads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serving, "HEAD_TIMEOUT", 0.1)
    async with served(Bodies()) as site:
        connection = await site.connected(HEAD + b"Connection: close\r\nContent-Length: 2\r\n\r\na")
        await asyncio.sleep(0.4)
        connection[1].write(b"b")
        assert (await rest(connection)).endswith(b"\r\n\r\n2")


async def test_beyond_its_connections_a_listener_cuts_the_one_that_waits_longest() -> None:
    async with served(Bodies(), most=3) as site:
        idle = [await site.connected() for _ in range(3)]
        await asyncio.sleep(0.05)
        assert b"200 OK" in await rest(await site.connected(whole(b"1")))
        assert await rest(idle[0]) == b""
        idle[2][1].write(whole(b"12"))
        assert (await rest(idle[2])).endswith(b"\r\n\r\n2")


async def test_body_that_does_not_arrive_in_time_is_refused() -> None:
    async with served(Bodies(limit=0.2)) as site:
        answer = await rest(await site.connected(begun(100, b"x")))
        assert b"408 Request Timeout" in answer
        assert b"the body didn't arrive within 0.2 seconds" in answer


async def test_slow_bodies_give_way_to_others() -> None:
    async with served(Bodies(most=4, limit=60)) as site:
        slow = [await site.connected(begun(100, b"x")) for _ in range(4)]
        await asyncio.sleep(0.05)
        assert b"200 OK" in await rest(await site.connected(whole(b"1")))
        answer = await rest(slow[0])
        assert b"408 Request Timeout" in answer
        assert b"others needed the room" in answer


async def test_bytes_of_bodies_are_bounded_in_all() -> None:
    bodies = Bodies(largest=1000, room=2500)
    arriving: list[asyncio.Queue[Message]] = [asyncio.Queue() for _ in range(4)]
    reads = [asyncio.create_task(bodies.read(one.get)) for one in arriving]
    for one in arriving:
        one.put_nowait({"type": "http.request", "body": b"a" * 900, "more_body": True})
        await asyncio.sleep(0.01)
    for one in arriving[2:]:
        one.put_nowait({"type": "http.request", "body": b"b"})
    results = await asyncio.gather(*reads, return_exceptions=True)
    assert [type(one) for one in results] == [RequestRefused, RequestRefused, bytes, bytes]


async def test_bodies_that_are_answered_take_from_the_room() -> None:
    bodies = Bodies(largest=1000, room=2500)
    bodies.held = 2500
    queue: asyncio.Queue[Message] = asyncio.Queue()
    reading = asyncio.create_task(bodies.read(queue.get))
    queue.put_nowait({"type": "http.request", "body": b"a" * 900, "more_body": True})
    with pytest.raises(RequestRefused, match="others needed the room"):
        await reading
    bodies.held = 0
    queue.put_nowait({"type": "http.request", "body": b"a" * 900})
    assert len(await bodies.read(queue.get)) == 900


async def test_rest_of_a_refused_body_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "HEAD_TIMEOUT", 0.3)
    async with served(Bodies(largest=10)) as site:
        slow = await site.connected(begun(100, b"x"))
        sending = asyncio.create_task(dripping(slow[1]))
        assert b"413 Request Entity Too Large" in await slow[0].readline()
        await rest(slow)
        sending.cancel()
