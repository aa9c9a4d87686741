"""What the server shows of itself, and whom clients are to trust for it.

Either of our own making, by the authority that all replicas share in a Secret, or as files that somebody else renews
(cert-manager, an administrator). Invariant: a new certificate is served only once the API server trusts who signed it,
unless what is served now isn't trusted anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

import structlog

from fluence_extender.cluster.port import ClusterError, Conflict, Denied, Objects
from fluence_extender.webhook.authority import Authority, BrokenAuthority, read_authority, settled
from fluence_extender.webhook.certificates import (
    STANDARD,
    BadCertificate,
    KeyPair,
    Lifetimes,
    make_leaf,
    names_of,
    read_bundle,
    read_pair,
    renewal_due,
    signed_by,
)
from fluence_extender.webhook.contract import Json
from fluence_extender.webhook.registration import OWNER, OWNER_LABEL, is_ours

log = structlog.get_logger(__name__)

SECRET = "fluence-webhook-ca"
TRIES = 5
"""How often a write is tried again at once when somebody else was first."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A server's certificate with its key, both in PEM, and the bundle of whom to trust for it.

    ``expires`` is when the certificate does; ``fault`` is what is wrong with how it is kept, "" when nothing is.
    """

    certificate: bytes
    key: bytes
    bundle: bytes
    expires: datetime
    fault: str = ""


class Source(Protocol):
    """Where an identity comes from."""

    async def identity(self, trusted: bytes) -> Identity:
        """The identity as it should be now; ``trusted`` is the bundle that the API server was last seen to have.

        Raises `NoIdentity`.
        """
        ...


class NoIdentity(Exception):
    """There is nothing to serve with yet; the text says why."""


class SharedAuthority:
    """Certificates for ``hosts``, signed by the authority in the Secret of ``namespace``."""

    def __init__(
        self,
        objects: Objects,
        namespace: str,
        hosts: Sequence[str],
        clock: Callable[[], datetime],
        lifetimes: Lifetimes = STANDARD,
    ) -> None:
        self._objects = objects
        self._namespace = namespace
        self._path = f"/api/v1/namespaces/{namespace}/secrets/{SECRET}"
        self._hosts = tuple(hosts)
        self._clock = clock
        self._lifetimes = lifetimes
        self._held: Authority | None = None
        self._leaf: KeyPair | None = None
        self._fault = ""

    async def identity(self, trusted: bytes) -> Identity:
        """See `Source.identity`. An authority that can't be stored isn't used; one that can't be read is still held."""
        try:
            self._held = await self._shared()
        except ClusterError as error:
            self._tell(str(error))
            if self._held is None:
                raise NoIdentity(str(error)) from error
        leaf = self._leaf = self._leaf_for(self._held, trusted)
        expires = leaf.certificate.not_valid_after_utc
        return Identity(leaf.certificate_pem, leaf.key_pem, self._held.bundle, expires, self._fault)

    async def _shared(self) -> Authority:
        """The authority as all replicas have it, made or mended where need be. Raises `ClusterError`."""
        for _ in range(TRIES):
            stored = await self._objects.read(self._path)
            with suppress(Conflict):
                return await self._settle(stored)
        raise Conflict(f"Secret {self._namespace}/{SECRET} is written by others all the time", 409)

    async def _settle(self, stored: Json | None) -> Authority:
        now = self._clock()
        if stored is not None and not is_ours(stored):
            raise ClusterError(
                f"Secret {self._namespace}/{SECRET} isn't ours (it lacks the label {OWNER_LABEL}={OWNER}): "
                "remove it or give it the label"
            )
        found, broken = _read(stored, now)
        emptied = stored is not None and not broken
        wanted = settled(found, self._held, emptied, now, self._lifetimes)
        if wanted is found:
            self._tell("")
            return wanted
        if broken:
            log.error("the shared authority is broken, it is mended", secret=SECRET, problem=broken)
        try:
            await self._write(stored, wanted)
        except Denied as error:
            raise Denied(f"{error}. `kubectl apply -k deploy/webhook` makes the Secret", 403) from error
        log.info("the shared authority is written", secret=SECRET, former=len(wanted.former))
        self._tell("")
        return wanted

    async def _write(self, stored: Json | None, wanted: Authority) -> None:
        if stored is None:
            metadata = {"name": SECRET, "namespace": self._namespace, "labels": {OWNER_LABEL: OWNER}}
            made = {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": metadata}
            await self._objects.create(self._path, {**made, "data": wanted.data()})
        else:
            await self._objects.replace(self._path, {**stored, "data": wanted.data()})

    def _leaf_for(self, authority: Authority, trusted: bytes) -> KeyPair:
        leaf, now = self._leaf, self._clock()
        current = authority.current.certificate
        if leaf is None:
            return make_leaf(authority.current, self._hosts, now, self._lifetimes)
        signer_trusted = current in _certificates(trusted)
        if signed_by(leaf.certificate, current):
            if not renewal_due(leaf.certificate, now):
                return leaf
        elif not signer_trusted and any(signed_by(leaf.certificate, one) for one in _certificates(trusted)):
            return leaf
        log.info("a new certificate is served", hosts=self._hosts)
        return make_leaf(authority.current, self._hosts, now, self._lifetimes)

    def _tell(self, fault: str) -> None:
        if fault and fault != self._fault:
            log.error("the shared authority can't be kept", secret=SECRET, problem=fault)
        self._fault = fault


class GivenFiles:
    """``tls.crt``, ``tls.key`` and ``ca.crt`` in a folder, as a mounted Secret has them; read anew each time."""

    def __init__(self, folder: Path, hosts: Sequence[str]) -> None:
        self._folder = folder
        self._hosts = frozenset(hosts)
        self._last: Identity | None = None
        self._fault = ""

    async def identity(self, trusted: bytes) -> Identity:
        """See `Source.identity`. Files that can't be used (halfway through a renewal) leave the last ones in force."""
        try:
            self._last, self._fault = self._read(), ""
        except (OSError, BadCertificate) as error:
            told = f"the certificates in {self._folder} can't be used: {error}"
            if told != self._fault:
                log.error("the last certificates stay in force", problem=told)
            self._fault = told
            if self._last is None:
                raise NoIdentity(told) from error
            last = self._last
            return Identity(last.certificate, last.key, last.bundle, last.expires, told)
        return self._last

    def _read(self) -> Identity:
        chain, key, bundle = ((self._folder / name).read_bytes() for name in ("tls.crt", "tls.key", "ca.crt"))
        leaf = read_bundle(chain)[0]
        read_pair(leaf, key)
        read_bundle(bundle)
        missing = self._hosts - names_of(leaf)
        if len(missing) == len(self._hosts):
            raise BadCertificate(f"tls.crt is for none of {', '.join(sorted(self._hosts))}")
        return Identity(chain, key, bundle, leaf.not_valid_after_utc)


def _read(stored: Json | None, now: datetime) -> tuple[Authority | None, str]:
    """What a Secret holds that can be used, and what is broken about it."""
    if stored is None:
        return None, ""
    try:
        return read_authority(stored.get("data"), now), ""
    except BrokenAuthority as error:
        return None, str(error)


def _certificates(bundle: bytes) -> tuple[Any, ...]:
    try:
        return read_bundle(bundle)
    except BadCertificate:
        return ()
