"""Where the account is kept: a SQLite file or a PostgreSQL database, as ``--history`` names it.

Invariant: no text about an address shows its password.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from sqlalchemy import URL, Engine, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import QueuePool

from fluence_extender.accounting.errors import BadAddress

POSTGRESQL = "postgresql+psycopg"

PATIENCE = 5
"""Seconds to wait for a connection, or for another writer of the file."""

HOW = (
    "write the path of a file, --history /var/lib/fluence/history.db, or the URL of a database, "
    "--history postgresql+psycopg://USER:PASSWORD@HOST/DATABASE"
)

LOST_PEER = {
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}
"""With these parameters of libpq, a connection whose other end is gone ends within half a minute."""


def parse_address(text: str) -> URL:
    """Return the address that ``text`` names. Raises `BadAddress`."""
    if "://" not in text:
        return _file(text)
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise BadAddress(f"--history is no URL that can be read; {HOW}") from None
    if url.drivername in ("postgresql", "postgres", POSTGRESQL):
        if not url.database:
            raise BadAddress(f"--history {url} names no database; {HOW}")
        return url.set(drivername=POSTGRESQL)
    raise BadAddress(f"--history has a URL for {url.drivername}, which isn't supported; {HOW}")


def _file(text: str) -> URL:
    path = Path(text)
    if not text.strip() or path.is_dir():
        raise BadAddress(f"--history {text!r} is no file; {HOW}")
    if not path.parent.is_dir():
        raise BadAddress(
            f"--history {text}: the folder {path.parent} doesn't exist; make it, or name another file"
        )
    return URL.create("sqlite", database=str(path.absolute()))


def shown(url: URL) -> str:
    """Return the address for people: without its password."""
    return url.database or "" if url.drivername == "sqlite" else url.render_as_string(hide_password=True)


def _make_private(path: str) -> None:
    """Make the file private, and with it the files that SQLite makes beside it: they say what all users ran."""
    with contextlib.suppress(OSError):
        # If this fails, opening the database fails as well, and says why.
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(file, 0o600)
        finally:
            os.close(file)


def open_engine(url: URL, connections: int, read_only: bool) -> Engine:
    """Return an engine with at most this many connections."""
    arguments: dict[str, object]
    if url.drivername == "sqlite":
        if not read_only and url.database:
            _make_private(url.database)
        arguments = {"timeout": PATIENCE, "check_same_thread": False}
    else:
        arguments = {"connect_timeout": PATIENCE, "application_name": "fluence-extender", **LOST_PEER}
        if read_only:
            arguments["options"] = f"-c default_transaction_read_only=on -c statement_timeout={PATIENCE}s"
    engine = create_engine(
        url,
        connect_args=arguments,
        poolclass=QueuePool,
        pool_size=connections,
        max_overflow=0,
        pool_timeout=PATIENCE,
        pool_pre_ping=True,
    )
    if url.drivername == "sqlite":
        _prepare_file(engine, read_only)
    return engine


def _prepare_file(engine: Engine, read_only: bool) -> None:
    """Set a file up so that its readers and its writer don't wait for each other."""

    @event.listens_for(engine, "connect")
    def prepare(connection: object, _: object) -> None:
        cursor = connection.cursor()  # type: ignore[attr-defined]
        if read_only:
            cursor.execute("PRAGMA query_only=ON")
        else:
            cursor.execute("PRAGMA journal_mode=WAL")
            cursor.execute("PRAGMA synchronous=NORMAL")
        cursor.close()
