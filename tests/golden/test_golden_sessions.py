"""The embedded engine answers every recorded call of libreapi_cli as libreapi_cli did."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from fluence_extender.matcher import create_matcher
from tests.golden.replay import SESSIONS, differences, load


def test_all_sessions_are_present() -> None:
    assert len(SESSIONS) == 101


@pytest.mark.parametrize("path", SESSIONS, ids=lambda path: path.name.removesuffix(".json.gz"))
def test_embedded_engine_answers_as_recorded(path: Path) -> None:
    assert differences(load(path), partial(create_matcher, "embedded")) == []
