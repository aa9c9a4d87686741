"""The command line: imports, help, colors, unknown words, completion by kubectl."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import threading
from pathlib import Path

import pytest

from fluence_extender import __version__
from fluence_extender.apps.kubectl.main import COMMANDS
from fluence_extender.apps.kubectl.terminal import waiting
from tests.unit.apps.kubectl.manifests import POD
from tests.unit.apps.kubectl.programs import Fluence, Program

SCRIPT = Path(sysconfig.get_path("scripts")) / "kubectl-fluence"
HEAVY = {
    *("kubernetes", "fastapi", "networkx", "numpy", "aiohttp", "pydantic", "rich", "msgspec"),
    *("cryptography", "uvicorn", "structlog", "cffi"),
}
LAZY = {"yaml", "jsonschema", "json", "subprocess", "urllib.request", "asyncio", "ssl", "importlib.metadata"}
_IMPORTED = """
import io, sys
bare = set(sys.modules)
sys.stdout = io.TextIOWrapper(io.BytesIO())
from fluence_extender.apps.kubectl.main import main
code = main(sys.argv[1:])
print(*sorted(set(sys.modules) - bare), file=sys.__stdout__)
sys.exit(code)
"""


def imported(*words: str, path: str = "") -> set[str]:
    """Return the modules that a command imports; ``path`` is searched first for programs."""
    ended = subprocess.run(
        [sys.executable, "-c", _IMPORTED, *words],
        env={**os.environ, "PATH": os.pathsep.join([path, os.environ["PATH"]])},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended
    return set(ended.stdout.split())


def test_version_imports_next_to_nothing() -> None:
    modules = imported("version")
    assert not modules & (HEAVY | LAZY)
    ours = {name for name in modules if name.startswith("fluence_extender")}
    assert ours == {
        "fluence_extender",
        "fluence_extender.apps",
        "fluence_extender.apps.kubectl",
        "fluence_extender.apps.kubectl.errors",
        "fluence_extender.apps.kubectl.main",
        "fluence_extender.apps.kubectl.options",
        "fluence_extender.apps.kubectl.terminal",
        "fluence_extender.model",
        "fluence_extender.model.names",
    }


def test_a_plain_manifest_needs_no_import_of_selection(tmp_path: Path) -> None:
    (tmp_path / "plain.yaml").write_text("a: b\n")
    modules = imported("select", "-f", str(tmp_path / "plain.yaml"))
    assert not modules & (HEAVY | {"jsonschema", "urllib.request", "asyncio"})


def test_selection_imports_nothing_of_the_service(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("backends: [{name: a, attributes: {cost: 1, memory_gb: 30}}]")
    (tmp_path / "pod.yaml").write_text(POD)
    words = ("--kubeconfig=/dev/null", "-f", str(tmp_path / "pod.yaml"))
    assert not imported("select", *words, "--attributes", str(tmp_path / "a.yaml")) & HEAVY


@pytest.mark.parametrize(
    "words",
    [("explain", "group"), ("jobs", "--help"), ("completion", "bash"), ("why", "--help"), ("graph", "-h")],
)
def test_commands_without_a_cluster_import_little(words: tuple[str, ...]) -> None:
    assert not imported(*words) & (HEAVY | (LAZY - {"json"}))


def test_help_of_doctor_and_simulate_imports_nothing_of_the_service() -> None:
    for verb in ("doctor", "simulate"):
        assert not imported(verb, "--help") & (HEAVY | (LAZY - {"json", "subprocess"}))


def test_questions_import_nothing_of_the_service_and_no_yaml(tmp_path: Path) -> None:
    (tmp_path / "kubectl").write_text('#!/bin/sh\necho \'{"items": [], "metadata": {}}\'\n')
    (tmp_path / "kubectl").chmod(0o755)
    for words in (("jobs", "-A"), ("backends",), ("top",), ("graph",)):
        modules = imported(*words, path=str(tmp_path))
        assert not modules & (HEAVY | {"yaml", "jsonschema", "asyncio", "ssl", "urllib.request"}), words


def test_installed_script_prints_its_version() -> None:
    ended = subprocess.run([str(SCRIPT), "version"], capture_output=True, text=True, timeout=30, check=False)
    assert (ended.returncode, ended.stdout) == (0, f"kubectl-fluence {__version__}\n")


def test_version_is_also_a_flag_and_a_document(fluence: Fluence) -> None:
    assert fluence("--version").out == fluence("version").out == f"kubectl-fluence {__version__}\n"
    assert json.loads(fluence("version", "-o", "json").out) == {"version": __version__}
    assert fluence("version", "-o=yaml").out == f"version: {__version__}\n"


def test_help_lists_all_commands_and_explains_each(fluence: Fluence) -> None:
    shown = fluence("--help")
    assert shown.code == 0
    assert [line.split()[0] for line in shown.out.splitlines() if line.startswith("  ")][1:] == list(COMMANDS)
    assert shown == fluence("-h") == fluence("help")
    for name in COMMANDS:
        explained = fluence(name, "--help")
        assert explained.code == 0
        assert f"kubectl fluence {name}" in explained.out
        assert fluence("help", name) == explained


def test_no_command_is_an_error_with_usage(fluence: Fluence) -> None:
    ended = fluence()
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("Choose a backend")


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("aply", 'unknown command "aply"; did you mean "apply"?'),
        ("frobnicate", 'unknown command "frobnicate"'),
        ("--frobnicate", 'unknown command "--frobnicate"'),
    ],
)
def test_an_unknown_command_is_an_error_with_usage(word: str, message: str, fluence: Fluence) -> None:
    ended = fluence(word)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"error: {message}\n")
    assert "Usage:" in ended.err


def test_flags_may_come_before_the_command(fluence: Fluence, kubectl: Program) -> None:
    words = ("--context", "c", "-n", "apply", "-o=yaml", "--insecure-skip-tls-verify=false", "--unknown")
    assert fluence(*words, "version").out == f"version: {__version__}\n"
    missing = ("-n=team", "-f", "pod.yaml", "--dry-run", "--insecure-skip-tls-verify=true")
    assert (
        fluence(*missing, "create", "--", "x").err
        == "error: pod.yaml doesn't exist; -f takes a file, a directory, a URL or -\n"
    )
    assert fluence("--context=c", "create", "-f", "-", "--dry-run", stdin="a: b\n").code == 0
    assert kubectl.calls[-1] == ["create", "-f", "-", "--dry-run=client", "--context=c"]


@pytest.mark.parametrize(
    ("terminal", "environment", "colored"),
    [
        (True, {}, True),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"NO_COLOR": ""}, True),
        (True, {"TERM": "dumb"}, False),
        (False, {}, False),
    ],
)
def test_colors_are_only_for_terminals_that_show_them(
    terminal: bool,
    environment: dict[str, str],
    colored: bool,
    fluence: Fluence,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    assert ("\033[" in fluence("aply").err) == colored


def completed(*words: str) -> tuple[list[str], str]:
    """Return what the real kubectl offers for the last of these words, and its directive."""
    path = os.pathsep.join([str(SCRIPT.parent), os.environ["PATH"]])
    ended = subprocess.run(
        ["kubectl", "__complete", "fluence", *words],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    *candidates, directive = ended.stdout.split("\n")[:-1]
    return [line.partition("\t")[0] for line in candidates], directive


def test_kubectl_completes_commands_flags_and_files() -> None:
    assert completed("") == (list(COMMANDS), ":4")
    assert completed("help", "ve") == (["version"], ":4")
    # As kubectl itself does behind "=": values alone (kubectl __complete get pods --output=).
    assert completed("apply", "--dry-run=") == (["none", "server", "client"], ":4")
    assert completed("jobs", "-o", "") == (["json", "yaml", "wide", "name"], ":4")
    assert completed("select", "-f", "") == ([], ":0")
    flags, _ = completed("apply", "--")
    assert {"--filename", "--kustomize", "--attributes", "--confirm", "--dry-run", "--help"} <= set(flags)
    assert "--confirm" not in completed("select", "--")[0]
    assert completed("frobnicate", "") == ([], ":4")


def test_long_wait_is_explained_on_a_terminal_only(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fluence_extender.apps.kubectl.terminal._PATIENCE", 0.0)
    output = threading.Event()
    monkeypatch.setattr("fluence_extender.apps.kubectl.terminal.tell", lambda *words: output.set())
    with waiting("reading"):
        assert not any(isinstance(one, threading.Timer) for one in threading.enumerate())
    assert not output.is_set()
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with waiting("reading"):
        assert output.wait(10)
