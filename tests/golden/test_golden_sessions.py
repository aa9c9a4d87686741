"""The embedded engine answers every recorded call of libreapi_cli as libreapi_cli did."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from fluence_extender.matcher.embedded import EmbeddedMatcher
from fluence_extender.matcher.engine import EmbeddedEngine
from tests.golden.replay import SESSIONS, differences, load


def test_sessions_are_there() -> None:
    assert len(SESSIONS) == 101


@pytest.mark.parametrize("path", SESSIONS, ids=lambda path: path.name.removesuffix(".json.gz"))
def test_embedded_engine_answers_as_recorded(path: Path) -> None:
    assert differences(load(path), EmbeddedMatcher) == []


@pytest.mark.parametrize("path", SESSIONS, ids=lambda path: path.name.removesuffix(".json.gz"))
def test_whole_engine_answers_as_recorded(path: Path) -> None:
    """Whichever half takes the graph: size is no reason for the walker here, sized pools are."""
    assert differences(load(path), partial(EmbeddedEngine, fewest_counted=0)) == []
