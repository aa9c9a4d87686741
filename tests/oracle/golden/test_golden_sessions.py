"""The oracle answers every recorded call of libreapi_cli as libreapi_cli did."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.oracle.sessions import SESSIONS, differences, load
from tests.oracle.walker import Walker


def test_all_sessions_are_present() -> None:
    assert len(SESSIONS) == 101


@pytest.mark.parametrize("path", SESSIONS, ids=lambda path: path.name.removesuffix(".json.gz"))
def test_oracle_answers_as_recorded(path: Path) -> None:
    assert differences(load(path), Walker) == []
