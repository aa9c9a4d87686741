"""The control plane is built while other tests run: a failure is reported once in full, and no build is left behind.

The go command is a stand-in here, so nothing is really built.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.background_build import BackgroundBuild, failure_of

PROJECT = Path(__file__).parents[2]
ON_THE_CONTROL_PLANE = "tests/integration/cluster/test_watch_real_server.py"
WITHOUT = "tests/unit/model/test_quantity.py"
PATIENCE = 120.0
STARTS = "import sys; from tests import background_build as b; b.BackgroundBuild().start(); sys.stdin.read()"


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A go command that, asked to build, runs the script at the path that is returned; the cache is empty."""
    command, script = tmp_path / "bin" / "go", tmp_path / "script"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nif [ "$1" = env ]; then echo go1.99.0; else . {script}; fi\n')
    command.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("PATH", f"{command.parent}:{os.environ['PATH']}")
    return script


def run_pytest(*arguments: str) -> str:
    """Return what pytest prints when it runs the project's tests with ``arguments``."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False).stdout


@pytest.mark.parametrize("processes", ["0", "2"])
def test_a_failed_build_fails_the_tests_on_the_control_plane_and_is_told_in_full_once(
    go: Path, processes: str
) -> None:
    go.write_text("echo 'proxy: connection refused'; exit 1")
    printed = run_pytest("-n", processes, ON_THE_CONTROL_PLANE, WITHOUT)
    assert "there is no control plane; the end of the report says why" in printed
    assert printed.count("proxy: connection refused") == 1
    assert " passed" in printed.splitlines()[-1]


def test_tests_without_a_control_plane_start_no_build(go: Path, tmp_path: Path) -> None:
    go.write_text(f"touch {tmp_path}/called; exit 1")
    assert " passed" in run_pytest("-n", "0", WITHOUT).splitlines()[-1]
    assert not (tmp_path / "called").exists()


def wait_for(file: Path) -> str:
    deadline = time.monotonic() + PATIENCE
    while not (file.exists() and file.read_text().endswith("\n")):
        assert time.monotonic() < deadline, f"waited for {file}"
        time.sleep(0.05)
    return file.read_text().strip()


def ended(process: int) -> bool:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_compiler_ends_with_the_process_that_started_the_build(
    go: Path, tmp_path: Path, by: signal.Signals
) -> None:
    go.write_text(f"trap '' INT; sleep 600 & echo $! >{tmp_path}/pid; wait")
    with subprocess.Popen([sys.executable, "-c", STARTS], cwd=PROJECT, stdin=subprocess.PIPE) as starter:
        compiler = int(wait_for(tmp_path / "pid"))
        starter.send_signal(by)
    assert ended(compiler)


def test_who_waits_for_a_build_that_was_ended_is_told(go: Path, tmp_path: Path) -> None:
    go.write_text(f"echo $$ >{tmp_path}/pid; sleep 600")
    build = BackgroundBuild()
    build.start()
    try:
        os.killpg(os.getpgid(int(wait_for(tmp_path / "pid"))), signal.SIGKILL)
        assert "ended before it was done" in failure_of(build.folder)
    finally:
        build.end()
    assert not build.folder.exists()


def test_a_build_that_is_still_running_ends_on_request(go: Path, tmp_path: Path) -> None:
    go.write_text(f"echo $$ >{tmp_path}/pid; sleep 600")
    build = BackgroundBuild()
    build.start()
    compiler = int(wait_for(tmp_path / "pid"))
    build.end()
    assert ended(compiler)
