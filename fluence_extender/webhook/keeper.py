"""Keeps certificate and registration as they should be, by level: look, compare, write what differs, every few seconds.

Order of a look: first the registration, then the authority. Whoever changes the authority writes it before the
registration, so a replica that saw a registration sees an authority at least as new, and never puts back an older
bundle (its write carries the version it has read). Invariant: an object under our name that isn't ours is told of and
left alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import structlog

from fluence_extender.cluster.backoff import jittered
from fluence_extender.cluster.port import ClusterError, Conflict, Denied, Objects
from fluence_extender.model.names import WEBHOOK_NAME
from fluence_extender.webhook.identity import Identity, NoIdentity, Source
from fluence_extender.webhook.registration import (
    OWNER,
    OWNER_LABEL,
    PATH,
    Target,
    corrected,
    is_ours,
    registered_bundle,
    registration,
)

log = structlog.get_logger(__name__)

PERIOD = 5.0
"""Seconds between two looks; somebody else's edit lasts no longer."""
STARTING = 0.2
"""Seconds between two looks while the webhook can't serve yet."""


class Keeper:
    """``install`` is called with each new identity; ``may_register`` says whether the webhook can serve.

    ``problem`` is why the webhook isn't registered as it should be, "" when it is; ``registered`` is true from the
    first time on that it was; ``looks`` counts.
    """

    def __init__(
        self,
        objects: Objects,
        source: Source,
        target: Target,
        install: Callable[[Identity], None],
        may_register: Callable[[], bool],
        period: float = PERIOD,
    ) -> None:
        self.looks = 0
        self.registered = False
        self.problem = "not registered yet"
        self.identity: Identity | None = None
        self._objects = objects
        self._source = source
        self._target = target
        self._install = install
        self._may_register = may_register
        self._period = period
        self._trusted = b""

    async def run(self) -> None:
        """Look and mend until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(jittered(self._period) if self._may_register() else STARTING)

    async def look(self) -> None:
        """Look once and mend what differs. Doesn't raise for what the API server answers."""
        self.looks += 1
        try:
            stored = await self._objects.read(PATH)
        except ClusterError as error:
            # Without an identity that is told; one problem at a time, so that each is told once.
            if await self._identify():
                self._tell(str(error))
            return
        self._trusted = registered_bundle(stored)
        if not await self._identify() or not self._may_register():
            return
        try:
            await self._register(stored)
        except Conflict:
            # Somebody was first; the next look sees what they wrote.
            return
        except ClusterError as error:
            self._tell(str(error))

    async def _identify(self) -> bool:
        """Have an identity; whether there is one."""
        try:
            identity = await self._source.identity(self._trusted)
        except NoIdentity as error:
            self._tell(f"there is no certificate to serve with: {error}")
            return False
        if self.identity is None or identity.certificate != self.identity.certificate:
            self._install(identity)
        self.identity = identity
        return True

    async def _register(self, stored: dict[str, Any] | None) -> None:
        assert self.identity is not None
        wanted = registration(self._target, self.identity.bundle)
        if stored is None:
            try:
                await self._objects.create(PATH, wanted)
            except Denied as error:
                made = "`kubectl apply -k deploy/webhook` makes the MutatingWebhookConfiguration"
                raise Denied(f"{error}. {made}", 403) from error
            log.info("the webhook is registered", name=WEBHOOK_NAME)
        elif not is_ours(stored):
            self._tell(
                f"there is a MutatingWebhookConfiguration {WEBHOOK_NAME} that isn't ours (it lacks the label "
                f"{OWNER_LABEL}={OWNER}): remove it or give it the label"
            )
            return
        elif (correction := corrected(stored, wanted)) is not None:
            await self._objects.replace(PATH, correction)
            log.info("the registration is brought up to date", name=WEBHOOK_NAME)
        self.registered = True
        self._tell("")

    def _tell(self, problem: str) -> None:
        if problem and problem != self.problem:
            log.error("the webhook isn't registered as it should be", problem=problem)
        self.problem = problem
