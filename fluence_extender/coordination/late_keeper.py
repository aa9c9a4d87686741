"""Releases consumers as `late` wants it, for as long as it runs. Every replica of the webhook does so.

What another one, or a sidecar, has done already is a success; what fails is asked for again some seconds later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import structlog

from fluence_extender.cluster.port import ClusterError, Gone, Observation
from fluence_extender.cluster.rounds import Rounds, each
from fluence_extender.coordination.late import LateConsumers, Release
from fluence_extender.model.coordination import PRODUCER_SEEN_ANNOTATION
from fluence_extender.model.pod import Pod

log = structlog.get_logger(__name__)

BREATHER = 1.0
"""Seconds in which what comes together is gathered: sidecars are faster, and are left to it."""


class Releases(Protocol):
    """Where consumers are released."""

    async def release(self, pod: Pod, annotations: Mapping[str, str]) -> None:
        """Annotate ``pod`` and remove its gate, in one step. Raises `ClusterError`."""
        ...

    async def annotate(self, pod: Pod, annotations: Mapping[str, str]) -> None:
        """Annotate ``pod``. Raises `ClusterError`."""
        ...


class LateKeeper:
    """``take`` what is seen, ``run`` as a task."""

    def __init__(self, releases: Releases, clock: Callable[[], float]) -> None:
        self._releases = releases
        self._consumers = LateConsumers(clock)
        self._rounds = Rounds(self.work, clock, BREATHER)

    def take(self, seen: Observation) -> None:
        """Take note of what was seen."""
        self._consumers.take(seen)
        self._rounds.wake()

    async def run(self) -> None:
        """Release until cancelled."""
        await self._rounds.run()

    async def work(self) -> float | None:
        """Release who is to be released now, and write down which groups had a producer; when there may be more."""
        for pod in self._consumers.marks():
            await self._mark(pod)
        await each(self._do, self._consumers.actions())
        return self._consumers.next_due

    async def _mark(self, pod: Pod) -> None:
        try:
            await self._releases.annotate(pod, {PRODUCER_SEEN_ANNOTATION: "true"})
        except Gone:
            return
        except ClusterError as error:
            log.warning("a consumer isn't told of its producer yet", pod=pod.key, error=str(error))

    async def _do(self, one: Release) -> bool:
        try:
            await self._releases.release(one.pod, one.told)
        except Gone:
            return True
        except ClusterError as error:
            log.warning("a late consumer couldn't be released yet", pod=one.pod.key, error=str(error))
            return False
        log.info("a late consumer may start", pod=one.pod.key)
        return True
