"""The same world that gangs are tested in."""

from __future__ import annotations

from tests.unit.gangs.conftest import world

__all__ = ["world"]
