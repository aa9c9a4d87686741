"""Reading the account for the state API, from any replica.

Invariants: the event loop never waits for the database, and neither does the end of the process. A database that hangs
holds a few threads at most; further questions are refused until it answers again.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from sqlalchemy import URL, Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from fluence_extender.accounting import queries
from fluence_extender.accounting.address import open_engine
from fluence_extender.accounting.errors import brief
from fluence_extender.api.past import WorkRecord
from fluence_extender.model.accounting import (
    AccountUnavailable,
    Grouping,
    Reader,
    RunQuestion,
    UsedAmount,
)

T = TypeVar("T")

AT_ONCE = 4
"""The most questions at the same time."""

LONGEST = 10.0
"""The most seconds for an answer."""


class DatabaseReader:
    """Implements `AccountReader` on the database at ``url``. ``clock`` returns seconds since the epoch."""

    def __init__(self, url: URL, clock: Callable[[], float] = time.time, longest: float = LONGEST) -> None:
        self._engine: Engine = open_engine(url, AT_ONCE, read_only=True)
        self._clock = clock
        self._longest = longest
        self._free = threading.Semaphore(AT_ONCE)

    async def namespaces(self) -> frozenset[str]:
        """Return the namespaces that have an account."""
        return await self._ask(queries.namespaces)

    async def usage(self, by: Grouping, since: int, namespace: str, reader: Reader) -> list[UsedAmount]:
        """Return what was used since the day of ``since``."""
        now = int(self._clock())
        return await self._ask(lambda it: queries.usage(it, by, since, namespace, reader, now))

    async def runs(self, question: RunQuestion, reader: Reader) -> list[WorkRecord]:
        """Return the matching runs."""
        return await self._ask(lambda it: queries.past_runs(it, question, reader))

    def close(self) -> None:
        """Close the idle connections."""
        self._engine.dispose()

    async def _ask(self, question: Callable[[Connection], T]) -> T:
        if not self._free.acquire(blocking=False):
            raise AccountUnavailable("the database of past work answers too slowly; try again later")
        answer: Future[T] = Future()
        answer.set_running_or_notify_cancel()

        def ask() -> None:
            try:
                with self._engine.connect() as connection:
                    found = question(connection)
            except BaseException as error:
                self._free.release()
                answer.set_exception(error)
            else:
                self._free.release()
                answer.set_result(found)

        threading.Thread(target=ask, name="account", daemon=True).start()
        try:
            async with asyncio.timeout(self._longest):
                return await asyncio.shield(asyncio.wrap_future(answer))
        except TimeoutError:
            raise AccountUnavailable("the database of past work doesn't answer; try again later") from None
        except (SQLAlchemyError, OSError) as error:
            raise AccountUnavailable(f"the account of past work can't be read: {brief(error)}") from error
