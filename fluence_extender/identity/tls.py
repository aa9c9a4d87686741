"""The TLS context of a server: the certificate that it shows, and the authority whose clients it recognizes.

Invariant: a new certificate disturbs neither open connections nor handshakes under way; each handshake that begins
afterwards shows it.
"""

from __future__ import annotations

import ssl
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from fluence_extender.identity.certificates import make_authority, make_leaf

PLACEHOLDER = "not-ready.invalid"
"""The name in the certificate that is shown until there is a real one. No client trusts it; probes don't check."""


def tls_context() -> ssl.SSLContext:
    """Return a context to serve with. It shows a certificate that no client trusts until `show_certificate`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # The server speaks nothing newer.
    context.set_alpn_protocols(["http/1.1"])
    now = datetime.now(UTC)
    leaf = make_leaf(make_authority(now), [PLACEHOLDER], now)
    show_certificate(context, leaf.certificate_pem, leaf.key_pem)
    return context


def show_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Show this certificate (PEM, with its chain) from now on. Raises `ssl.SSLError` if the key isn't its own.

    OpenSSL reads them from files only, so they are in a private folder while it reads.
    """
    with tempfile.TemporaryDirectory(prefix="fluence-") as folder:
        files = Path(folder) / "tls.crt", Path(folder) / "tls.key"
        for file, content in zip(files, (certificate, key), strict=True):
            file.touch(mode=0o600)
            file.write_bytes(content)
        context.load_cert_chain(*files)


def recognize_clients(context: ssl.SSLContext, authorities: str) -> None:
    """Let clients show a certificate of these authorities (PEM) from now on; none has to.

    OpenSSL adds authorities and removes none, so a user of the certificate still has to compare its issuer with the
    authorities in force.
    """
    context.load_verify_locations(cadata=authorities)
    context.verify_mode = ssl.CERT_OPTIONAL
