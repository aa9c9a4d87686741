"""The programs of a node: kubelet and kube-proxy, built once from their Go modules, and those of the system's packages.

kubelet and kube-proxy are one program, which runs as the one by whose name it is called. The modules are those of the
local control plane (``tests/localcluster/program``), in the same versions.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from tests.go_programs import compiled
from tests.localcluster import recipe

HERE = Path(__file__).parent
KUBERNETES = recipe.RELEASES["1.36"].kubernetes
"""The version of kubelet and kube-proxy, which may be older than the control plane."""
BUILD_FLAGS = recipe.RELEASES["1.36"].flags[1:]
COMPONENTS = ("kubelet", "kube-proxy")
CNI = Path("/usr/lib/cni")

PACKAGES = {
    "containerd": "containerd",
    "runc": "runc",
    "nft": "nftables",
    "ip": "iproute2",
    "unshare": "util-linux",
    "buildah": "buildah",
    "debootstrap": "debootstrap",
}
"""Debian's packages by the programs that are needed of them. The CNI plugins are on no PATH."""


def kubelet() -> Path:
    """Return the program that is kubelet and kube-proxy; the first time it is built, which takes minutes."""
    folder = HERE / "program"
    return compiled("nodes", folder, f"{KUBERNETES}-{_digest(folder)}", BUILD_FLAGS)


def pause() -> Path:
    """Return the static program of a pod's sandbox."""
    folder = HERE / "pause"
    return compiled("pause", folder, _digest(folder), BUILD_FLAGS)


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for file in sorted(folder.iterdir()):
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def missing_packages() -> list[str]:
    """Return the packages whose programs this machine lacks."""
    found = [
        package for program, package in PACKAGES.items() if not shutil.which(program, path=search_path())
    ]
    if not (CNI / "ptp").exists():
        found.append("containernetworking-plugins")
    return found


def search_path() -> str:
    """Return the PATH of a system's programs; root's doesn't always have the folders of the administrator."""
    return ":".join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin"])


def program(name: str) -> str:
    """Return the path of a program of the system. Raise `FileNotFoundError`."""
    found = shutil.which(name, path=search_path())
    if not found:
        raise FileNotFoundError(name)
    return found


def install(packages: list[str]) -> None:
    """Install the packages. Raise `CalledProcessError`."""
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "--yes", "--no-install-recommends", *packages]):
        subprocess.run(["apt-get", "--quiet", "--quiet", *command], env=environ, check=True)
