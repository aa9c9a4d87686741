"""``kubectl fluence`` in this process, with programs of the tests' own for ``kubectl`` and ``aws``."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fluence_extender.apps.kubectl.main import main
from tests.unit.apps.kubectl.programs import ATTRIBUTES, Ended, Fluence, Program


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on the PATH."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.fixture
def kubectl(programs: Path, tmp_path: Path) -> Program:
    """kubectl; the ConfigMap of offers doesn't exist until a test says so."""
    program = Program("kubectl", programs, tmp_path)
    program.answers("get configmap", err='Error from server (NotFound): no "fluence-resources"\n', code=1)
    return program


@pytest.fixture
def aws(programs: Path, tmp_path: Path) -> Program:
    """The AWS command line."""
    return Program("aws", programs, tmp_path)


@pytest.fixture
def fluence(
    kubectl: Program, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Fluence:
    """Runs ``kubectl fluence`` with these words, in a folder of the test's own."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)

    def run(*words: str, stdin: bytes | str = b"") -> Ended:
        content = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        capfd.readouterr()
        code = main(words)
        said = capfd.readouterr()
        return Ended(code, said.out, said.err)

    return run


@pytest.fixture
def offers(kubectl: Program) -> Callable[[str], None]:
    """Says what the ConfigMap of offers holds."""

    def say(text: str, key: str = "resources.yaml") -> None:
        kubectl.answers("get configmap", out=json.dumps({"data": {key: text}}))

    return say


@pytest.fixture
def attributes(fluence: Fluence) -> str:
    """An attribute file."""
    Path("attributes.yaml").write_text(ATTRIBUTES)
    return "--attributes=attributes.yaml"
