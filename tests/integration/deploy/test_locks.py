"""requirements/: the locks are in step with pyproject.toml, and each package in them has hashes."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LOCKS = ("project", "docs", "test", "lint", "build", "sbom", "sidecar")
HOW = "run make lock"

SIDECAR = """
import importlib, pkgutil, sys
from importlib.metadata import packages_distributions

locked = set(sys.argv[1].split(","))
owners = packages_distributions()

class OnlyLocked:
    def find_spec(self, name, path=None, target=None):
        owned = {owner.lower().replace("_", "-") for owner in owners.get(name.partition(".")[0], ())}
        if owned and not owned & {*locked, "fluence-extender"}:
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, OnlyLocked())
import fluence_extender.coordination.providers as providers
for module in [
    "fluence_extender.apps.sidecar.main", "fluence_extender.apps.sidecar.running",
    "fluence_extender.coordination.mock_qpu", "fluence_extender.coordination.staging",
    *(found.name for found in pkgutil.iter_modules(providers.__path__, providers.__name__ + ".")),
]:
    importlib.import_module(module)
"""


@pytest.fixture(scope="module")
def described(project: Path) -> dict[str, list[Requirement]]:
    """What pyproject.toml asks for, by lock."""
    text = tomllib.loads((project / "pyproject.toml").read_text())
    extras: dict[str, Any] = text["project"]["optional-dependencies"]
    own: list[str] = text["project"]["dependencies"]
    installed = own + extras["dashboard"] + extras["history"]
    asked = {
        "project": installed,
        "docs": installed + extras["docs"],
        "test": installed + extras["docs"] + extras["test"],
        "lint": installed + extras["docs"] + extras["test"] + extras["lint"],
        **text["dependency-groups"],
    }
    return {name: [Requirement(line) for line in lines] for name, lines in asked.items()}


def locked(project: Path, name: str) -> dict[str, set[str]]:
    """Return the versions of each package in a lock; there are several where markers choose one."""
    found: dict[str, set[str]] = {}
    for package, version in re.findall(
        r"^([a-zA-Z0-9._-]+)==([^\s;]+)", (project / "requirements" / f"{name}.txt").read_text(), re.MULTILINE
    ):
        found.setdefault(package, set()).add(version)
    return found


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_holds_what_the_project_asks_for(
    project: Path, described: dict[str, list[Requirement]], name: str
) -> None:
    versions = locked(project, name)
    for requirement in described[name]:
        chosen = versions.get(canonicalize_name(requirement.name), set())
        assert chosen, f"{requirement} is not in {name}.txt: {HOW}"
        assert all(map(requirement.specifier.contains, chosen)), f"{requirement}, locked {chosen}: {HOW}"


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_holds_nothing_that_the_project_asked_for_once(
    project: Path, described: dict[str, list[Requirement]], name: str
) -> None:
    text = (project / "requirements" / f"{name}.txt").read_text()
    asked = {canonicalize_name(requirement.name) for requirement in described[name]}
    for entry in re.split(r"^(?=[a-zA-Z0-9])", text, flags=re.MULTILINE)[1:]:
        if "(pyproject.toml" in entry:
            assert entry.partition("==")[0] in asked, f"{entry.partition(' ')[0]}: {HOW}"


@pytest.mark.parametrize("name", LOCKS)
def test_each_locked_package_has_hashes(project: Path, name: str) -> None:
    text = (project / "requirements" / f"{name}.txt").read_text()
    for entry in re.split(r"^(?=[a-zA-Z0-9])", text, flags=re.MULTILINE)[1:]:
        assert re.match(r"[^\n]+ \\\n    --hash=sha256:[0-9a-f]{64}", entry), entry.partition("\n")[0]


def test_all_locks_agree_on_versions(project: Path) -> None:
    versions: dict[str, set[str]] = {}
    for name in LOCKS:
        for package, chosen in locked(project, name).items():
            assert versions.setdefault(package, chosen) == chosen, f"{package} in {name}.txt: {HOW}"


def test_the_sidecar_needs_no_other_package_than_those_of_its_lock(project: Path) -> None:
    subprocess.run(
        [sys.executable, "-c", SIDECAR, ",".join(locked(project, "sidecar"))], check=True, cwd=project
    )
