"""The certificate that the server shows, and the authorities that clients have to trust for it.

It is either made by us (`authority.SharedAuthority`), or it comes as files that cert-manager or an
administrator renews.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Protocol

import structlog

from fluence_extender.identity.certificates import BadCertificate, names_of, read_bundle, read_pair

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Identity:
    """A server's certificate with its key, both in PEM, and the bundle of authorities to trust for it.

    ``expires`` is when the certificate expires. ``fault`` is the problem of the Secret or the files, "" for none.
    """

    certificate: bytes
    key: bytes
    bundle: bytes
    expires: datetime
    fault: str = ""


class NoIdentity(Exception):
    """There is no certificate to serve with yet; the text says why."""


class IdentitySource(Protocol):
    """Where an identity comes from."""

    async def identity(self, trusted: bytes) -> Identity:
        """Return the identity to use now. Raises `NoIdentity`.

        ``trusted`` is the bundle that the API server had at the last look.
        """
        ...


class CertificateFiles:
    """``tls.crt``, ``tls.key`` and ``ca.crt`` in a folder, as a mounted Secret has them, read again each time."""

    def __init__(self, folder: Path, hosts: Sequence[str]) -> None:
        self._folder = folder
        self._hosts = frozenset(hosts)
        self._last: Identity | None = None
        self._fault = ""

    async def identity(self, trusted: bytes) -> Identity:
        """Return the identity in the files. Files that can't be used (halfway through a renewal) leave the last one."""
        try:
            self._last, self._fault = self._read(), ""
        except (OSError, BadCertificate) as error:
            fault = f"the certificates in {self._folder} can't be used: {error}"
            if fault != self._fault:
                log.error("the last certificates stay in use", problem=fault)
            self._fault = fault
            if self._last is None:
                raise NoIdentity(fault) from error
            return replace(self._last, fault=fault)
        return self._last

    def _read(self) -> Identity:
        chain, key, bundle = ((self._folder / name).read_bytes() for name in ("tls.crt", "tls.key", "ca.crt"))
        leaf = read_bundle(chain)[0]
        read_pair(leaf, key)
        read_bundle(bundle)
        if not self._hosts & names_of(leaf):
            raise BadCertificate(f"tls.crt is for none of {', '.join(sorted(self._hosts))}")
        return Identity(chain, key, bundle, leaf.not_valid_after_utc)
