"""What the local control plane is built from, and the cache key of the build.

All components are one Go program, which runs as the component by whose name it is called. So what they share is
compiled once and linked once. Its sources stand in the folder ``program`` of this package, with all Go modules pinned
by go.mod and go.sum. Two changes to these modules spare every twelfth package: `LEFT_OUT`, and the packages in the
folder ``program/instead``, which take the place of those with the same path.

Invariant: the same sources on the same platform give the same key, and any change to them gives another key.
"""

from __future__ import annotations

import hashlib
import platform
import sys
from collections.abc import Mapping
from pathlib import Path

KUBERNETES_VERSION = "v1.36.3"
ETCD_VERSION = "v3.6.16"

PROGRAM = "controlplane"
COMPONENTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelets")
"""The names by which the program is called; see main.go."""

_STAMPED = "k8s.io/component-base/version"
_MAJOR, _MINOR, _ = KUBERNETES_VERSION.removeprefix("v").split(".")
_STAMPS = {"gitVersion": KUBERNETES_VERSION, "gitMajor": _MAJOR, "gitMinor": _MINOR, "gitTreeState": "clean"}

# Neither the compiler nor the linker writes debug tables. The version is stamped, or a server reports v0.0.0.
FLAGS = (
    "-mod=vendor",
    "-trimpath",
    "-gcflags=all=-dwarf=false",
    "-ldflags="
    + " ".join(["-s", "-w", *(f"-X {_STAMPED}.{name}={value}" for name, value in _STAMPS.items())]),
)


# Files that only tests of other packages use. Nothing else needs the client's fakes.
LEFT_OUT = (
    "k8s.io/apiserver/pkg/admission/plugin/policy/generic/policy_test_context.go",
    "k8s.io/kubernetes/pkg/scheduler/backend/queue/testing.go",
)
INSTEAD = "instead"


def sources() -> dict[str, bytes]:
    """Return the program's sources by their paths: Go code, go.mod and go.sum."""
    folder = Path(__file__).parent / "program"
    files = (file for pattern in ("*.go", "go.mod", "go.sum") for file in folder.rglob(pattern))
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


def key(content: Mapping[str, bytes], system: str = sys.platform, machine: str = platform.machine()) -> str:
    """Return the name of the program's cache folder: version, platform, and a hash of all that affects the build."""
    digest = hashlib.sha256("\0".join((*FLAGS, *LEFT_OUT)).encode())
    for name, text in sorted(content.items()):
        digest.update(name.encode() + b"\0" + text + b"\0")
    return f"kubernetes-{KUBERNETES_VERSION}-{system}-{machine}-{digest.hexdigest()[:12]}"
