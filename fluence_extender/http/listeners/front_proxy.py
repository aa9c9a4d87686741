"""Who calls through the API server's front proxy (aggregation), by the headers that it sends.

The API server authenticates the user by the credentials in the kubeconfig, and names the user in headers such as
X-Remote-User. A client certificate proves that it is the API server. Anyone can send the headers, so they count only on
a connection with that certificate.

Invariant: a certificate counts only while its issuer is among the authorities in force and its common name is an
allowed one. A certificate of a withdrawn authority doesn't count, even if OpenSSL still accepts it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from cryptography import x509
from cryptography.x509.oid import NameOID

from fluence_extender.identity.certificates import BadCertificate, read_bundle, signed_by
from fluence_extender.model.access import Caller

AUTHORITIES = "requestheader-client-ca-file"

Headers = Iterable[tuple[bytes, bytes]]


class BadFrontProxy(Exception):
    """The published settings can't be used; the text says why."""


@dataclass(frozen=True, slots=True)
class FrontProxy:
    """The front proxy's authorities, the names of its certificates (none: any), and its headers in lower case."""

    authorities: tuple[x509.Certificate, ...]
    names: frozenset[str]
    user_headers: tuple[str, ...]
    uid_headers: tuple[str, ...]
    group_headers: tuple[str, ...]
    extra_prefixes: tuple[str, ...]

    def trusts(self, peer: bytes) -> bool:
        """Return whether a client with this certificate (DER), which the handshake has verified, is the front proxy."""
        try:
            certificate = x509.load_der_x509_certificate(peer)
            names = {
                str(one.value) for one in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
            }
        except ValueError:
            return False
        if self.names and not self.names & names:
            return False
        return any(signed_by(certificate, one) for one in self.authorities)

    def caller(self, headers: Headers) -> Caller | None:
        """Return the user that the headers name, None if they name none."""
        sent: dict[str, list[str]] = {}
        for header, value in headers:
            sent.setdefault(header.decode("latin-1").lower(), []).append(value.decode("utf-8", "replace"))
        name = _first(sent, self.user_headers)
        if not name:
            return None
        groups = tuple(group for one in self.group_headers for group in sent.get(one, ()))
        extra = {
            unquote(one.removeprefix(prefix)): tuple(values)
            for prefix in self.extra_prefixes
            for one, values in sent.items()
            if one.startswith(prefix) and one != prefix
        }
        return Caller(name, groups, _first(sent, self.uid_headers), tuple(sorted(extra.items())))


def read_front_proxy(data: Mapping[str, str]) -> FrontProxy | None:
    """Return the front proxy of the ``data`` that the API server publishes, None if there is none.

    Raises `BadFrontProxy`.
    """
    if not data.get(AUTHORITIES, "").strip():
        return None
    try:
        authorities = read_bundle(data[AUTHORITIES].encode())
    except BadCertificate as error:
        raise BadFrontProxy(f"{AUTHORITIES}: {error}") from None
    return FrontProxy(
        authorities=authorities,
        names=frozenset(_listed(data, "requestheader-allowed-names")),
        user_headers=_headers(data, "requestheader-username-headers"),
        uid_headers=_headers(data, "requestheader-uid-headers"),
        group_headers=_headers(data, "requestheader-group-headers"),
        extra_prefixes=_headers(data, "requestheader-extra-headers-prefix"),
    )


def _listed(data: Mapping[str, str], key: str) -> list[str]:
    try:
        values = json.loads(data.get(key) or "[]")
    except ValueError:
        raise BadFrontProxy(f"{key} isn't JSON") from None
    if not isinstance(values, list) or not all(isinstance(one, str) for one in values):
        raise BadFrontProxy(f"{key} isn't a list of texts")
    return values


def _headers(data: Mapping[str, str], key: str) -> tuple[str, ...]:
    return tuple(one.lower() for one in _listed(data, key))


def _first(sent: Mapping[str, list[str]], headers: Iterable[str]) -> str:
    return next((value for header in headers for value in sent.get(header, ()) if value), "")
