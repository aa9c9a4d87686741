"""The commands that pods run, as processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from fluence_extender.apps.sidecar.main import main, sidecar
from fluence_extender.coordination.options import Options

BIN = Path(sys.executable).parent
OWN = {"FLUENCE_POD_UID": "u", "FLUENCE_POD_NAME": "p"}


def run(*command: str, **environ: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **environ}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_sidecar_without_its_pod_says_what_to_set() -> None:
    ended = run(str(BIN / "fluence-sidecar"))
    assert ended.returncode == 2
    assert "FLUENCE_POD_UID and FLUENCE_POD_NAME must be set" in ended.stderr


def test_sidecar_without_a_cluster_says_what_it_looked_for() -> None:
    ended = run(str(BIN / "fluence-sidecar"), **OWN)
    assert ended.returncode == 2
    assert "no cluster to connect to" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_unreadable_options_are_reported_and_do_not_stop_the_sidecar() -> None:
    ended = run(str(BIN / "fluence-sidecar"), **OWN, FLUENCE_POLL_INTERVAL="soon")
    assert "poll 'soon' isn't a duration" in ended.stderr
    assert "no cluster to connect to" in ended.stderr


@pytest.mark.parametrize("one", [signal.SIGTERM, signal.SIGINT])
def test_signal_during_the_start_is_not_lost(one: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}
    known = []

    def reads(environ: object) -> tuple[Options, list[str]]:
        signal.raise_signal(one)
        return Options("u", "p"), []

    async def runs(options: Options, environ: object, signals: list[int]) -> int:
        known.extend(signals)
        return 0

    monkeypatch.setattr("fluence_extender.coordination.options.read_options", reads)
    monkeypatch.setattr("fluence_extender.apps.sidecar.running.run", runs)
    try:
        assert sidecar() == 0
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    assert known == [one]


@pytest.mark.parametrize("arguments", [[], ["launch"], ["stage", "a", "b"]])
def test_wrong_use_is_reported(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage" in capsys.readouterr().err


@pytest.mark.parametrize("one", [signal.SIGTERM, signal.SIGINT])
def test_mock_qpu_serves_until_a_signal(one: signal.Signals) -> None:
    command = [
        sys.executable,
        "-m",
        "fluence_extender.apps.sidecar",
        "mock-qpu",
        "--port=0",
        "--host=127.0.0.1",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as running:
        assert running.stdout is not None
        line = running.stdout.readline()
        port = line.split()[4].rstrip(":")
        request = urllib.request.Request(f"http://127.0.0.1:{port}/tasks", data=b"{}")
        with urllib.request.urlopen(request) as answer:
            assert json.loads(answer.read())["state"] == "queued"
        running.send_signal(one)
        assert running.wait(60) == 0
