"""Binaries are taken from KUBEBUILDER_ASSETS or the cache; missing ones are built there once and completely."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from fluence_extender.localcluster.binaries import cache_folder, ensure_binaries, locate
from fluence_extender.localcluster.errors import BuildFailed
from fluence_extender.localcluster.recipe import COMMANDS, ETCD, KUBERNETES, KWOK, Module

NAMES = {"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd", "kwok"}

FAKE_GO = """#!/bin/sh
if [ "$1" = env ]; then echo go1.26.1; exit; fi
echo "$@" >> {calls}
test -f go.mod && test -f go.sum || exit 9
while [ "$1" != -o ]; do shift; done
printf '#!/bin/sh\\n' > "$2"
chmod +x "$2"
{then}
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, no assets, and a go that writes down how it was called and builds at once."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    fake_go(tmp_path)
    return tmp_path / "calls"


def fake_go(folder: Path, then: str = "") -> None:
    path = folder / "bin" / "go"
    path.parent.mkdir(exist_ok=True)
    path.write_text(FAKE_GO.format(calls=folder / "calls", then=then))
    path.chmod(0o755)


def test_key_names_module_version_platform_and_content() -> None:
    assert KWOK.key("linux", "x86_64").startswith("kwok-v0.8.0-linux-x86_64-")
    assert KWOK.key("linux", "x86_64") == KWOK.key("linux", "x86_64")
    assert KWOK.key("linux", "x86_64") != KWOK.key("linux", "aarch64")
    assert KWOK.key() != replace(KWOK, stamps=()).key()


def test_key_follows_the_pinned_files(monkeypatch: pytest.MonkeyPatch) -> None:
    before = ETCD.key()
    pins = ETCD.pins()
    monkeypatch.setattr(type(ETCD), "pins", lambda self: {**pins, "go.sum": pins["go.sum"] + b"\n"})
    assert ETCD.key() != before


@pytest.mark.parametrize(
    ("module", "path"),
    [(KUBERNETES, "k8s.io/kubernetes"), (ETCD, "go.etcd.io/etcd/server/v3"), (KWOK, "sigs.k8s.io/kwok")],
)
def test_module_pins_its_own_version(module: Module, path: str) -> None:
    required = module.pins()["go.mod"].decode().replace(" // indirect", "").splitlines()
    assert f"\t{path} {module.version}" in required


def test_every_command_is_a_tool_of_its_module() -> None:
    assert {command.binary for command in COMMANDS} == NAMES
    for command in COMMANDS:
        assert command.package.encode() in command.module.pins()["go.mod"]


def test_server_is_stamped_with_its_version() -> None:
    flags = KUBERNETES.ldflags()
    assert "-X k8s.io/component-base/version.gitVersion=v1.36.3" in flags
    assert "-X k8s.io/component-base/version.gitMinor=36" in flags


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"XDG_CACHE_HOME": "/xdg", "HOME": "/home/me"}, "/xdg/fluence-extender"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/home/me"}, "/home/me/.cache/fluence-extender"),
        ({"XDG_CACHE_HOME": "", "HOME": "/home/me"}, "/home/me/.cache/fluence-extender"),
    ],
)
def test_cache_folder_follows_the_xdg_rules(environ: dict[str, str], folder: str) -> None:
    assert cache_folder(environ) == Path(folder)


def test_programs_in_the_assets_folder_are_preferred(tmp_path: Path) -> None:
    asset = tmp_path / "etcd"
    asset.touch(0o755)
    (tmp_path / "kwok").touch(0o644)
    found = {
        command.binary: locate(command, Path("/cache"), {"KUBEBUILDER_ASSETS": str(tmp_path)})
        for command in COMMANDS
    }
    assert found.pop("etcd") == asset
    assert all(Path("/cache/controlplane") in path.parents for path in found.values())


def test_missing_binaries_are_built_once_without_touching_the_pins(calls: Path, tmp_path: Path) -> None:
    first = ensure_binaries()
    assert set(first) == NAMES
    assert all(tmp_path / "cache" in path.parents and path.stat().st_mode & 0o100 for path in first.values())
    built = calls.read_text().splitlines()
    assert len(built) == len(COMMANDS)
    assert all(line.startswith("build -mod=readonly -trimpath -ldflags") for line in built)
    assert ensure_binaries() == first
    assert calls.read_text().splitlines() == built


def test_only_what_is_missing_is_built(calls: Path) -> None:
    first = ensure_binaries()
    first["etcd"].unlink()
    calls.unlink()
    ensure_binaries()
    (line,) = calls.read_text().splitlines()
    assert line.endswith("go.etcd.io/etcd/server/v3")


def test_failed_build_shows_the_output_of_go_and_leaves_no_partial_file(calls: Path, tmp_path: Path) -> None:
    fake_go(tmp_path, "echo no space left on device >&2; exit 1")
    with pytest.raises(BuildFailed, match=r"kube-scheduler failed(.|\n)*no space left on device"):
        ensure_binaries()
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and path.name != "lock"]


ENSURE = """
from fluence_extender.localcluster.binaries import ensure_binaries
import json
print(json.dumps({name: str(path) for name, path in ensure_binaries().items()}))
"""


def test_two_processes_build_each_binary_once(calls: Path, tmp_path: Path) -> None:
    fake_go(tmp_path, "sleep 0.1")
    both = [
        subprocess.Popen([sys.executable, "-c", ENSURE], stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    answers = [json.loads(process.communicate()[0]) for process in both]
    assert answers[0] == answers[1]
    assert len(calls.read_text().splitlines()) == len(COMMANDS)
