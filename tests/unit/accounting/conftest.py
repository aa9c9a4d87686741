"""Databases for the account: each test that asks for one runs on a SQLite file and on a real PostgreSQL."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import URL, Connection

from fluence_extender.accounting import store
from fluence_extender.accounting.address import open_engine, parse_address
from fluence_extender.accounting.writer import AccountWriter, Pauses, WriterFigures
from tests.unit.accounting.postgresql import PostgresServer

MakeWriter = Callable[..., AccountWriter]


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server."""
    server = PostgresServer()
    yield server
    server.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> URL:
    """A new, empty database."""
    if request.param == "sqlite":
        return parse_address(str(tmp_path / "history.db"))
    server: PostgresServer = request.getfixturevalue("postgres")
    return parse_address(server.database())


@pytest.fixture
def connection(database: URL) -> Iterator[Connection]:
    """A connection to a database with its tables."""
    engine = open_engine(database, 1, read_only=False)
    with engine.connect() as opened:
        with opened.begin():
            store.prepare(opened)
        yield opened
    engine.dispose()


class Told:
    """What a writer has told of itself."""

    def __init__(self) -> None:
        self.spooled = self.written = self.lost = self.waiting = self.last_write = 0.0

    def figures(self) -> WriterFigures:
        """What the writer calls."""

        def add(name: str) -> Callable[[float], None]:
            return lambda amount: setattr(self, name, getattr(self, name) + amount)

        def keep(name: str) -> Callable[[float], None]:
            return lambda amount: setattr(self, name, amount)

        return WriterFigures(add("spooled"), add("written"), add("lost"), keep("waiting"), keep("last_write"))


@pytest.fixture
def told() -> Told:
    """What the writer of this test has told."""
    return Told()


@pytest.fixture
def writer(told: Told) -> Iterator[MakeWriter]:
    """Make writers; they end with the test."""
    made: list[AccountWriter] = []

    def make(url: URL, **options: object) -> AccountWriter:
        settings = {"figures": told.figures(), "pauses": Pauses(0.0, 0.05), **options}
        made.append(AccountWriter(url, **settings))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for one in made:
        one.close()


def until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.01)
