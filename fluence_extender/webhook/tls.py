"""The server's TLS, whose certificate can be replaced while it serves.

Invariant: handshakes under way and open connections aren't disturbed by a new certificate; each handshake that begins
after `load` shows it.
"""

from __future__ import annotations

import ssl
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from fluence_extender.webhook.certificates import make_authority, make_leaf

UNKNOWN = "not-ready.invalid"
"""The name in the certificate that is shown until there is a real one; nobody trusts it, and probes don't look."""


def server_context() -> ssl.SSLContext:
    """A context to serve with, under a certificate that nobody trusts, until `load` gives it another."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # The server speaks nothing newer.
    context.set_alpn_protocols(["http/1.1"])
    now = datetime.now(UTC)
    leaf = make_leaf(make_authority(now), [UNKNOWN], now)
    load(context, leaf.certificate_pem, leaf.key_pem)
    return context


def load(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Show this certificate (PEM, with its chain) from now on. Raises `ssl.SSLError` where key and certificate differ.

    OpenSSL reads them from files only: a folder of our own, gone again when they are read.
    """
    with tempfile.TemporaryDirectory(prefix="fluence-webhook-") as folder:
        files = Path(folder) / "tls.crt", Path(folder) / "tls.key"
        for file, content in zip(files, (certificate, key), strict=True):
            file.touch(mode=0o600)
            file.write_bytes(content)
        context.load_cert_chain(*files)
