"""The thread that writes the account, and the spool in front of it.

The spool has at most one account for each pod, the newest, and a bounded number of pods. So while the database is away
its size depends on the number of pods, and not on the number of records. When it is full, the oldest accounts are lost
and counted.

Invariants: taking in an account never waits for the database. An account leaves the spool once its transaction has been
committed. Only a leader's thread writes, and it holds the lock while it does.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import structlog
from sqlalchemy import URL, Connection, Engine
from sqlalchemy.exc import DataError, IntegrityError, SQLAlchemyError

from fluence_extender.accounting import store
from fluence_extender.accounting.address import open_engine, shown
from fluence_extender.accounting.errors import brief
from fluence_extender.accounting.lock import WriterLock
from fluence_extender.model.accounting import PodAccount

log = structlog.get_logger(__name__)

SPOOL = 100_000
"""The most pods whose accounts wait to be written."""

BATCH = 500
"""The most pods in one transaction."""

LONGEST_RETRY = 60.0
"""The most seconds between attempts on a database that can't be written."""

BEAT = 30.0
"""Seconds between two notes that the cluster was seen, and between two removals of old pods."""

LAST_WRITES = 5.0
"""The most seconds for which the end of a process waits for the last writes."""

DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class WriterFigures:
    """The figures for metrics: accounts taken in, written, lost and waiting, and the time of the last write."""

    spooled: Callable[[float], None] = lambda _: None
    written: Callable[[float], None] = lambda _: None
    lost: Callable[[float], None] = lambda _: None
    waiting: Callable[[float], None] = lambda _: None
    last_write: Callable[[float], None] = lambda _: None


@dataclass(frozen=True, slots=True)
class Pauses:
    """Seconds in which accounts are gathered before they are written, and before the first retry of a failed write."""

    gather: float = 1.0
    retry: float = 2.0


USUAL_PAUSES = Pauses()


class AccountWriter:
    """Implements `AccountSink` on the database at ``url``; accounts are kept for ``keep`` days, 0 forever.

    ``clock`` returns seconds since the epoch.
    """

    def __init__(
        self,
        url: URL,
        keep: float = 0.0,
        figures: WriterFigures | None = None,
        spool: int = SPOOL,
        clock: Callable[[], float] = time.time,
        pauses: Pauses = USUAL_PAUSES,
    ) -> None:
        self._url = url
        self._keep = keep
        self._figures = figures or WriterFigures()
        self._most = spool
        self._clock = clock
        self._pauses = pauses
        self._spool: OrderedDict[str, PodAccount] = OrderedDict()
        self._running: frozenset[str] | None = None
        self._leading = False
        self._ending = False
        self._change = threading.Condition()
        self._trouble = ""
        self._beaten = 0.0
        self._engine: Engine | None = None
        self._connection: Connection | None = None
        self._lock = WriterLock(url)
        self._thread = threading.Thread(target=self._run, name="history", daemon=True)
        self._thread.start()

    # What the service calls.

    def record(self, account: PodAccount) -> None:
        """Take in an account."""
        with self._change:
            self._spool[account.uid] = account
            self._spool.move_to_end(account.uid)
            lost = len(self._spool) > self._most
            if lost:
                self._spool.popitem(last=False)
            self._figures.waiting(len(self._spool))
            self._change.notify()
        self._figures.spooled(1)
        if lost:
            self._figures.lost(1)

    def begin(self, running: frozenset[str]) -> None:
        """Begin to write: all pods but these have ended."""
        with self._change:
            self._leading, self._running = True, running
            self._change.notify()

    def stand_down(self) -> None:
        """Write the remaining accounts, then release the lock."""
        with self._change:
            self._leading = False
            self._change.notify()

    def close(self) -> None:
        """Write the remaining accounts within a few seconds, and end."""
        with self._change:
            self._ending = True
            self._change.notify()
        self._thread.join(LAST_WRITES)
        with self._change:
            left = len(self._spool)
            self._spool.clear()
        if left:
            self._figures.lost(left)
            log.warning(
                "accounts of pods are lost", pods=left, why=self._trouble or "the database doesn't answer"
            )

    @property
    def trouble(self) -> str:
        """Why nothing can be written now, "" while it can."""
        return self._trouble

    def idle(self) -> bool:
        """Return whether everything that was taken in has been written."""
        with self._change:
            return not self._spool and self._running is None

    # The thread.

    def _run(self) -> None:
        pause = self._pauses.retry
        while not self._over():
            try:
                self._turn()
            except Exception as error:
                # After any error the next attempt may succeed, and without this thread there would be no account.
                self._fail(error)
                if self._ending:
                    return
                self._wait(pause)
                pause = min(pause * 2, max(LONGEST_RETRY, self._pauses.retry))
            else:
                pause = self._pauses.retry
        self._disconnect()

    def _over(self) -> bool:
        with self._change:
            return self._ending and not self._spool

    def _wait(self, seconds: float) -> None:
        """Wait, but not beyond the end of the process. New accounts don't end the wait."""
        until = time.monotonic() + seconds
        with self._change:
            self._change.wait_for(lambda: self._ending, max(until - time.monotonic(), 0))

    def _turn(self) -> None:
        """Wait for something to do, and do it."""
        with self._change:
            self._change.wait_for(self._called, BEAT)
            idle = not self._spool and self._running is None
            leading = self._leading
        if idle and not leading:
            self._disconnect()
            return
        if not self._ending:
            self._wait(self._pauses.gather)
        connection = self._connected()
        self._take_over(connection)
        while batch := self._next():
            self._write(connection, batch)
        self._beat(connection)
        self._recovered()

    def _called(self) -> bool:
        """Return whether there is something to do before the next beat."""
        rests = not self._leading and self._connection is not None
        return bool(self._ending or self._spool or self._running is not None or rests)

    def _next(self) -> list[PodAccount]:
        with self._change:
            return [one for one, _ in zip(self._spool.values(), range(BATCH), strict=False)]

    def _write(self, connection: Connection, batch: list[PodAccount]) -> None:
        try:
            with connection.begin():
                store.write(connection, batch, int(self._clock()))
        except (DataError, IntegrityError, OverflowError, ValueError) as error:
            if len(batch) > 1:
                for one in batch:
                    self._write(connection, [one])
                return
            log.warning("the account of a pod is refused, and lost", pod=batch[0].pod, why=brief(error))
            self._done(batch)
            self._figures.lost(1)
            return
        self._done(batch)
        self._figures.written(len(batch))
        self._figures.last_write(self._clock())
        self._recovered()

    def _done(self, batch: list[PodAccount]) -> None:
        with self._change:
            for one in batch:
                if self._spool.get(one.uid) is one:
                    del self._spool[one.uid]
            self._figures.waiting(len(self._spool))

    def _take_over(self, connection: Connection) -> None:
        with self._change:
            running = self._running
        if running is None:
            return
        with connection.begin():
            lost = store.close_lost(connection, running)
            if lost:
                log.warning(
                    "pods have ended unseen; they are charged until the cluster was last seen", pods=lost
                )
        with self._change:
            if self._running is running:
                self._running = None

    def _beat(self, connection: Connection) -> None:
        """Note when the cluster was last seen, and remove old pods."""
        now = self._clock()
        if now - self._beaten < BEAT or not self._leading:
            return
        with connection.begin():
            store.put_fact(connection, store.SEEN, int(now))
        while self._keep:
            with connection.begin():
                if not store.forget(connection, int(now - self._keep * DAY)):
                    break
        self._beaten = now
        self._figures.last_write(now)

    def _connected(self) -> Connection:
        """Return the connection, which holds the lock and whose tables are up to date."""
        if self._connection is None or self._connection.closed or self._connection.invalidated:
            self._disconnect()
            self._engine = open_engine(self._url, 1, read_only=False)
            connection = self._engine.connect()
            try:
                with connection.begin():
                    self._lock.take(connection)
                with connection.begin():
                    store.prepare(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        engine, self._engine = self._engine, None
        if connection is not None:
            try:
                connection.invalidate()
                connection.close()
            except SQLAlchemyError as error:
                log.debug("a connection isn't closed", why=brief(error))
        if engine is not None:
            engine.dispose()
        self._lock.release()

    def _fail(self, error: Exception) -> None:
        self._disconnect()
        why = brief(error)
        if why != self._trouble:
            self._trouble = why
            log.warning(
                "the account of past work can't be written; placement goes on, and it is tried again",
                history=shown(self._url),
                why=why,
            )

    def _recovered(self) -> None:
        if self._trouble:
            log.info("the account of past work is written again", history=shown(self._url))
            self._trouble = ""
