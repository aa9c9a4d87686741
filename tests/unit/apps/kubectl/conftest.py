"""``kubectl fluence`` in this process, with test programs in place of ``kubectl`` and ``aws``."""

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
    """Return the only folder on the PATH."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.fixture
def kubectl(programs: Path, tmp_path: Path) -> Program:
    """Return a kubectl for which the ConfigMap of offers doesn't exist until a test adds it."""
    program = Program("kubectl", programs, tmp_path)
    program.answers("get configmap", err='Error from server (NotFound): no "fluence-resources"\n', code=1)
    return program


@pytest.fixture
def aws(programs: Path, tmp_path: Path) -> Program:
    """Return an AWS command line."""
    return Program("aws", programs, tmp_path)


@pytest.fixture
def fluence(
    kubectl: Program, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Fluence:
    """Return a function that runs ``kubectl fluence`` with its words, in a folder of the test's own."""
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
        output = capfd.readouterr()
        return Ended(code, output.out, output.err)

    return run


@pytest.fixture
def offers(kubectl: Program) -> Callable[[str], None]:
    """Return a function that sets the content of the ConfigMap of offers."""

    def set_offers(text: str, key: str = "resources.yaml") -> None:
        kubectl.answers("get configmap", out=json.dumps({"data": {key: text}}))

    return set_offers


@pytest.fixture
def attributes(fluence: Fluence) -> str:
    """Write an attribute file and return the flag that names it."""
    Path("attributes.yaml").write_text(ATTRIBUTES)
    return "--attributes=attributes.yaml"
