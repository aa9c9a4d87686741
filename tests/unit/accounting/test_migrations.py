"""The tables are made and removed in steps, and are then as the program knows them."""

from __future__ import annotations

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, inspect, text

from fluence_extender.accounting.errors import NewerDatabase
from fluence_extender.accounting.migrating import migrate
from fluence_extender.accounting.tables import metadata


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
    assert {"pods", "amounts", "runs", "daily", "facts"} <= set(inspect(connection).get_table_names())


def test_database_of_a_newer_version_is_refused(connection: Connection) -> None:
    with connection.begin():
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(NewerDatabase, match="newer version of fluence-extender"), connection.begin():
        migrate(connection)
