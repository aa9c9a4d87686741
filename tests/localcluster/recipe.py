"""What the local control plane is built from, and the cache key of the build.

All components are one Go program, which runs as the component by whose name it is called. So what they share is
compiled once and linked once. Its sources stand in the folder ``program`` of this package. For each release of
Kubernetes that the tests run on, all Go modules are pinned by a go.mod and a go.sum of its own. Two changes to these
modules spare every twelfth package: `LEFT_OUT`, and the packages in the folder ``program/instead``, which take the
place of those with the same path.

Invariant: the same sources on the same platform give the same key, and any change to them gives another key.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.localcluster.errors import LocalClusterError


@dataclass(frozen=True, slots=True)
class Release:
    """The versions of one release of Kubernetes, as its tags name them, and how it serves native PodGroups."""

    kubernetes: str
    etcd: str
    pod_groups: str
    pod_group_condition: str

    @property
    def modules(self) -> Path:
        """The folder of the program's go.mod and go.sum."""
        return PROGRAM_FOLDER / "modules" / self.kubernetes.removeprefix("v").rpartition(".")[0]

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags of the build. The version is stamped, or a server reports v0.0.0."""
        major, minor, _ = self.kubernetes.removeprefix("v").split(".")
        stamps = {
            "gitVersion": self.kubernetes,
            "gitMajor": major,
            "gitMinor": minor,
            "gitTreeState": "clean",
        }
        return (
            "-mod=vendor",
            *FLAGS,
            " ".join([LDFLAGS, *(f"-X {_STAMPED}.{n}={v}" for n, v in stamps.items())]),
        )


PROGRAM_FOLDER = Path(__file__).parent / "program"
RELEASES = {
    "1.36": Release("v1.36.3", "v3.6.16", "scheduling.k8s.io/v1alpha2", "PodGroupScheduled"),
    "1.37": Release("v1.37.2", "v3.7.0", "scheduling.k8s.io/v1beta1", "PodGroupInitiallyScheduled"),
}
VARIABLE = "KUBERNETES"
"""The environment variable that names the release to test on, such as 1.37; without it the first one is used."""


def release() -> Release:
    """Return the release that is tested on. Raise `LocalClusterError` if there is no such one."""
    name = os.environ.get(VARIABLE) or next(iter(RELEASES))
    if name not in RELEASES:
        raise LocalClusterError(
            f"{VARIABLE}={name}: there is no such release here; take {' or '.join(RELEASES)}"
        )
    return RELEASES[name]


PROGRAM = "controlplane"
COMPONENTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelets")
"""The names by which the program is called; see main.go."""

_STAMPED = "k8s.io/component-base/version"

# Neither the compiler nor the linker writes debug tables.
FLAGS = ("-trimpath", "-gcflags=all=-dwarf=false")
LDFLAGS = "-ldflags=-s -w"


# Files that only tests of other packages use. Nothing else needs the client's fakes.
LEFT_OUT = (
    "k8s.io/apiserver/pkg/admission/plugin/policy/generic/policy_test_context.go",
    "k8s.io/kubernetes/pkg/scheduler/backend/queue/testing.go",
)
INSTEAD = "instead"


def sources(of: Release) -> dict[str, bytes]:
    """Return the program's sources by their paths: Go code, go.mod and go.sum."""
    code = {file.relative_to(PROGRAM_FOLDER).as_posix(): file for file in PROGRAM_FOLDER.rglob("*.go")}
    pins = {name: of.modules / name for name in ("go.mod", "go.sum")}
    return {path: file.read_bytes() for path, file in {**code, **pins}.items()}


def key(of: Release) -> str:
    """Return the name of the program's cache folder: version, platform, and a hash of all that affects the build."""
    digest = hashlib.sha256("\0".join((*of.flags, *LEFT_OUT)).encode())
    for name, text in sorted(sources(of).items()):
        digest.update(name.encode() + b"\0" + text + b"\0")
    return f"kubernetes-{of.kubernetes}-{sys.platform}-{platform.machine()}-{digest.hexdigest()[:12]}"
