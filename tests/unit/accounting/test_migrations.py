"""The tables are made and removed in steps, and are then as the program knows them."""

from __future__ import annotations

from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, insert, inspect, select, text

from fluence_extender.accounting import store
from fluence_extender.accounting.errors import NewerDatabase
from fluence_extender.accounting.migrating import migrate
from fluence_extender.accounting.tables import DAY, daily, metadata, periods, totals
from tests.unit.accounting.accounts import HOUR, NOON, pod


def test_tables_are_those_that_the_program_knows(connection: Connection) -> None:
    context = MigrationContext.configure(connection, opts={"compare_type": True})
    assert compare_metadata(context, metadata) == []


def test_steps_can_be_taken_back_and_taken_again(connection: Connection) -> None:
    with connection.begin():
        migrate(connection, "base")
    assert set(inspect(connection).get_table_names()) == {"alembic_version"}
    connection.rollback()
    with connection.begin():
        migrate(connection)
    assert {"pods", "amounts", "runs", "daily", "periods", "totals", "facts"} <= set(
        inspect(connection).get_table_names()
    )


def test_sums_of_an_older_version_are_added_up_anew(connection: Connection) -> None:
    batch = [
        pod(f"p{number}", started=NOON + number * DAY, ended=NOON + number * DAY + HOUR)
        for number in range(80)
    ]
    with connection.begin():
        store.write(connection, batch, NOON)
    written = sums(connection)
    by_day = [dict(one) for one in connection.execute(select(daily)).mappings()]
    connection.rollback()
    with connection.begin():
        migrate(connection, "base")
        migrate(connection, "0001")
        connection.execute(insert(daily), by_day)
    assert not {"periods", "totals"} & set(inspect(connection).get_table_names())
    connection.rollback()
    with connection.begin():
        migrate(connection)
    assert sums(connection) == written


def sums(connection: Connection) -> list[list[Any]]:
    """What the tables say that are added up from the sums by day."""
    return [
        list(connection.execute(select(table).order_by(*table.primary_key))) for table in (periods, totals)
    ]


def test_database_of_a_newer_version_is_refused(connection: Connection) -> None:
    with connection.begin():
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(NewerDatabase, match="newer version of fluence-extender"), connection.begin():
        migrate(connection)
