"""The listener changes its certificate without a restart, and answers open reviews before it stops."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime

import pytest
from starlette.types import Receive, Scope, Send

from fluence_extender.http.listeners.bodies import TEXT, Bodies, respond
from fluence_extender.http.listeners.serving import Address, CannotListen
from fluence_extender.identity.certificates import KeyPair, make_authority, make_leaf
from fluence_extender.identity.tls import show_certificate, tls_context
from fluence_extender.webhook.server import serve_https
from tests.unit.webhook.certificates import shaken, shown_by

LOOPBACK = Address("127.0.0.1", 0)


class Slow:
    """Answers a POST when it is let."""

    def __init__(self) -> None:
        self.requested = asyncio.Event()
        self.let = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await Bodies().posted_json(scope, receive, "slow")
        self.requested.set()
        await self.let.wait()
        await respond(send, 200, TEXT, body)


def pair() -> tuple[KeyPair, KeyPair]:
    """Return an authority and its leaf for loopback."""
    authority = make_authority(datetime.now(UTC))
    return authority, make_leaf(authority, ["127.0.0.1"], datetime.now(UTC))


async def opened(port: int, authority: KeyPair) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    trusting = ssl.create_default_context(cadata=authority.certificate_pem.decode())
    return await asyncio.open_connection("127.0.0.1", port, ssl=trusting)


async def ask(writer: asyncio.StreamWriter, body: bytes) -> None:
    head = (
        f"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    await writer.drain()


async def answered(reader: asyncio.StreamReader, body: bytes) -> bytes:
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20)
    assert await asyncio.wait_for(reader.readexactly(len(body)), 20) == body
    return head


def test_first_certificate_is_trusted_by_no_client() -> None:
    authority, _ = pair()
    with pytest.raises(ssl.SSLCertVerificationError):
        shaken(tls_context(), authority.certificate_pem, "not-ready.invalid")


def test_key_of_another_certificate_leaves_the_old_certificate() -> None:
    context = tls_context()
    authority, leaf = pair()
    show_certificate(context, leaf.certificate_pem, leaf.key_pem)
    with pytest.raises(ssl.SSLError):
        show_certificate(context, leaf.certificate_pem, pair()[1].key_pem)
    show_certificate(context, leaf.certificate_pem, leaf.key_pem)
    assert shaken(context, authority.certificate_pem, "127.0.0.1")


async def test_new_certificate_needs_no_restart_and_open_connections_last() -> None:
    slow, context = Slow(), tls_context()
    slow.let.set()
    first, leaf = pair()
    show_certificate(context, leaf.certificate_pem, leaf.key_pem)
    async with serve_https(slow, LOOPBACK, context) as address:
        port = address.port
        reader, writer = await opened(port, first)
        await ask(writer, b"1")
        await answered(reader, b"1")

        second, other = pair()
        show_certificate(context, other.certificate_pem, other.key_pem)
        shown = await asyncio.to_thread(shown_by, port, second.certificate_pem)
        assert shown == ssl.PEM_cert_to_DER_cert(other.certificate_pem.decode())
        with pytest.raises(ssl.SSLCertVerificationError):
            await asyncio.to_thread(shown_by, port, first.certificate_pem)
        await ask(writer, b"2")
        await answered(reader, b"2")
        writer.close()


async def test_open_reviews_are_answered_when_it_stops() -> None:
    slow, context = Slow(), tls_context()
    authority, leaf = pair()
    show_certificate(context, leaf.certificate_pem, leaf.key_pem)
    async with serve_https(slow, LOOPBACK, context) as address:
        reader, writer = await opened(address.port, authority)
        await ask(writer, b"last")
        await asyncio.wait_for(slow.requested.wait(), 20)
        asyncio.get_running_loop().call_later(0.3, slow.let.set)
    head = await answered(reader, b"last")
    assert head.startswith(b"HTTP/1.1 200")
    with pytest.raises(OSError):
        await opened(address.port, authority)
    writer.close()


async def test_address_in_use_is_reported() -> None:
    context = tls_context()
    async with serve_https(Slow(), LOOPBACK, context) as address:
        taken = Address("127.0.0.1", address.port)
        with pytest.raises(CannotListen, match=str(taken.port)):
            async with serve_https(Slow(), taken, context):
                pass
