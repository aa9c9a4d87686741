"""Kubernetes Events, written in the background.

Equal events (same object, reason and message) become one with a count, which is updated at most every few seconds. So a
gang that waits for an hour doesn't flood etcd. Namespaces take turns, and each has its own budget of writes. So a user
who creates thousands of pods delays only the Events of that namespace. Invariants: `EventRecorder.record` never waits,
never raises, and keeps a bounded number of events. If there are too many, the namespace with the most loses its oldest.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog

from fluence_extender.cluster.connection import MERGE_PATCH, ApiRequest, Connection
from fluence_extender.cluster.errors import ClusterError, Gone, NotLeading
from fluence_extender.cluster.pacing import Backoff
from fluence_extender.cluster.port import Regarding
from fluence_extender.model.names import DOMAIN
from fluence_extender.model.notation import format_micro_time

log = structlog.get_logger(__name__)

CAPACITY = 4096
PERIOD = 5.0
FOLD_FOR = 600.0
CLOSE_LIMIT = 2.0
LONGEST_NOTE = 1024
BURST = 200
REFILL = 20.0
"""The budget of a namespace: the Events that may be written at once, and how many each second after that."""
CONTROLLER = f"{DOMAIN}/extender"
Key = tuple[Regarding, str, str]


@dataclass(slots=True)
class _Entry:
    """One event: how often it happened, and the count that was last written."""

    name: str
    warning: bool
    first: float
    when: datetime
    count: int = 1
    written: int = 0
    due: float = 0.0


@dataclass(slots=True)
class _Budget:
    """The number of writes that one namespace had ``left`` at the time ``at``, on the loop's clock."""

    left: float
    at: float

    def wait(self, now: float) -> float:
        """Take one write and return 0, or return the seconds until one is left."""
        self.left, self.at = min(BURST, self.left + (now - self.at) * REFILL), now
        if self.left < 1:
            return (1 - self.left) / REFILL
        self.left -= 1
        return 0.0


class EventRecorder:
    """Writes Events (events.k8s.io/v1) from one background task, ``run``; call ``flush`` at the end."""

    def __init__(self, connection: Connection, period: float = PERIOD, capacity: int = CAPACITY) -> None:
        self._connection = connection
        self._period = period
        self._capacity = capacity
        self._held: dict[str, OrderedDict[Key, _Entry]] = {}
        self._count = 0
        self._budgets: dict[str, _Budget] = {}
        self._pending: dict[str, dict[Key, _Entry]] = {}
        self._wake = asyncio.Event()
        self._backoff = Backoff(1.0, 30.0)
        self._instance = os.environ.get("HOSTNAME") or "fluence-extender"

    def record(self, regarding: Regarding, reason: str, message: str, warning: bool = False) -> None:
        """Count one more occurrence of an event."""
        now = asyncio.get_running_loop().time()
        key = (regarding, reason, message)
        held = self._held.setdefault(regarding.namespace, OrderedDict())
        entry = held.pop(key, None)
        self._count += entry is None
        if entry is None or now - entry.first > FOLD_FOR:
            entry = _Entry(_name(regarding), warning, now, datetime.now(UTC))
        else:
            entry.count += 1
            entry.when = datetime.now(UTC)
        held[key] = entry
        self._pending.setdefault(regarding.namespace, {})[key] = entry
        if self._count > self._capacity:
            self._drop_one()
        self._wake.set()

    def _drop_one(self) -> None:
        """Drop the oldest event of the namespace that has the most."""
        largest = max(self._held.values(), key=len)
        oldest, entry = largest.popitem(last=False)
        self._forget(oldest, entry)
        self._count -= 1
        if not largest:
            namespace = oldest[0].namespace
            del self._held[namespace]
            self._budgets.pop(namespace, None)

    async def run(self) -> None:
        """Write recorded events until cancelled."""
        while True:
            wait = await self._write_due()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._wake.wait()
            self._wake.clear()

    async def flush(self) -> None:
        """Write everything now, within two seconds, and drop the rest."""
        for held in self._held.values():
            for entry in held.values():
                entry.due = 0.0
        try:
            async with asyncio.timeout(CLOSE_LIMIT):
                await self._write_due()
        except TimeoutError:
            log.warning("some events were not written in time", count=sum(map(len, self._pending.values())))

    async def _write_due(self) -> float | None:
        """Write one due event of each namespace in turn, until none is due.

        Return the seconds until the next one is due, None if nothing is left.
        """
        while self._pending:
            left = min([await self._write_one_of(namespace) for namespace in list(self._pending)])
            if left > 0:
                return left
        return None

    async def _write_one_of(self, namespace: str) -> float:
        """Write the oldest due event of a namespace and return 0, or return the seconds until one may be written."""
        pending = self._pending.get(namespace)
        if pending is None:
            return 0.0
        now = asyncio.get_running_loop().time()
        # Of thousands most are due, so the search for the oldest one of these ends soon.
        due = next((item for item in pending.items() if item[1].due <= now), None)
        key, entry = due or min(pending.items(), key=lambda item: item[1].due)
        left = entry.due - now
        if left <= 0:
            left = self._budgets.setdefault(namespace, _Budget(BURST, now)).wait(now)
        if left > 0:
            return left
        if await self._try(key, entry):
            self._forget(key, entry)
        return 0.0

    def _forget(self, key: Key, entry: _Entry) -> None:
        """Remove ``entry`` from the events to write, unless a new event has taken its place."""
        pending = self._pending.get(key[0].namespace, {})
        if pending.get(key) is entry:
            del pending[key]
            if not pending:
                del self._pending[key[0].namespace]

    async def _try(self, key: Key, entry: _Entry) -> bool:
        """Write one event; return whether it is done with. Wait a while if the API server can't be reached."""
        try:
            await self._write(key, entry)
        except NotLeading:
            return True
        except ClusterError as error:
            log.warning("an event can't be written", reason=key[1], error=str(error))
            if 400 <= error.status < 429:
                return True
            await asyncio.sleep(self._backoff.delay())
            return False
        except Exception:
            log.exception("an event is left out because of a fault", reason=key[1])
            return True
        self._backoff.reset()
        return entry.written == entry.count

    async def _write(self, key: Key, entry: _Entry) -> None:
        count, regarding = entry.count, key[0]
        namespace = regarding.namespace or "default"
        path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
        attempt = f"record an event for {regarding.kind} {regarding.name}"
        try:
            if entry.written:
                series = {"count": count, "lastObservedTime": format_micro_time(entry.when)}
                request = ApiRequest(
                    "PATCH",
                    f"{path}/{entry.name}",
                    attempt,
                    None,
                    {"series": series},
                    MERGE_PATCH,
                )
            else:
                request = ApiRequest("POST", path, attempt, None, self._body(key, entry, namespace))
            await self._connection.call(request)
        except Gone:
            # Events live for an hour, and a terminating namespace accepts none.
            if not entry.written:
                raise
            entry.name, entry.written = _name(regarding), 0
            return
        entry.written = count
        entry.due = asyncio.get_running_loop().time() + self._period

    def _body(self, key: Key, entry: _Entry, namespace: str) -> dict[str, object]:
        regarding, reason, message = key
        when = format_micro_time(entry.when)
        body: dict[str, object] = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": entry.name, "namespace": namespace},
            "eventTime": when,
            "type": "Warning" if entry.warning else "Normal",
            "reason": reason,
            "action": "Scheduling",
            "note": message[:LONGEST_NOTE],
            "reportingController": CONTROLLER,
            "reportingInstance": self._instance,
            "regarding": {
                "apiVersion": regarding.api_version,
                "kind": regarding.kind,
                "namespace": regarding.namespace,
                "name": regarding.name,
                "uid": regarding.uid,
            },
        }
        if entry.count > 1:
            body["series"] = {"count": entry.count, "lastObservedTime": when}
        return body


def _name(regarding: Regarding) -> str:
    return f"{regarding.name[:230]}.{uuid.uuid4().hex[:16]}"
