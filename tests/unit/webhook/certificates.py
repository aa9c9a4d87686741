"""Helpers for tests of certificates: a clock that tests move, and TLS connections that check trust."""

from __future__ import annotations

import socket
import ssl
from datetime import UTC, datetime, timedelta

from cryptography import x509

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


class Clock:
    """Says what it is set to."""

    def __init__(self, now: datetime = BEGIN) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def forward(self, **by: float) -> None:
        self.now += timedelta(**by)


def shaken(server: ssl.SSLContext, bundle: bytes, host: str) -> bytes:
    """Return the certificate that a client which trusts ``bundle`` is shown. Raises `ssl.SSLError`."""
    client = ssl.create_default_context(cadata=bundle.decode())
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(to_client, to_server, server_hostname=host)
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    done: set[int] = set()
    for _ in range(10):
        for one in (ours, theirs):
            try:
                one.do_handshake()
                done.add(id(one))
            except ssl.SSLWantReadError:
                continue
        if len(done) == 2:
            shown = ours.getpeercert(binary_form=True)
            assert shown is not None
            return shown
    raise AssertionError("the handshake didn't end")


def shown_by(port: int, bundle: bytes, host: str = "127.0.0.1") -> bytes:
    """Return the certificate that a listener on loopback shows to a client that trusts ``bundle``.

    Raises `ssl.SSLError`.
    """
    client = ssl.create_default_context(cadata=bundle.decode())
    with (
        socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
        client.wrap_socket(plain, server_hostname=host) as secure,
    ):
        shown = secure.getpeercert(binary_form=True)
        assert shown is not None
        return shown


def names_of(certificate: x509.Certificate) -> set[str]:
    """Return the host names and addresses that a certificate is for."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    hosts = found.get_values_for_type(x509.DNSName)
    return {*hosts, *(str(address) for address in found.get_values_for_type(x509.IPAddress))}
