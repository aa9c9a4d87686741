"""The authority that all replicas share, as it stands in a Secret: whom the API server is to trust, and who signs.

The Secret holds ``ca.crt``, a bundle whose first certificate is the authority in force and whose others were before it,
and ``ca.key``, the key of the first. Invariants: whoever decides on the same Secret at the same time comes to the same
state or writes first; an authority that has gone out of force stays trusted for a day, so that no certificate that it
signed is refused while replicas still serve it.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from cryptography import x509

from fluence_extender.webhook.certificates import (
    AUTHORITY_NAME,
    STANDARD,
    BadCertificate,
    KeyPair,
    Lifetimes,
    make_authority,
    may_sign,
    pem,
    read_bundle,
    read_pair,
    renewal_due,
)

BUNDLE = "ca.crt"
KEY = "ca.key"


class BrokenAuthority(Exception):
    """The Secret's content can't be used; the text says why."""


@dataclass(frozen=True, slots=True)
class Authority:
    """Who signs, and who signed before and is still trusted."""

    current: KeyPair
    former: tuple[x509.Certificate, ...] = ()

    @property
    def bundle(self) -> bytes:
        """All that the API server is to trust, in PEM, the one in force first."""
        return b"".join(pem(one) for one in (self.current.certificate, *self.former))

    def data(self) -> dict[str, str]:
        """The content of the Secret."""
        return {
            BUNDLE: base64.b64encode(self.bundle).decode(),
            KEY: base64.b64encode(self.current.key_pem).decode(),
        }


def read_authority(data: Mapping[str, str] | None, now: datetime) -> Authority | None:
    """What the ``data`` of a Secret says, None where it is empty. Raises `BrokenAuthority`."""
    if not data or not any(data.get(key) for key in (BUNDLE, KEY)):
        return None
    try:
        bundle, key = (base64.b64decode(data.get(name) or "", validate=True) for name in (BUNDLE, KEY))
        certificates = read_bundle(bundle)
        current = read_pair(certificates[0], key)
    except (BadCertificate, ValueError) as error:
        raise BrokenAuthority(str(error)) from None
    if not may_sign(current.certificate):
        raise BrokenAuthority("its first certificate isn't an authority's")
    if now >= current.certificate.not_valid_after_utc:
        raise BrokenAuthority(f"it expired on {current.certificate.not_valid_after_utc:%Y-%m-%d}")
    return Authority(current, certificates[1:])


def settled(
    stored: Authority | None,
    held: Authority | None,
    emptied: bool,
    now: datetime,
    lifetimes: Lifetimes = STANDARD,
) -> Authority:
    """What the Secret should hold: ``stored`` itself where nothing is to be done.

    ``stored`` is None where the Secret has nothing that can be used; then what this replica ``held`` is put back, or a
    new authority made where it held none. An ``emptied`` Secret asks for a new authority.
    """
    known = stored or held
    if known is None:
        return Authority(make_authority(now, lifetimes))
    replace = renewal_due(known.current.certificate, now) or (stored is None and emptied)
    if replace:
        before = (known.current.certificate, *known.former)
        return Authority(make_authority(now, lifetimes), _trusted(before, now))
    if stored is None:
        return known
    former = known.former
    if _is_ours(known.current.certificate) and _overlap_is_over(known.current.certificate, now, lifetimes):
        former = ()
    former = _trusted(former, now)
    return known if former == known.former else Authority(known.current, former)


def _trusted(certificates: tuple[x509.Certificate, ...], now: datetime) -> tuple[x509.Certificate, ...]:
    return tuple(one for one in certificates if now < one.not_valid_after_utc)


def _overlap_is_over(current: x509.Certificate, now: datetime, lifetimes: Lifetimes) -> bool:
    return now >= current.not_valid_before_utc + lifetimes.skew + lifetimes.overlap


def _is_ours(certificate: x509.Certificate) -> bool:
    """Whether we made it; one of an administrator's own may be older than its place here."""
    return certificate.subject.rfc4514_string() == f"CN={AUTHORITY_NAME}"
