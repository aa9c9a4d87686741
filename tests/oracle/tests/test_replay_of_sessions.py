"""The command that replays recorded sessions counts what is alike, and fails where anything differs."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.oracle.replay import main
from tests.oracle.sessions import SESSIONS, load

SESSION = load(SESSIONS[0])
STEPS = len(SESSION["steps"])


def replay(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def written(path: Path, session: Any) -> Path:
    text = json.dumps(session).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def spoiled() -> Any:
    """The session with another answer recorded for its first match and its first cancel."""
    session = load(SESSIONS[0])
    for call in ("match", "cancel"):
        step = next(step for step in session["steps"] if step["call"] == call)
        step["expect"] |= {"ok": "perhaps"}
    return session


@pytest.mark.parametrize("name", ["session.json", "session.json.gz"])
def test_a_session_may_be_plain_or_gzipped(tmp_path: Path, name: str) -> None:
    result = replay(written(tmp_path / name, SESSION))
    assert (result.exit_code, result.stdout) == (0, f"{STEPS} alike of {STEPS}, 1 whole of 1\n")


def test_steps_that_differ_are_counted_and_told(tmp_path: Path) -> None:
    odd = written(tmp_path / "odd.json", spoiled())
    result = replay(odd, SESSIONS[0])
    assert result.exit_code == 1
    assert result.stdout == f"{2 * STEPS - 2} alike of {2 * STEPS}, 1 whole of 2\n"
    assert [line.split(":")[:2] for line in result.stderr.splitlines()] == [
        [str(odd), f" step {number}"]
        for number, step in enumerate(spoiled()["steps"])
        if step["expect"]["ok"] == "perhaps"
    ]


@pytest.mark.parametrize(
    "session", [[], {}, {"graph": {}, "options": {}, "steps": []}, SESSION | {"graph": {}}]
)
def test_what_is_no_session_is_not_whole(tmp_path: Path, session: Any) -> None:
    path = written(tmp_path / "odd.json", session)
    result = replay(path)
    assert result.exit_code == 1
    assert result.stdout.startswith("0 alike of ")
    assert result.stdout.endswith(", 0 whole of 1\n")
    assert result.stderr.startswith(f"{path}: ")


def test_a_call_that_is_unknown_makes_no_step_alike(tmp_path: Path) -> None:
    steps = [*SESSION["steps"], {"call": "dance", "expect": {"ok": True}}]
    result = replay(written(tmp_path / "odd.json", SESSION | {"steps": steps}))
    assert (result.exit_code, result.stdout) == (1, f"0 alike of {STEPS + 1}, 0 whole of 1\n")
    assert "unknown call 'dance'" in result.stderr


def test_without_a_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLUXION_LIBRARY", "/nowhere/libreapi_cli.so")
    result = replay("--engine", "fluxion", SESSIONS[0])
    assert result.exit_code == 2
    assert "flux-sched >= 0.53" in result.stderr
