"""The one reader of ``/v1`` in the process: however many pages are open, each list is read once a second.

A list that hasn't changed costs a request with the answer 304. While nobody looks, nothing is read. A cluster whose
state takes long to read is read less often, so that reading takes a tenth of the time at most.

Invariant: a failure shows in the next state and ends with the next reading that works; nothing has to be restarted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from fluence_extender.dashboard.service import Absent, Concealed, Item, Reading, ServiceReader, Trouble
from fluence_extender.dashboard.state import LISTS, REMEMBERED, ClusterState, changes_between

PERIOD = 1.0
"""Seconds between two readings."""

SHARE = 10
"""A reading takes at most one part in this many of the time."""

INTEREST = 60.0
"""Seconds after the last visit in which reading goes on."""


@dataclass(frozen=True, slots=True)
class Story:
    """One item with its details, as of a version of the state, or for longer: ``until`` a time of this machine."""

    version: int
    until: float
    item: Item | None


def _now() -> datetime:
    return datetime.now(UTC)


class Poller:
    """Keeps the newest `ClusterState`."""

    def __init__(self, reader: ServiceReader, now: Callable[[], datetime] = _now) -> None:
        self._reader = reader
        self._now = now
        self._readings: dict[str, Reading] = {}
        self._stories: dict[str, Story] = {}
        self._visited = 0.0
        self._wanted = asyncio.Event()
        self._changed = asyncio.Condition()
        self._ending = False
        self.state = ClusterState(0, now())

    async def run(self) -> None:
        """Read until cancelled."""
        while True:
            if time.monotonic() - self._visited > INTEREST:
                self._wanted.clear()
            await self._wanted.wait()
            began = time.monotonic()
            await self.read_once()
            await asyncio.sleep(max(PERIOD, (time.monotonic() - began) * (SHARE - 1)))

    @property
    def ending(self) -> bool:
        """Return whether there will be no more news."""
        return self._ending

    async def visited(self) -> ClusterState:
        """Return the newest state for a visitor, the first as soon as there is one."""
        stale = not self._wanted.is_set()
        self._visited = time.monotonic()
        self._wanted.set()
        if self.state.version == 0 or stale:
            return await self.newer(self.state.version, 5.0)
        return self.state

    async def newer(self, version: int, seconds: float) -> ClusterState:
        """Return the state once it is newer than ``version``, or the newest after ``seconds``."""
        self._visited = time.monotonic()
        async with self._changed:
            try:
                async with asyncio.timeout(seconds):
                    await self._changed.wait_for(lambda: self._ending or self.state.version > version)
            except TimeoutError:
                pass
        self._visited = time.monotonic()
        return self.state

    async def end(self) -> None:
        """End all waits for news."""
        async with self._changed:
            self._ending = True
            self._changed.notify_all()

    async def story(
        self, path: str, query: Mapping[str, str] | None = None, lasting: float = 0.0
    ) -> Item | None:
        """Return the item under ``path`` with its details, None if there is none. Raise `Trouble`.

        It is read once for each version of the state, however many visitors look at it, and at most once in ``lasting``
        seconds.
        """
        name = f"{path}?{sorted((query or {}).items())}"
        known = self._stories.get(name)
        version, now = self.state.version, time.monotonic()
        if known is None or (known.version != version and now >= known.until):
            try:
                reading = await self._reader.read(path, query)
                item = None if reading is None else reading.document
            except Absent:
                item = None
            self._stories = {
                key: one for key, one in self._stories.items() if one.version == version or now < one.until
            }
            known = self._stories[name] = Story(version, now + lasting, item)
        return known.item

    async def read_once(self) -> None:
        """Read all lists that have changed, and publish the state if anything is new."""
        try:
            new = await self._read_lists()
        except Trouble as trouble:
            new = replace(self.state, trouble=trouble)
        if _same(new, self.state):
            return
        async with self._changed:
            self.state = replace(new, version=self.state.version + 1, at=self._now())
            self._changed.notify_all()

    async def _read_lists(self) -> ClusterState:
        before = self._readings
        results = await asyncio.gather(
            *(self._read_list(name, path) for name, path in LISTS.items()), return_exceptions=True
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
            name: readings[name].document.get("items", []) if name in readings else [] for name in LISTS
        }
        gangs = readings.get("gangs")
        metadata = gangs.document.get("metadata", {}) if gangs is not None else {}
        changes = self.state.changes
        if before and lists["gangs"] is not self.state.gangs:
            changes = (*changes_between(self.state.gangs, lists["gangs"], self._now()), *changes)[:REMEMBERED]
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

    async def _read_list(self, name: str, path: str) -> Reading:
        known = self._readings.get(name)
        reading = await self._reader.read(path, tag=known.tag if known is not None else "")
        if reading is not None:
            return reading
        assert known is not None, "only an answer to a tag says that nothing has changed"
        return known


def _same(new: ClusterState, old: ClusterState) -> bool:
    """Return whether a visitor would see no difference. Lists that weren't read anew are the same objects."""
    if new is old:
        return True
    if new.trouble is None or old.trouble is None:
        return False
    return new.trouble.text == old.trouble.text
