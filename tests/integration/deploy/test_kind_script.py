"""tests/kind/run.sh, run with stand-ins for docker, kind and kubectl that write down what they are asked."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from fluence_extender import __version__

IMAGE = f"fluence-extender:{__version__}"


class Machine:
    """A PATH of its own: a few basic tools, and stand-ins that log their command lines."""

    def __init__(self, folder: Path, project: Path) -> None:
        self.bin = folder / "bin"
        self.log = folder / "log"
        self.project = project
        self.bin.mkdir()
        for tool in ("bash", "dirname", "mktemp", "rm", "sed", "sort", "true", "touch", "cat"):
            found = shutil.which(tool)
            assert found
            (self.bin / tool).symlink_to(found)

    def stand_in(self, name: str, script: str = "exit 0") -> Path:
        path = self.bin / name
        path.write_text(f'#!/usr/bin/env bash\nprintf "%s\\n" "{name} $*" >>"{self.log}"\n{script}\n')
        path.chmod(0o755)
        return path

    def run(self, **environment: str) -> subprocess.CompletedProcess[str]:
        script = self.project / "tests" / "kind" / "run.sh"
        env = {"PATH": str(self.bin), "TMPDIR": str(self.bin.parent), **environment}
        return subprocess.run(
            [str(self.bin / "bash"), str(script), "-k", "gang"],
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )

    def asked(self) -> list[list[str]]:
        return [shlex.split(line) for line in self.log.read_text().splitlines()]


@pytest.fixture
def machine(tmp_path: Path, project: Path) -> Machine:
    return Machine(tmp_path, project)


def complete(machine: Machine, pytest_exits: int = 0) -> dict[str, str]:
    """All tools are there; kind writes a kubeconfig as the real one does."""
    machine.stand_in("docker")
    machine.stand_in("kind", '[ "$1 $2" != "create cluster" ] || touch "$KUBECONFIG"')
    machine.stand_in(
        "kubectl", f'[ "$1" != kustomize ] || printf "%s\\n" "        image: {IMAGE}" "      image: {IMAGE}"'
    )
    return {"PYTHON": str(machine.stand_in("python", f"exit {pytest_exits}"))}


def test_it_names_every_tool_that_is_missing(machine: Machine) -> None:
    result = machine.run()
    assert result.returncode == 1
    assert "kind-test needs docker kind" in result.stderr


def test_it_says_when_the_docker_daemon_does_not_answer(machine: Machine) -> None:
    complete(machine)
    machine.stand_in("docker", 'echo "Cannot connect to the Docker daemon" >&2; exit 1')
    result = machine.run()
    assert result.returncode == 1
    assert "needs a running Docker daemon" in result.stderr
    assert "Cannot connect to the Docker daemon" in result.stderr
    assert ["kind"] not in [call[:1] for call in machine.asked()]


def test_it_builds_loads_applies_and_tests_then_removes_the_cluster(machine: Machine) -> None:
    result = machine.run(**complete(machine))
    assert result.returncode == 0, result.stderr
    calls = machine.asked()
    kubeconfig = calls[-2][calls[-2].index("--kubeconfig") + 1]
    create = ["kind", "create", "cluster", "--name", "fluence-test"]
    rollout = ["kubectl", "rollout", "status", "--namespace", "fluence-system"]
    assert calls == [
        ["docker", "info"],
        ["kubectl", "kustomize", "deploy"],
        ["docker", "build", "--tag", IMAGE, "."],
        [*create, "--config", "deploy/kind-config.yaml", "--wait", "180s"],
        ["kind", "load", "docker-image", IMAGE, "--name", "fluence-test"],
        ["kubectl", "apply", "-k", "deploy"],
        [*rollout, "deployment/fluence", "--timeout", "300s"],
        [*rollout, "deployment/fluence-webhook", "--timeout", "300s"],
        [
            "python",
            "-m",
            "pytest",
            # One word, which the stand-in writes down as two.
            "--override-ini=python_files=test_*.py",
            "in_containers.py",
            "tests/e2e",
            "--kubeconfig",
            kubeconfig,
            "-k",
            "gang",
        ],
        ["kind", "delete", "cluster", "--name", "fluence-test"],
    ]
    assert not Path(kubeconfig).exists()


def test_the_files_it_names_are_there(machine: Machine) -> None:
    for name in (
        "Dockerfile",
        "deploy/kind-config.yaml",
        "deploy/kustomization.yaml",
        "tests/e2e/conftest.py",
    ):
        assert (machine.project / name).is_file()
    assert os.access(machine.project / "tests" / "kind" / "run.sh", os.X_OK)


def test_failed_tests_fail_it_and_leave_the_logs_of_the_pod(machine: Machine) -> None:
    result = machine.run(**complete(machine, pytest_exits=1))
    assert result.returncode == 1
    *logs, removed = machine.asked()[-3:]
    assert [one[:4] for one in logs] == [["kubectl", "logs", "--namespace", "fluence-system"]] * 2
    assert [one[4] for one in logs] == ["deployment/fluence", "deployment/fluence-webhook"]
    assert removed == ["kind", "delete", "cluster", "--name", "fluence-test"]


def test_a_cluster_that_is_kept_says_how_to_reach_and_remove_it(machine: Machine) -> None:
    result = machine.run(**complete(machine), KEEP_CLUSTER="1")
    assert result.returncode == 0
    assert "kind delete cluster --name fluence-test" in result.stdout
    assert ["kind", "delete"] not in [call[:2] for call in machine.asked()]


def test_the_image_it_looks_for_is_the_one_deployed(deployed: dict[str, list[dict[str, object]]]) -> None:
    assert IMAGE in str(deployed["deploy"])
