"""Bringing a database to the version of its tables that this program writes.

Invariant: a database of a newer version is never written.
"""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from fluence_extender.accounting.errors import NewerDatabase

FOLDER = Path(__file__).with_name("migrations")


def _config(connection: Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def migrate(connection: Connection, revision: str = "head") -> None:
    """Bring the tables to a revision, the newest one by default. Raises `NewerDatabase`."""
    config = _config(connection)
    found = MigrationContext.configure(connection).get_current_revision()
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if found is not None and found not in known:
        raise NewerDatabase(
            f"the database was made by a newer version of fluence-extender (its tables are {found}): nothing is "
            "written to it. Install that version, or name another database"
        )
    if revision == "base":
        command.downgrade(config, revision)
    elif (
        found is None or revision != "head" or found != ScriptDirectory.from_config(config).get_current_head()
    ):
        command.upgrade(config, revision)
