"""One writer at a time: the lock that a replica holds while it writes.

The kernel or the database releases it when the holder is killed, so it never has to be broken.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from sqlalchemy import URL, Connection, text

from fluence_extender.accounting.errors import WrittenByAnother

NUMBER = 0x666C7578
"""The key of PostgreSQL's advisory lock."""


class WriterLock:
    """The lock on the database at ``url``."""

    def __init__(self, url: URL) -> None:
        self._url = url
        self._file: int | None = None

    def take(self, connection: Connection) -> None:
        """Take the lock, for as long as the connection or the process lives. Raises `WrittenByAnother`."""
        if self._url.drivername == "sqlite":
            self._take_file()
        elif not connection.scalar(text("SELECT pg_try_advisory_lock(:key)"), {"key": NUMBER}):
            raise WrittenByAnother(
                "another replica writes the account in this database: this one keeps what happens, and tries "
                "again. Give each installation a database of its own"
            )

    def _take_file(self) -> None:
        if self._file is not None:
            return
        path = Path(f"{self._url.database}.lock")
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            raise WrittenByAnother(
                f"another replica writes the account in {self._url.database}: this one keeps what happens, and tries "
                "again. Give each installation a file of its own, or all replicas a PostgreSQL database"
            ) from None
        self._file = file

    def release(self) -> None:
        """Give the lock on a file back; that on a database ends with its connection."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
