"""A server knows a client by the certificate that it shows, if its authority is recognized."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID
from starlette.types import Receive, Scope, Send

from fluence_extender.http.listeners.bodies import TEXT, respond
from fluence_extender.http.listeners.serving import PEER, Address
from fluence_extender.identity.certificates import KeyPair, make_authority, make_leaf
from fluence_extender.identity.tls import recognize_clients, show_certificate, tls_context
from fluence_extender.webhook.server import serve_https
from tests.localcluster.credentials import LocalAuthority


async def named(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the certificate that the client has shown."""
    shown = scope["state"].get(PEER)
    names = x509.load_der_x509_certificate(shown).subject if shown else None
    name = names.get_attributes_for_oid(NameOID.COMMON_NAME)[0].rfc4514_string() if names else "none"
    await respond(send, 200, TEXT, name.encode())


@pytest.fixture
def ours() -> KeyPair:
    return make_authority(datetime.now(UTC))


@pytest.fixture
def clients(tmp_path: Path) -> LocalAuthority:
    (tmp_path / "clients").mkdir()
    return LocalAuthority(tmp_path / "clients")


@pytest.fixture
async def address(ours: KeyPair, clients: LocalAuthority) -> AsyncIterator[Address]:
    context = tls_context()
    leaf = make_leaf(ours, ["127.0.0.1"], datetime.now(UTC))
    show_certificate(context, leaf.certificate_pem, leaf.key_pem)
    recognize_clients(context, clients.pem.decode())
    async with serve_https(named, Address("127.0.0.1", 0), context) as serving:
        yield serving


async def asked(address: Address, trusting: ssl.SSLContext) -> bytes:
    """Return the body of each of two answers on one connection, which have to be the same."""
    reader, writer = await asyncio.open_connection("127.0.0.1", address.port, ssl=trusting)
    bodies = []
    for _ in range(2):
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await writer.drain()
        head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20)).lower()
        length = int(head.partition(b"content-length:")[2].split()[0])
        bodies.append(await asyncio.wait_for(reader.readexactly(length), 20))
    writer.close()
    assert bodies[0] == bodies[1]
    return bodies[0]


def trusting(ours: KeyPair, shown: LocalAuthority | None, folder: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=ours.certificate_pem.decode())
    if shown is not None:
        credential = shown.client("kube-apiserver")
        file = folder / "client.pem"
        file.write_bytes(credential.certificate + credential.key)
        context.load_cert_chain(file)
    return context


async def test_client_is_known_by_its_certificate(
    address: Address, ours: KeyPair, clients: LocalAuthority, tmp_path: Path
) -> None:
    assert await asked(address, trusting(ours, clients, tmp_path)) == b"CN=kube-apiserver"


async def test_client_without_a_certificate_is_served_and_known_as_none(
    address: Address, ours: KeyPair, tmp_path: Path
) -> None:
    assert await asked(address, trusting(ours, None, tmp_path)) == b"none"


async def test_certificate_of_another_authority_is_refused(
    address: Address, ours: KeyPair, tmp_path: Path
) -> None:
    (tmp_path / "others").mkdir()
    others = LocalAuthority(tmp_path / "others")
    with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
        await asked(address, trusting(ours, others, tmp_path))
