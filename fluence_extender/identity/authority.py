"""The certificate authority that all replicas share in a Secret: which authorities are trusted, and which one signs.

The Secret holds ``ca.crt``, a bundle whose first certificate is the authority in use and whose others were in use
before, and ``ca.key``, the key of the first. Each replica signs a certificate of its own with it.

Invariants: two replicas that decide on the same Secret at the same time decide the same, or one of them writes first. A
replaced authority stays trusted for a day, so no certificate that it signed is refused while a replica still shows it.
A new certificate is shown only once the API server trusts its authority, unless it doesn't trust the current
certificate anyway.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog
from cryptography import x509

from fluence_extender.cluster.errors import ClusterError, Conflict, Denied
from fluence_extender.cluster.port import Json, Objects
from fluence_extender.identity.certificates import (
    AUTHORITY_NAME,
    SKEW,
    BadCertificate,
    KeyPair,
    make_authority,
    make_leaf,
    may_sign,
    pem,
    read_bundle,
    read_pair,
    renewal_due,
    signed_by,
)
from fluence_extender.identity.registration import OWNER, OWNER_LABEL, Identity, NoIdentity, is_ours

log = structlog.get_logger(__name__)

SECRET = "fluence-webhook-ca"
BUNDLE = "ca.crt"
KEY = "ca.key"
TRIES = 5
"""The number of immediate repetitions of a write after another replica's write."""
OVERLAP = timedelta(days=1)
"""How long an authority is trusted after another took its place."""


class BrokenAuthority(Exception):
    """The Secret's content can't be used; the text says why."""


@dataclass(frozen=True, slots=True)
class Authority:
    """The authority that signs, and those that signed before and are still trusted."""

    current: KeyPair
    former: tuple[x509.Certificate, ...] = ()

    @property
    def bundle(self) -> bytes:
        """All authorities that the API server has to trust, in PEM, the current one first."""
        return b"".join(pem(one) for one in (self.current.certificate, *self.former))

    def data(self) -> dict[str, str]:
        """Return the content of the Secret."""
        return {
            BUNDLE: base64.b64encode(self.bundle).decode(),
            KEY: base64.b64encode(self.current.key_pem).decode(),
        }


def read_authority(data: Mapping[str, str] | None, now: datetime) -> Authority | None:
    """Return the authority in the ``data`` of a Secret, None if it is empty. Raises `BrokenAuthority`."""
    if not data or not any(data.get(key) for key in (BUNDLE, KEY)):
        return None
    try:
        bundle, key = (base64.b64decode(data.get(name) or "", validate=True) for name in (BUNDLE, KEY))
        certificates = read_bundle(bundle)
        current = read_pair(certificates[0], key)
    except (BadCertificate, ValueError) as error:
        raise BrokenAuthority(str(error)) from None
    if not may_sign(current.certificate):
        raise BrokenAuthority("its first certificate doesn't belong to an authority")
    if now >= current.certificate.not_valid_after_utc:
        raise BrokenAuthority(f"it expired on {current.certificate.not_valid_after_utc:%Y-%m-%d}")
    return Authority(current, certificates[1:])


def wanted_authority(
    stored: Authority | None, held: Authority | None, emptied: bool, now: datetime
) -> Authority:
    """Return the authority that the Secret should hold: ``stored`` itself if nothing has to change.

    ``stored`` is None if the Secret holds nothing usable. In this case the authority that this replica ``held`` is
    restored; a replica without one makes a new authority. An ``emptied`` Secret asks for a new authority.
    """
    known = stored or held
    if known is None:
        return Authority(make_authority(now))
    if renewal_due(known.current.certificate, now) or (stored is None and emptied):
        before = (known.current.certificate, *known.former)
        return Authority(make_authority(now), _unexpired(before, now))
    if stored is None:
        return known
    former = known.former
    if _made_by_us(known.current.certificate) and _overlap_is_over(known.current.certificate, now):
        former = ()
    former = _unexpired(former, now)
    return known if former == known.former else Authority(known.current, former)


def _unexpired(certificates: tuple[x509.Certificate, ...], now: datetime) -> tuple[x509.Certificate, ...]:
    return tuple(one for one in certificates if now < one.not_valid_after_utc)


def _overlap_is_over(current: x509.Certificate, now: datetime) -> bool:
    return now >= current.not_valid_before_utc + SKEW + OVERLAP


def _made_by_us(certificate: x509.Certificate) -> bool:
    """Return whether we made the authority. One that an administrator brought may be older than its use here."""
    return certificate.subject.rfc4514_string() == f"CN={AUTHORITY_NAME}"


class SharedAuthority:
    """Certificates for ``hosts``, signed by the authority in ``secret`` of ``namespace``.

    ``folder`` is the part of the deployment that creates the Secret.
    """

    def __init__(
        self,
        objects: Objects,
        namespace: str,
        hosts: Sequence[str],
        clock: Callable[[], datetime],
        secret: str = SECRET,
        folder: str = "deploy/webhook",
    ) -> None:
        self._objects = objects
        self._namespace = namespace
        self._secret = secret
        self._folder = folder
        self._path = f"/api/v1/namespaces/{namespace}/secrets/{secret}"
        self._hosts = tuple(hosts)
        self._clock = clock
        self._held: Authority | None = None
        self._leaf: KeyPair | None = None
        self._fault = ""

    async def identity(self, trusted: bytes) -> Identity:
        """Return a certificate signed by the shared authority. Raises `NoIdentity`.

        An authority that can't be stored isn't used. While the Secret can't be read, the last authority counts.
        """
        try:
            self._held = await self._shared()
            self._report("")
        except ClusterError as error:
            self._report(str(error))
            if self._held is None:
                raise NoIdentity(str(error)) from error
        leaf = self._leaf = self._leaf_for(self._held, trusted)
        expires = leaf.certificate.not_valid_after_utc
        return Identity(leaf.certificate_pem, leaf.key_pem, self._held.bundle, expires, self._fault)

    async def _shared(self) -> Authority:
        """Return the authority that all replicas have, after making or mending it. Raises `ClusterError`."""
        for _ in range(TRIES):
            stored = await self._objects.read(self._path)
            with suppress(Conflict):
                return await self._settle(stored)
        raise Conflict(f"Secret {self._namespace}/{self._secret} is written by others all the time", 409)

    async def _settle(self, stored: Json | None) -> Authority:
        now = self._clock()
        if stored is not None and not is_ours(stored):
            raise ClusterError(
                f"Secret {self._namespace}/{self._secret} isn't ours (it lacks the label {OWNER_LABEL}={OWNER}): "
                "remove it or give it the label"
            )
        found, broken = _read(stored, now)
        emptied = stored is not None and not broken
        wanted = wanted_authority(found, self._held, emptied, now)
        if wanted is found:
            return wanted
        if broken:
            log.error("the shared authority is broken and is replaced", secret=self._secret, problem=broken)
        try:
            await self._write(stored, wanted)
        except Denied as error:
            raise Denied(f"{error}. `kubectl apply -k {self._folder}` makes the Secret", 403) from error
        log.info("the shared authority is written", secret=self._secret, former=len(wanted.former))
        return wanted

    async def _write(self, stored: Json | None, wanted: Authority) -> None:
        if stored is None:
            metadata = {"name": self._secret, "namespace": self._namespace, "labels": {OWNER_LABEL: OWNER}}
            secret = {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": metadata}
            await self._objects.create(self._path, {**secret, "data": wanted.data()})
        else:
            await self._objects.replace(self._path, {**stored, "data": wanted.data()})

    def _leaf_for(self, authority: Authority, trusted: bytes) -> KeyPair:
        """Return the certificate to show: the last one while it may stay, otherwise a new one."""
        leaf, now = self._leaf, self._clock()
        current, trusted_now = authority.current.certificate, _certificates(trusted)
        if leaf is not None:
            if signed_by(leaf.certificate, current):
                if not renewal_due(leaf.certificate, now):
                    return leaf
            elif current not in trusted_now and any(signed_by(leaf.certificate, one) for one in trusted_now):
                # The API server trusts the old authority and doesn't trust the new one yet.
                return leaf
            log.info("the server shows a new certificate", hosts=self._hosts)
        return make_leaf(authority.current, self._hosts, now)

    def _report(self, fault: str) -> None:
        if fault and fault != self._fault:
            log.error("the shared authority can't be read or written", secret=self._secret, problem=fault)
        self._fault = fault


def _read(stored: Json | None, now: datetime) -> tuple[Authority | None, str]:
    """Return the usable authority in a Secret, and the problem of its content."""
    if stored is None:
        return None, ""
    try:
        return read_authority(stored.get("data"), now), ""
    except BrokenAuthority as error:
        return None, str(error)


def _certificates(bundle: bytes) -> tuple[x509.Certificate, ...]:
    try:
        return read_bundle(bundle)
    except BadCertificate:
        return ()
