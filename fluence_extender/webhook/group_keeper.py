"""Makes, resizes and removes PodGroups as `webhook.podgroups` wants it, for as long as it runs.

Every replica does so: what another one has done already is a success. What fails is thought of again a moment later,
from what is seen then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import structlog

from fluence_extender.cluster.errors import Invalid
from fluence_extender.cluster.port import ClusterError, Conflict, Gone, Observation
from fluence_extender.cluster.rounds import Rounds, each
from fluence_extender.model.pod import Owner
from fluence_extender.webhook.podgroups import Action, Group, Make, Name, PodGroups, Remove, Resize

log = structlog.get_logger(__name__)

BREATHER = 0.05
"""Seconds in which pods that come together are gathered."""
RETRY = 2.0
"""Seconds until what failed is tried again."""


class GroupWrites(Protocol):
    """The writes; each raises a `ClusterError` subclass and otherwise has been accepted by the API server."""

    async def make(self, kind: type[Group], name: Name, size: int, owner: Owner | None) -> None:
        """Make a group with our mark. Raises `Conflict` where there is one of that name."""
        ...

    async def resize(self, group: Group, size: int) -> None:
        """Change the size of the group that was seen. Raises `errors.Invalid` where it can't be changed, `Gone`."""
        ...

    async def remove(self, group: Group) -> None:
        """Remove the group exactly as it was seen. Raises `Conflict` where it has changed since, `Gone`."""
        ...


class GroupKeeper:
    """``take`` what is seen, ``run`` as a task."""

    def __init__(self, writes: GroupWrites, clock: Callable[[], float]) -> None:
        self._writes = writes
        self._clock = clock
        self._groups = PodGroups(clock)
        self._rounds = Rounds(self._work, clock, BREATHER)

    def take(self, seen: Observation) -> None:
        """Take note of what was seen."""
        self._groups.take(seen)
        self._rounds.wake()

    async def run(self) -> None:
        """Keep the groups until cancelled."""
        await self._rounds.run()

    async def _work(self) -> float | None:
        """Do what is to be done now; when there may be more."""
        done = await each(self._do, self._groups.actions())
        due = self._groups.next_due
        again = None if done else self._clock() + RETRY
        return min((one for one in (due, again) if one is not None), default=None)

    async def _do(self, action: Action) -> bool:
        """Do it; whether nothing is left to be done about it."""
        try:
            await self._write(action)
        except (Gone, Conflict):
            # Somebody was there before us, or it has changed: what is seen next says what is to be done then.
            if not isinstance(action, Remove):
                return True
            self._groups.failed(action)
            return False
        except Invalid as error:
            log.info("a PodGroup keeps its size", problem=str(error))
            self._groups.refused(action)
            return True
        except ClusterError as error:
            log.warning("a PodGroup isn't as it should be", problem=str(error))
            self._groups.failed(action)
            return False
        self._groups.done(action)
        return True

    async def _write(self, action: Action) -> None:
        match action:
            case Make():
                await self._writes.make(action.kind, action.name, action.size, action.owner)
            case Resize():
                await self._writes.resize(action.group, action.size)
            case Remove():
                await self._writes.remove(action.group)
