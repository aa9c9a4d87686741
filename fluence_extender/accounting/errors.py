"""The errors of the account. Each text says what to do."""

from __future__ import annotations


class BadAddress(Exception):
    """``--history`` names no database that can be used."""


class NewerDatabase(Exception):
    """The database was made by a newer version."""


class WrittenByAnother(Exception):
    """Another replica writes the database now."""


def brief(error: Exception) -> str:
    """Return the cause of a database's error in one line."""
    cause = getattr(error, "orig", None) or error
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    return (lines[0] if lines else type(cause).__name__)[:300]
