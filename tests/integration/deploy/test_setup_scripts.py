"""Makefile and .ci: set-up on machines of several kinds, without installing anything."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fluence_extender import __version__

TARGETS = [
    "help", "install", "check", "test", "nightly", "demo",
    "bench", "chaos", "throughput", "fuzz", "kind-test", "image",
]  # fmt: skip
BASICS = ("bash", "dirname", "env", "id", "make", "cc", "cksum", "cut", "sed", "touch", "rm", "awk", "sh")


class Checkout:
    """The set-up files in a folder of their own, and a PATH with the tools named, nothing else."""

    def __init__(self, folder: Path, project: Path) -> None:
        self.root = folder / "checkout"
        self.bin = folder / "bin"
        self.bin.mkdir()
        (self.root / "tests").mkdir(parents=True)
        shutil.copytree(project / ".ci", self.root / ".ci")
        for name in ("Makefile", "pyproject.toml"):
            shutil.copy(project / name, self.root / name)
        for tool in BASICS:
            if found := shutil.which(tool):
                (self.bin / tool).symlink_to(found)

    def write(self, name: str, script: str) -> Path:
        path = self.bin / name
        path.write_text(f"#!/usr/bin/env bash\n{script}\n")
        path.chmod(0o755)
        return path

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.bin / command[0]), *command[1:]],
            cwd=self.root,
            env={"PATH": str(self.bin)},
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def checkout(tmp_path: Path, project: Path) -> Checkout:
    return Checkout(tmp_path, project)


def stand_in_python(modules: str, version_ok: bool = True) -> str:
    """A python3 that has only ``modules`` (ensurepip, virtualenv, pip), and whose new environments log pip's calls."""
    return f"""
modules=" {modules} "
case "$*" in
    --version) echo "Python 3.x"; exit 0 ;;
    *version_info*) exit {0 if version_ok else 1} ;;
    "-c import ensurepip") [[ $modules == *" ensurepip "* ]]; exit ;;
    "-m virtualenv --version") [[ $modules == *" virtualenv "* ]]; exit ;;
    "-m pip --version") [[ $modules == *" pip "* ]]; exit ;;
esac
echo "python3 $*"
folder="${{!#}}"
if [[ "$*" == "-m venv"* || "$*" == "-m virtualenv"* ]]; then
    /bin/mkdir -p "$folder/bin"
    printf '#!/bin/bash\\necho "venv-python $*"\\n' >"$folder/bin/python"
    /bin/chmod +x "$folder/bin/python"
fi
"""


@pytest.mark.parametrize(
    ("modules", "made_by"),
    [
        ("ensurepip pip", ["python3 -m venv --clear .venv"]),
        ("virtualenv", ["python3 -m virtualenv --quiet --clear .venv"]),
        (
            "pip",
            [
                "python3 -m venv --clear --without-pip .venv",
                "python3 -m pip --python .venv/bin/python install --quiet pip",
            ],
        ),
    ],
)
def test_an_environment_is_made_with_what_python_has(
    checkout: Checkout, modules: str, made_by: list[str]
) -> None:
    checkout.write("python3", stand_in_python(modules))
    result = checkout.run("bash", ".ci/install")
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert [line for line in lines if line.startswith("python3")] == made_by
    assert lines[-1].endswith("install --quiet --disable-pip-version-check --editable .[test,lint]")


def test_a_python_that_can_make_no_environment_is_told_what_to_install(checkout: Checkout) -> None:
    checkout.write("python3", stand_in_python(""))
    result = checkout.run("bash", ".ci/install")
    assert result.returncode == 1
    assert "apt-get install python3-venv" in result.stderr


def test_an_old_python_is_passed_over_for_a_newer_one(checkout: Checkout) -> None:
    checkout.write("python3", stand_in_python("ensurepip pip", version_ok=False))
    checkout.write("python3.12", stand_in_python("ensurepip pip").replace("python3 $*", "python3.12 $*"))
    result = checkout.run("bash", ".ci/install")
    assert "python3.12 -m venv --clear .venv" in result.stdout


def test_without_a_new_enough_python_it_says_which_is_needed(checkout: Checkout) -> None:
    checkout.write("python3", stand_in_python("ensurepip pip", version_ok=False))
    result = checkout.run("bash", ".ci/install")
    assert result.returncode == 1
    assert "Python 3.11 or newer is needed" in result.stderr


def test_a_real_python_makes_an_environment_that_has_pip(checkout: Checkout) -> None:
    """Up to the installation itself, which needs the network: the project is an empty one here."""
    checkout.write("python3", f'exec "{sys.executable}" "$@"')
    (checkout.root / "pyproject.toml").write_text("[broken")
    result = checkout.run("bash", ".ci/install")
    assert result.returncode != 0
    assert "Making .venv" in result.stdout
    python = checkout.root / ".venv" / "bin" / "python"
    assert subprocess.run([python, "-m", "pip", "--version"], check=False).returncode == 0


def test_make_installs_once_and_again_when_the_dependencies_change(checkout: Checkout) -> None:
    checkout.write("python3", stand_in_python("ensurepip pip"))
    assert "Installing" in checkout.run("make", "install").stdout
    assert "Installing" not in checkout.run("make", "install").stdout
    project_file = checkout.root / "pyproject.toml"
    project_file.write_text(project_file.read_text() + "\n# changed\n")
    assert "Installing" in checkout.run("make", "install").stdout
    assert len(list((checkout.root / ".venv").glob("installed-*"))) == 1


def test_help_names_every_target(checkout: Checkout) -> None:
    result = checkout.run("make")
    assert [line.split()[0] for line in result.stdout.splitlines()] == TARGETS


def test_make_image_tags_the_version(checkout: Checkout) -> None:
    assert f"docker build --tag fluence-extender:{__version__} " in checkout.run("make", "-n", "image").stdout


def test_ci_checks_then_tests(checkout: Checkout) -> None:
    checkout.write("python3", stand_in_python("ensurepip pip"))
    (checkout.bin / "make").unlink()
    checkout.write("make", 'echo "make $*"')
    result = checkout.run("bash", ".ci/run")
    assert (result.returncode, result.stdout.split("\n")) == (0, ["make check", "make test", ""]), (
        result.stderr
    )


def test_ci_stops_at_a_failed_check(checkout: Checkout) -> None:
    checkout.write("python3", stand_in_python("ensurepip pip"))
    (checkout.bin / "make").unlink()
    checkout.write("make", 'echo "make $*"; exit 2')
    result = checkout.run("bash", ".ci/run")
    assert (result.returncode, result.stdout) == (2, "make check\n")


@pytest.mark.parametrize("user", ["root", "somebody"])
def test_ci_installs_what_is_missing_as_root_and_names_it_otherwise(checkout: Checkout, user: str) -> None:
    checkout.write("python3", stand_in_python(""))
    for tool in ("make", "cc", "id"):
        (checkout.bin / tool).unlink(missing_ok=True)
    checkout.write("id", f"echo {0 if user == 'root' else 1000}")
    checkout.write(
        "apt-get",
        f'echo "apt-get $*"; printf "#!/bin/sh\\n" >"{checkout.bin}/make"; /bin/chmod +x "{checkout.bin}/make"',
    )
    result = checkout.run("bash", ".ci/run")
    if user == "root":
        assert result.returncode == 0, result.stderr
        assert result.stdout.splitlines()[0] == "apt-get update"
        assert "install --yes --no-install-recommends python3-venv make gcc libc6-dev" in result.stdout
    else:
        assert result.returncode == 1
        assert "lacks: python3-venv make gcc libc6-dev" in result.stderr
