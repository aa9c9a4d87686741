"""The programs of the nodes' rig and those of the local control plane are of one version."""

from __future__ import annotations

from pathlib import Path

from tests.localcluster import recipe
from tests.nodes import programs


def test_kubelet_is_of_the_control_planes_version() -> None:
    modules = Path(programs.HERE, "program", "go.mod").read_text()
    assert f"k8s.io/kubernetes {recipe.KUBERNETES_VERSION}\n" in modules


def test_shared_modules_are_the_same() -> None:
    """So most of what kubelet is compiled from is in Go's cache once the control plane is built."""
    theirs = {line.split()[0]: line.split()[1] for line in required(recipe.sources()["go.mod"].decode())}
    ours = {
        line.split()[0]: line.split()[1]
        for line in required(Path(programs.HERE, "program", "go.mod").read_text())
    }
    assert {name: version for name, version in ours.items() if name in theirs} == {
        name: version for name, version in theirs.items() if name in ours
    }


def required(modules: str) -> list[str]:
    """The modules of a go.mod with their versions."""
    return [line.strip() for line in modules.splitlines() if line.startswith("\t") and "=>" not in line]
