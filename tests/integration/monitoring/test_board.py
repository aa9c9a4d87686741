"""deploy/monitoring's board as Grafana itself reads it: by the types that are generated from Grafana's own schemas."""

from __future__ import annotations

import json
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from tests.integration.monitoring.test_monitoring import FOLDER


@pytest.fixture
def board() -> Any:
    return json.loads((FOLDER / "grafana.json").read_text())


def read_by_grafana(document: Any) -> Any:
    """Return a board after Grafana's types have read and written it."""
    register_default_plugins()
    return json.loads(JSONEncoder().encode(Dashboard.from_json(document)))


def lost(given: Any, kept: Any, path: str = "") -> list[str]:
    """Return where ``kept`` lacks something of ``given``; it may have more."""
    if isinstance(given, dict) and isinstance(kept, dict):
        return [one for key in given for one in lost(given[key], kept.get(key), f"{path}/{key}")]
    if isinstance(given, list) and isinstance(kept, list) and len(given) == len(kept):
        pairs = enumerate(zip(given, kept, strict=True))
        return [one for number, (a, b) in pairs for one in lost(a, b, f"{path}/{number}")]
    return [] if given == kept else [path]


def test_grafana_understands_all_of_the_board(board: Any) -> None:
    assert lost(board, read_by_grafana(board)) == []


@pytest.mark.parametrize("path", [("panels", 0), ("panels", 0, "options"), ("panels", 0, "targets", 0), ()])
def test_what_grafana_does_not_know_is_found(board: Any, path: tuple[str | int, ...]) -> None:
    place = board
    for step in path:
        place = place[step]
    place["colour"] = "red"
    assert len(lost(board, read_by_grafana(board))) == 1
