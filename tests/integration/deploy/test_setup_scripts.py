"""Makefile and .ci: set-up on machines of several kinds, without installing anything."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fluence_extender import __version__

TARGETS = [
    "help", "install", "lock", "check", "quick", "test", "nightly", "demo",
    "bench", "chaos", "throughput", "peers", "fuzz", "docs", "node-test", "kind-test", "image",
    "sidecar-image", "base-image", "image-test", "manifests", "chart",
]  # fmt: skip
BASICS = (
    "bash",
    "dirname",
    "env",
    "id",
    "make",
    "cc",
    "cksum",
    "cut",
    "sed",
    "touch",
    "rm",
    "awk",
    "sh",
    "sleep",
    "cat",
)
TOOLS = ("ruff", "mypy", "lint-imports", "shellcheck", "hadolint", "fluence-extender")


class Checkout:
    """The set-up files in a folder of their own, and a PATH with the tools named, nothing else."""

    def __init__(self, folder: Path, project: Path) -> None:
        self.root = folder / "checkout"
        self.bin = folder / "bin"
        self.bin.mkdir()
        (self.root / "tests").mkdir(parents=True)
        for part in (".ci", "requirements", "deploy/image"):
            shutil.copytree(project / part, self.root / part)
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
        process = self.start(*command)
        stdout, stderr = process.communicate(timeout=240)
        return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)

    def start(self, *command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(self.bin / command[0]), *command[1:]],
            cwd=self.root,
            env={"PATH": str(self.bin)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def installs(self) -> list[str]:
        """Return the names of the locks from which pip was asked to install, call by call."""
        calls = self.root / "pip-calls"
        lines = calls.read_text().splitlines() if calls.exists() else []
        return [Path(line.split()[-1]).stem for line in lines if "--require-hashes" in line]

    def during_installation(self, script: str) -> None:
        """Let pip run ``script`` from now on."""
        (self.root / "during").write_text(script)


@pytest.fixture
def checkout(tmp_path: Path, project: Path) -> Checkout:
    return Checkout(tmp_path, project)


STAND_IN_PIP = """#!/bin/bash
case "$*" in
    *install*) echo "$*" >>pip-calls; echo "Collecting aiohttp>=3"; echo "Requirement already satisfied: numpy" ;;
esac
if [[ "$*" == *install* && -e during ]]; then . ./during; fi
"""


def stand_in_python(modules: str, version_ok: bool = True) -> str:
    """A python3 that has only ``modules`` (ensurepip, virtualenv, pip), and whose new environments log pip's calls."""
    return f"""
modules=" {modules} "
case "$*" in
    --version) echo "Python 3.x"; exit 0 ;;
    *fcntl*) exec "{sys.executable}" "$@" ;;
    *version_info*) exit {0 if version_ok else 1} ;;
    "-c import ensurepip") [[ $modules == *" ensurepip "* ]]; exit ;;
    "-m virtualenv --version") [[ $modules == *" virtualenv "* ]]; exit ;;
    "-m pip --version") [[ $modules == *" pip "* ]]; exit ;;
esac
echo "python3 $*"
folder="${{!#}}"
if [[ "$*" == "-m venv"* || "$*" == "-m virtualenv"* ]]; then
    /bin/rm -rf "$folder"
    /bin/mkdir -p "$folder/bin"
    echo '{STAND_IN_PIP}' >"$folder/bin/python"
    for tool in {" ".join(TOOLS)}; do echo '#!/bin/sh' >"$folder/bin/$tool"; done
    /bin/chmod +x "$folder"/bin/*
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
    assert [line for line in result.stdout.splitlines() if line.startswith("python3")] == made_by
    assert checkout.installs() == ["project"]


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


@pytest.fixture
def ready(checkout: Checkout) -> Checkout:
    """A checkout with a usual Python."""
    checkout.write("python3", stand_in_python("ensurepip pip"))
    return checkout


@pytest.mark.parametrize(
    ("target", "installed"),
    [
        ("install", "project"),
        ("demo", "project"),
        ("docs", "docs"),
        ("quick", "test"),
        ("test", "test"),
        ("check", "lint"),
    ],
)
def test_a_target_installs_what_it_needs_and_no_more(ready: Checkout, target: str, installed: str) -> None:
    result = ready.run("make", target)
    assert result.returncode == 0, result.stderr
    assert ready.installs() == [installed]


def test_what_is_installed_is_not_installed_again(ready: Checkout) -> None:
    for target in ("check", "test", "docs", "demo", "install"):
        ready.run("make", target)
    assert ready.installs() == ["lint"]


def test_a_target_adds_what_is_missing(ready: Checkout) -> None:
    ready.run("make", "demo")
    assert "Making" not in ready.run("make", "test").stdout
    assert ready.installs() == ["project", "test"]


def test_everything_is_stale_when_the_dependencies_change(ready: Checkout) -> None:
    ready.run("make", "test")
    project_file = ready.root / "pyproject.toml"
    project_file.write_text(project_file.read_text() + "\n# changed\n")
    ready.run("make", "install")
    ready.run("make", "install")
    ready.run("make", "test")
    assert ready.installs() == ["test", "project", "test"]


def test_the_packages_are_named_while_they_are_installed(ready: Checkout) -> None:
    lines = ready.run("make", "install").stdout.splitlines()
    assert "  Collecting aiohttp>=3" in lines
    assert not any("already satisfied" in line for line in lines)


def test_a_failed_installation_fails_the_target(ready: Checkout) -> None:
    ready.during_installation("echo 'ERROR: no such package' >&2; exit 1")
    result = ready.run("make", "demo")
    assert result.returncode != 0
    assert "no such package" in result.stderr


def test_two_at_once_install_one_after_the_other_and_once(ready: Checkout) -> None:
    ready.during_installation("sleep 0.5; echo ended >>pip-calls")
    both = [ready.start("make", "demo"), ready.start("make", "install")]
    outputs = [process.communicate(timeout=240)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    calls = (ready.root / "pip-calls").read_text().splitlines()
    assert calls[1::2] == ["ended", "ended"], calls
    assert ready.installs() == ["project"]
    assert any("Waiting for another process" in output for output in outputs)


def test_an_environment_is_made_anew_after_a_kill(ready: Checkout) -> None:
    ready.during_installation("kill -9 $PPID $$")
    assert ready.run("bash", ".ci/install").returncode != 0
    ready.during_installation("")
    assert "Making .venv" in ready.run("make", "install").stdout
    assert "Making .venv" not in ready.run("make", "test").stdout
    assert ready.installs() == ["project", "project", "test"]


def test_help_names_every_target(checkout: Checkout) -> None:
    result = checkout.run("make")
    assert [line.split()[0] for line in result.stdout.splitlines()] == TARGETS


def test_the_quick_tests_touch_every_room(project: Path) -> None:
    files = (project / "tests" / "quick.txt").read_text().split()
    product = project / "fluence_extender"
    rooms = {
        f"fluence_extender.{folder.name}" for folder in product.iterdir() if (folder / "__init__.py").exists()
    }
    text = "".join((project / file).read_text() for file in files)
    assert {room for room in {*rooms, "fluxion_ffi"} if f"from {room}" not in text} == set()


@pytest.mark.parametrize(
    ("target", "tag", "options"),
    [("image", "fluence-extender", ""), ("sidecar-image", "fluence-sidecar", " --target sidecar")],
)
def test_images_are_built_by_docker_or_else_by_buildah(
    checkout: Checkout, target: str, tag: str, options: str
) -> None:
    wanted = f"--tag {tag}:{__version__}{options} --build-arg A=b ."
    checkout.write("buildah", 'echo "buildah $*"')
    checkout.write("docker", "exit 1")
    arguments = "ARGS=--build-arg A=b"
    without_daemon = checkout.run("make", "-s", target, arguments)
    assert without_daemon.stdout == f"buildah build --layers --isolation chroot {wanted}\n"
    checkout.write("docker", '[ "$1" = info ] || echo "docker $*"')
    assert checkout.run("make", "-s", target, arguments).stdout == f"docker build {wanted}\n"


def test_an_image_can_be_built_by_the_tool_that_is_named(checkout: Checkout) -> None:
    for tool in ("buildah", "docker"):
        checkout.write(tool, f'echo "{tool} $1"')
    named = checkout.run("env", "BUILDER=buildah", "deploy/image/build", "it:1")
    assert named.stdout == "buildah build\n"
    unknown = checkout.run("env", "BUILDER=podman", "deploy/image/build", "it:1")
    assert (unknown.returncode, "built by docker or buildah" in unknown.stderr) == (2, True)


def test_without_docker_and_buildah_no_image_is_built(checkout: Checkout) -> None:
    result = checkout.run("make", "-s", "image")
    assert result.returncode != 0
    assert "apt-get install buildah" in result.stderr


def complete(checkout: Checkout, make: str) -> None:
    """Give the machine all that .ci/run needs; ``make`` is what make does."""
    checkout.write("python3", stand_in_python("ensurepip pip"))
    for tool in ("chromium", "promtool", "prometheus"):
        checkout.write(tool, "")
    (checkout.bin / "make").unlink()
    checkout.write("make", make)


def test_ci_checks_while_it_tests_and_then_runs_real_nodes(checkout: Checkout) -> None:
    complete(checkout, 'echo "make $*"')
    result = checkout.run("bash", ".ci/run")
    assert result.returncode == 0, result.stderr
    *both, nodes = result.stdout.splitlines()
    assert sorted(both) == ["make check", "make test"]
    assert nodes == "make node-test"


@pytest.mark.parametrize("failing", ["check", "test", "node-test"])
def test_ci_fails_if_a_part_of_it_does(checkout: Checkout, failing: str) -> None:
    complete(checkout, f'echo "make $*"; [ "$1" != {failing} ] || exit 2')
    result = checkout.run("bash", ".ci/run")
    assert result.returncode == 2
    assert ("make node-test" in result.stdout) is (failing == "node-test")


def test_ci_runs_three_files_on_real_nodes_when_half_an_hour_has_passed(checkout: Checkout) -> None:
    complete(checkout, 'echo "make $*"')
    result = checkout.run("bash", "-c", "SECONDS=1600; . .ci/run")
    assert result.returncode == 0, result.stderr
    files = [f"tests/e2e/{name}.py" for name in ("on_nodes", "in_containers", "life")]
    assert result.stdout.splitlines()[-1] == f"make node-test ARGS={' '.join(files)}"


def test_ci_says_that_real_nodes_are_left_out_when_its_hour_is_late(checkout: Checkout) -> None:
    complete(checkout, 'echo "make $*"')
    result = checkout.run("bash", "-c", "SECONDS=2500; . .ci/run")
    assert result.returncode == 0, result.stderr
    assert "left out: 41 of 60 minutes have passed" in result.stdout
    assert "make node-test" not in result.stdout.splitlines()


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
        assert (
            "install --yes --no-install-recommends python3-venv make gcc libc6-dev chromium fonts-dejavu-core"
            in result.stdout
        )
    else:
        assert result.returncode == 1
        assert "lacks: python3-venv make gcc libc6-dev chromium fonts-dejavu-core" in result.stderr
