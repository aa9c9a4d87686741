"""What one visitor sees. It is read whenever `VisitorWatch` says so; a list that hasn't changed is not sent again.

Invariant: a failure shows in the next state and ends with the next reading that works; nothing has to be restarted. Who
loses the right to ask loses what he was shown.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from fluence_extender.dashboard.listing import KnownItems
from fluence_extender.dashboard.service import (
    Absent,
    Concealed,
    Item,
    Reading,
    Refused,
    ServiceReader,
    Trouble,
)
from fluence_extender.dashboard.state import LISTS, REMEMBERED, ClusterState, changes_between


@dataclass(frozen=True, slots=True)
class Story:
    """One item with its details, as of a version of the state, or for longer: ``until`` a time of this machine."""

    version: int
    until: float
    item: Item | None


def _now() -> datetime:
    return datetime.now(UTC)


class Poller:
    """Keeps the newest `ClusterState` of one visitor."""

    def __init__(self, reader: ServiceReader) -> None:
        self.reader = reader
        self._readings: dict[str, Reading] = {}
        self._stories: dict[str, Story] = {}
        self._changed = asyncio.Condition()
        self._one_at_a_time = asyncio.Lock()
        self.ending = False
        self.visited = time.monotonic()
        self.read = float("-inf")
        self.state = ClusterState(0, _now())

    @property
    def refused(self) -> bool:
        """Return whether the visitor isn't known, or may not ask."""
        return isinstance(self.state.trouble, Refused)

    def idle(self, seconds: float) -> bool:
        """Return whether nobody has looked for so long."""
        return time.monotonic() - self.visited > seconds

    async def seen(self, fresh: float) -> ClusterState:
        """Return the state for a visitor; one that was read longer than ``fresh`` seconds ago is read anew."""
        if time.monotonic() - self.read > fresh:
            await self.read_once()
        self.visited = time.monotonic()
        return self.state

    async def newer(self, version: int, seconds: float) -> ClusterState:
        """Return the state once it is newer than ``version``, or the newest after ``seconds``."""
        self.visited = time.monotonic()
        async with self._changed:
            try:
                async with asyncio.timeout(seconds):
                    await self._changed.wait_for(lambda: self.ending or self.state.version > version)
            except TimeoutError:
                pass
        self.visited = time.monotonic()
        return self.state

    async def end(self) -> None:
        """End all waits for news."""
        async with self._changed:
            self.ending = True
            self._changed.notify_all()

    async def story(
        self, path: str, query: Mapping[str, str] | None = None, lasting: float = 0.0
    ) -> Item | None:
        """Return the item under ``path`` with its details, None if there is none. Raise `Trouble`.

        It is read once for each version of the state, however many pages show it, and at most once in ``lasting``
        seconds.
        """
        name = f"{path}?{sorted((query or {}).items())}"
        known = self._stories.get(name)
        version, now = self.state.version, time.monotonic()
        if known is None or (known.version != version and now >= known.until):
            item: Item | None
            try:
                item = await self.reader.read(path, query)
            except Absent:
                item = None
            self._stories = {
                key: one for key, one in self._stories.items() if one.version == version or now < one.until
            }
            known = self._stories[name] = Story(version, now + lasting, item)
        return known.item

    async def read_once(self) -> None:
        """Read all lists that have changed, and publish the state if anything is new."""
        before = self.read
        async with self._one_at_a_time:
            if self.read > before:
                return
            try:
                new = await self._read_lists()
            except Refused as trouble:
                self._readings, self._stories = {}, {}
                new = ClusterState(self.state.version, self.state.at, trouble=trouble)
            except Trouble as trouble:
                new = replace(self.state, trouble=trouble)
            self.read = time.monotonic()
            if _same(new, self.state):
                return
            async with self._changed:
                self.state = replace(new, version=self.state.version + 1, at=_now())
                self._changed.notify_all()

    async def _read_lists(self) -> ClusterState:
        before = self._readings
        results = await asyncio.gather(
            *(self.reader.read_shared(path, before.get(name)) for name, path in LISTS.items()),
            return_exceptions=True,
        )
        readings: dict[str, Reading] = {}
        withheld: dict[str, str] = {}
        for name, result in zip(LISTS, results, strict=True):
            if isinstance(result, Concealed):
                withheld[name] = result.text
            elif isinstance(result, BaseException):
                raise result
            else:
                readings[name] = result
        unchanged = all(reading is before.get(name) for name, reading in readings.items())
        if (
            unchanged
            and withheld == self.state.withheld
            and self.state.trouble is None
            and self.state.version
        ):
            return self.state
        lists: dict[str, Any] = {
            name: readings[name].items if name in readings else KnownItems() for name in LISTS
        }
        gangs = readings.get("gangs")
        metadata = gangs.metadata if gangs is not None else {}
        changes = self.state.changes
        if before and lists["gangs"] is not self.state.gangs:
            changes = (*changes_between(self.state.gangs, lists["gangs"], _now()), *changes)[:REMEMBERED]
        self._readings = readings
        return ClusterState(
            self.state.version,
            self.state.at,
            leading=bool(metadata.get("leading", True)),
            hidden=int(metadata.get("hidden") or 0),
            withheld=withheld,
            changes=changes,
            **lists,
        )


def _same(new: ClusterState, old: ClusterState) -> bool:
    """Return whether a visitor would see no difference. Lists that weren't read anew are the same objects."""
    if new is old:
        return True
    if new.trouble is None or old.trouble is None:
        return False
    return new.trouble.text == old.trouble.text
