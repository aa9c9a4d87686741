"""Log lines: on stderr, in the chosen format, without what users wrote in their pods."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from fluence_extender.apps.logs import set_up_logging


@pytest.fixture(autouse=True)
def own_configuration() -> Iterator[None]:
    yield
    structlog.reset_defaults()


def fail_with(secret: str) -> None:
    """Log an exception whose frame has a local variable."""
    try:
        raise ValueError(f"{len(secret)} characters")
    except ValueError:
        structlog.get_logger().exception("it failed", gang="default/a")


def test_a_json_line_has_level_time_event_and_fields(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("json")
    fail_with("private")
    out, err = capsys.readouterr()
    line = json.loads(err)
    assert out == ""
    assert (line["level"], line["event"], line["gang"]) == ("error", "it failed", "default/a")
    assert "ValueError: 7 characters" in line["exception"]
    assert line["timestamp"].endswith("Z")


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_no_line_contains_a_local_variable(log_format: str, capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging(log_format)
    fail_with("private")
    logged = capsys.readouterr().err
    assert "ValueError" in logged
    assert "private" not in logged


def test_lines_below_the_level_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging(level=logging.WARNING)
    structlog.get_logger().info("quiet")
    structlog.get_logger().warning("loud")
    logged = capsys.readouterr().err
    assert "loud" in logged
    assert "quiet" not in logged
