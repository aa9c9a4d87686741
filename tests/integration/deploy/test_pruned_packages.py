"""What deploy/image/install removes from an installation isn't missed by anything that the product imports or runs."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from fluence_extender import __version__

IMPORT_ALL = Path(__file__).parents[2] / "images" / "import_all.py"


def locked(project: Path) -> list[str]:
    """Return the names of the packages in requirements/project.txt that this Python has."""
    lines = (project / "requirements" / "project.txt").read_text()
    names = sorted(set(re.findall(r"^([a-z0-9][a-z0-9._-]*)==", lines, re.MULTILINE)))
    return [name for name in names if any(importlib.metadata.distributions(name=name))]


@pytest.fixture(scope="module")
def pruned(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the packages of the lock alone, and the product's sources, after the prune step."""
    target = tmp_path_factory.mktemp("pruned") / "fluence"
    venv.create(target, with_pip=False, symlinks=True)
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = target / "lib" / python / "site-packages"
    for name in locked(project):
        for file in importlib.metadata.files(name) or ():
            source, copy = Path(str(file.locate())), site / file
            if ".." not in file.parts and source.is_file():
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, copy)
    for package in ("fluence_extender", "fluxion_ffi"):
        shutil.copytree(
            project / package, site / package, ignore=shutil.ignore_patterns("__pycache__", "*.pyc")
        )
    install = project / "deploy" / "image" / "install"
    subprocess.run([install, "prune"], env={**os.environ, "TARGET": str(target)}, check=True)
    return target


def run(target: Path, *arguments: str) -> str:
    """Run the environment's Python, and return what it prints."""
    command = [str(target / "bin" / "python"), "-I", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_product_is_whole_after_pruning(pruned: Path, project: Path) -> None:
    for package in ("fluence_extender", "fluxion_ffi"):
        (installed,) = pruned.glob(f"lib/python3.*/site-packages/{package}")
        before = {
            path.relative_to(project / package)
            for path in (project / package).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        assert before <= {path.relative_to(installed) for path in installed.rglob("*")}


@pytest.mark.timeout(900)
def test_every_import_of_the_product_works_in_the_pruned_environment(pruned: Path) -> None:
    names = run(pruned, str(IMPORT_ALL)).split()
    assert {"sqlalchemy", "kubernetes.client.rest", "fluxion_ffi"} <= set(names)


def test_models_of_the_client_and_tests_are_gone(pruned: Path) -> None:
    (client,) = pruned.glob("lib/python3.*/site-packages/kubernetes")
    left = sum(path.stat().st_size for path in client.rglob("*.py"))
    assert left < 4_000_000
    assert not list(client.rglob("v1_pod.py"))
    assert not [path for path in client.parent.rglob("tests") if path.is_dir()]


def test_the_client_loads_credentials_in_the_pruned_environment(pruned: Path, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "{current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}],"
        " clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}], users: [{name: a, user: {token: abc}}]}"
    )
    program = f"""
import asyncio
from pathlib import Path
from fluence_extender.cluster.credentials import Credentials, Origin
async def header():
    return await (await Credentials.load(Origin({str(kubeconfig)!r}))).authorization()
print(asyncio.run(header()))
from tests.localcluster.api import Api
print(Api(Path({str(kubeconfig)!r})))
"""
    assert run(pruned, "-c", program).startswith("Bearer abc\n")


def test_tracebacks_are_shown_in_the_pruned_environment(pruned: Path) -> None:
    program = """
from structlog.dev import rich_traceback
import sys
try:
    int("a word")
except ValueError:
    rich_traceback(sys.stdout, sys.exc_info())
"""
    assert "a word" in run(pruned, "-c", program)


def test_the_command_line_finds_its_engine_in_the_pruned_environment(pruned: Path) -> None:
    assert run(pruned, "-m", "fluence_extender", "version").startswith(
        f"fluence-extender {__version__} (engine: "
    )
