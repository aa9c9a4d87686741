"""Which binaries make up a control plane, which Go modules they are built from, and the cache key of a build.

The modules are pinned by go.mod and go.sum files in this package. They hold no Go source: each names the wanted
commands as tools of the module. Invariant: the same pinned files on the same platform give the same key, and any change
to them gives another key.
"""

from __future__ import annotations

import hashlib
import platform
import sys
from dataclasses import dataclass
from importlib import resources

KUBERNETES_VERSION = "v1.36.3"
ETCD_VERSION = "v3.6.16"
KWOK_VERSION = "v0.8.0"

PINS = ("go.mod", "go.sum")


@dataclass(frozen=True, slots=True)
class Module:
    """One pinned Go module; ``name`` is its folder under gomodules, ``version`` the version of its programs."""

    name: str
    version: str
    stamps: tuple[tuple[str, str], ...] = ()

    def pins(self) -> dict[str, bytes]:
        """Return the contents of its go.mod and go.sum."""
        folder = resources.files("fluence_extender.localcluster") / "gomodules" / self.name
        return {pin: (folder / pin).read_bytes() for pin in PINS}

    def ldflags(self) -> str:
        """Return the linker flags: no debug tables, and the version, without which a server reports v0.0.0."""
        return " ".join(["-s", "-w", *(f"-X {variable}={value}" for variable, value in self.stamps)])

    def key(self, system: str = sys.platform, machine: str = platform.machine()) -> str:
        """Return the name of its cache folder: name, version, platform, and a hash of all that affects the build."""
        digest = hashlib.sha256()
        for pin, content in sorted(self.pins().items()):
            digest.update(pin.encode() + b"\0" + content + b"\0")
        digest.update(self.ldflags().encode())
        return f"{self.name}-{self.version}-{system}-{machine}-{digest.hexdigest()[:12]}"


_VERSION = "k8s.io/component-base/version"
_MAJOR, _MINOR, _ = KUBERNETES_VERSION.removeprefix("v").split(".")

KUBERNETES = Module(
    "kubernetes",
    KUBERNETES_VERSION,
    (
        (f"{_VERSION}.gitVersion", KUBERNETES_VERSION),
        (f"{_VERSION}.gitMajor", _MAJOR),
        (f"{_VERSION}.gitMinor", _MINOR),
        (f"{_VERSION}.gitTreeState", "clean"),
    ),
)
ETCD = Module("etcd", ETCD_VERSION)
KWOK = Module("kwok", KWOK_VERSION, (("sigs.k8s.io/kwok/pkg/consts.Version", KWOK_VERSION),))


@dataclass(frozen=True, slots=True)
class ControlPlaneCommand:
    """One binary: its file name, the pinned module that builds it, and the Go package of its main function."""

    binary: str
    module: Module
    package: str


COMMANDS = (
    ControlPlaneCommand("kube-scheduler", KUBERNETES, "k8s.io/kubernetes/cmd/kube-scheduler"),
    ControlPlaneCommand("kube-apiserver", KUBERNETES, "k8s.io/kubernetes/cmd/kube-apiserver"),
    ControlPlaneCommand(
        "kube-controller-manager", KUBERNETES, "k8s.io/kubernetes/cmd/kube-controller-manager"
    ),
    ControlPlaneCommand("etcd", ETCD, "go.etcd.io/etcd/server/v3"),
    ControlPlaneCommand("kwok", KWOK, "sigs.k8s.io/kwok/cmd/kwok"),
)
