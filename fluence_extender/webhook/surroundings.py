"""What handlers need to know of the cluster, kept up to date and handed out as one value.

Invariant: a `Context` is whole or not there: before everything in it has been found out once, `missing` says what isn't
known yet. What can't be asked for later stays as it was.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

import structlog

from fluence_extender.cluster.backoff import jittered
from fluence_extender.cluster.port import ClusterError, Denied, Kind, Listed, Observation
from fluence_extender.graph.virtual import VirtualResources
from fluence_extender.model.coordination import CONSUMER_PRIORITY_CLASS
from fluence_extender.model.names import RESOURCES_KEY
from fluence_extender.webhook.contract import Context, GroupKind, Json
from fluence_extender.webhook.namesakes import Namesakes

log = structlog.get_logger(__name__)

GATE_POLICY = "fluence-gate"
ADMISSION_POLICIES = "/apis/admissionregistration.k8s.io/v1"
POLICY = f"{ADMISSION_POLICIES}/mutatingadmissionpolicies/{GATE_POLICY}"
POLICY_BINDING = f"{ADMISSION_POLICIES}/mutatingadmissionpolicybindings/{GATE_POLICY}"
PRIORITY_CLASS = f"/apis/scheduling.k8s.io/v1/priorityclasses/{CONSUMER_PRIORITY_CLASS}"

PERIOD = 10.0
"""Seconds between two looks at what isn't watched."""


class Reader(Protocol):
    """Reads objects by path; see `cluster.objects.ApiObjects`."""

    async def read(self, path: str) -> Json | None:
        """The object, None where there is none. Raises `ClusterError`."""
        ...


class Surroundings:
    """``context`` is the newest one, beginning with ``initial``.

    ``own_pod`` is the path of the pod that we are in, "" where that doesn't matter: its image is that of sidecars, so
    that an overlay names one image only.
    """

    def __init__(self, reader: Reader, initial: Context, own_pod: str = "") -> None:
        self.context = initial
        self._own_pod = own_pod
        self._reader = reader
        self._served: dict[Kind, bool] = {}
        self._looked = False
        self._namesakes = Namesakes()
        self._listed_resources = False

    @property
    def missing(self) -> str:
        """What isn't known yet, "" once everything is."""
        unknown = [
            RESOURCES_KEY if not self._listed_resources else "",
            "which PodGroups are served" if len(self._served) < 2 else "",
            "whether an admission policy adds the gate" if not self._looked else "",
        ]
        told = ", ".join(filter(None, unknown))
        return f"it isn't known yet: {told}" if told else ""

    def adopt(self, resources: VirtualResources) -> None:
        """Use these resources from now on."""
        self._listed_resources = True
        self.context = replace(self.context, resources=resources)

    def take(self, seen: Observation) -> None:
        """Learn from the lists of PodGroups whether there are such things, and from pods who goes by which name."""
        if self._namesakes.take(seen):
            found = self._namesakes
            self.context = replace(self.context, producers=found.of_producers, namesakes=found.of_others)
        if isinstance(seen, Listed) and seen.kind in (Kind.POD_GROUP, Kind.COSCHEDULING_GROUP):
            self._served[seen.kind] = seen.served
            self.context = replace(self.context, groups=self._groups())

    def _groups(self) -> GroupKind:
        if self._served.get(Kind.POD_GROUP):
            return GroupKind.NATIVE
        return GroupKind.COSCHEDULING if self._served.get(Kind.COSCHEDULING_GROUP) else GroupKind.NONE

    async def run(self) -> None:
        """Look now and then, until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(jittered(PERIOD) if self._looked else 1.0)

    async def look(self) -> None:
        """Find out what isn't watched. Doesn't raise for what the API server answers."""
        try:
            gated = await self._is_there(POLICY) and await self._is_there(POLICY_BINDING)
            classed = await self._is_there(PRIORITY_CLASS)
            if not self._looked and self._own_pod:
                await self._learn_image()
        except ClusterError as error:
            log.warning("the cluster can't be asked", problem=str(error))
            return
        found = replace(self.context, gate_by_webhook=not gated, priority_class=classed)
        if not self._looked or gated is self.context.gate_by_webhook:
            log.info("who adds the gate", webhook=not gated)
        self._looked = True
        self.context = found

    async def _learn_image(self) -> None:
        with suppress(Denied):
            if pod := await self._reader.read(self._own_pod):
                image = pod["spec"]["containers"][0]["image"]
                self.context = replace(self.context, sidecar_image=image)

    async def _is_there(self, path: str) -> bool:
        """Whether there is such an object; one that we may not look at counts as missing, which is always safe."""
        try:
            return await self._reader.read(path) is not None
        except Denied as error:
            log.warning("a right is missing", problem=str(error))
            return False
