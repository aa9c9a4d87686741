"""Keep the object by which the API server knows a server of ours: where it is, and which authorities to trust for it.

Each replica checks every few seconds and corrects differences. It reads the object before the authority, and a replica
that changes the authority writes the authority before the object. So a replica that has read an object reads an
authority that is at least as new, and never restores an older bundle (its write carries the version that it read).

Invariant: an object of our name that isn't ours is reported and left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import structlog

from fluence_extender.cluster.errors import ClusterError, Conflict, Denied
from fluence_extender.cluster.pacing import jittered
from fluence_extender.cluster.port import Json, Objects
from fluence_extender.cluster.reconciler import Reconciler

log = structlog.get_logger(__name__)

OWNER_LABEL = "app.kubernetes.io/part-of"
"""Helm puts its own name into managed-by."""
OWNER = "fluence-extender"

PERIOD = 5.0
"""Seconds between two looks; another program's edit lasts no longer."""

SOON = 0.2
"""The same while the server can't serve yet, and after a write that came too late."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The certificate that a server shows, with its key, both in PEM, and the bundle of authorities to trust for it.

    ``expires`` is when the certificate expires. ``fault`` is the problem of the Secret, "" for none.
    """

    certificate: bytes
    key: bytes
    bundle: bytes
    expires: datetime
    fault: str = ""


class NoIdentity(Exception):
    """There is no certificate to serve with yet; the text says why."""


class IdentitySource(Protocol):
    """Where an identity comes from: `authority.SharedAuthority`."""

    async def identity(self, trusted: bytes) -> Identity:
        """Return the identity to use now. Raises `NoIdentity`.

        ``trusted`` is the bundle that the API server had at the last look.
        """
        ...


@dataclass(frozen=True, slots=True)
class RegisteredObject:
    """The object by which the API server knows one server of ours.

    ``server`` names the server in messages; ``folder`` is the part of the deployment that creates the object.
    ``wanted`` makes the object that trusts a bundle. ``corrected`` returns the stored object with what it should have,
    None if it has that already. ``bundle`` returns the bundle that a stored object trusts, b"" if there is none.
    """

    server: str
    kind: str
    name: str
    path: str
    folder: str
    wanted: Callable[[bytes], Json]
    corrected: Callable[[Json, Json], Json | None]
    bundle: Callable[[Json | None], bytes]


def is_ours(stored: Json) -> bool:
    """Return whether the object is ours, so that we may write it."""
    labels = stored.get("metadata", {}).get("labels") or {}
    return bool(labels.get(OWNER_LABEL) == OWNER)


class IdentityReconciler(Reconciler[str]):
    """Keeps a server's certificate and its object as they should be.

    ``install`` is called with each new identity; ``may_register`` returns whether the server can serve. ``problem``
    says why the server isn't registered as it should be, "" if it is. ``registered`` is true once it has been;
    ``looks`` counts the looks.
    """

    def __init__(
        self,
        objects: Objects,
        source: IdentitySource,
        registered: RegisteredObject,
        install: Callable[[Identity], None],
        may_register: Callable[[], bool],
    ) -> None:
        super().__init__("the registration")
        self.looks = 0
        self.registered = False
        self.problem = "not registered yet"
        self.identity: Identity | None = None
        self._objects = objects
        self._source = source
        self._object = registered
        self._install = install
        self._may_register = may_register
        self._trusted = b""
        self.enqueue((registered.name,))

    async def reconcile(self, key: str) -> float:
        """Look once and correct what differs. What the API server refuses becomes the ``problem``."""
        self.looks += 1
        try:
            self._report(await self._look())
        except Conflict:
            # Another writer was faster: another replica, or the API server, which writes an APIService's status each
            # time that it finds something else wrong with it.
            return SOON
        except ClusterError as error:
            self._report(str(error))
        except NoIdentity as error:
            self._report(f"there is no certificate to serve with: {error}")
        return jittered(PERIOD) if self._may_register() else SOON

    async def _look(self) -> str:
        """Return the problem after the look, "" if there is none. Raises `ClusterError`, `NoIdentity`."""
        try:
            stored = await self._objects.read(self._object.path)
        except ClusterError:
            # A lack of a certificate is the more important problem, so it is raised first.
            await self._identify()
            raise
        self._trusted = self._object.bundle(stored)
        identity = await self._identify()
        if not self._may_register():
            return self.problem
        problem = await self._register(stored, identity)
        self.registered = self.registered or not problem
        return problem

    async def _identify(self) -> Identity:
        """Return the current identity, after installing it if it is new. Raises `NoIdentity`."""
        identity = await self._source.identity(self._trusted)
        if self.identity is None or identity.certificate != self.identity.certificate:
            self._install(identity)
        self.identity = identity
        return identity

    async def _register(self, stored: Json | None, identity: Identity) -> str:
        """Write the object if it differs. Return the obstacle, "" if there is none."""
        registered = self._object
        wanted = registered.wanted(identity.bundle)
        if stored is None:
            try:
                await self._objects.create(registered.path, wanted)
            except Denied as error:
                advice = f"`kubectl apply -k {registered.folder}` makes the {registered.kind}"
                raise Denied(f"{error}. {advice}", 403) from error
            log.info("the server is registered", kind=registered.kind, name=registered.name)
        elif not is_ours(stored):
            return (
                f"there is a {registered.kind} {registered.name} that isn't ours (it lacks the label "
                f"{OWNER_LABEL}={OWNER}): remove it or give it the label"
            )
        elif (correction := registered.corrected(stored, wanted)) is not None:
            await self._objects.replace(registered.path, correction)
            log.info("the registration is corrected", kind=registered.kind, name=registered.name)
        return ""

    def _report(self, problem: str) -> None:
        if problem and problem != self.problem:
            log.error(f"{self._object.server} isn't registered as it should be", problem=problem)
        self.problem = problem
