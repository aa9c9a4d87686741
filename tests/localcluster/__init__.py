"""A real Kubernetes control plane on loopback, without containers and without root, for tests.

Only a stock kube-scheduler, a real API server and real controllers show how a scheduler extender behaves. This room
builds etcd, kube-apiserver, kube-controller-manager and kube-scheduler once from pinned Go modules, and runs them in a
folder of their own. Nodes run nothing: their kubelets are played by a part of the same program (kubelets.go), which
admits every pod.

Invariants: no process outlives the process that started it, however that ends; two control planes at the same time
share only the built binaries; this room imports no other room, so that what runs on it is tried independently of them.
"""

from tests.localcluster.api import Api
from tests.localcluster.binaries import ensure_binaries
from tests.localcluster.controlplane import ControlPlane
from tests.localcluster.errors import (
    ApiError,
    BuildFailed,
    FolderInUse,
    GoMissing,
    LocalClusterError,
    StartFailed,
    TimedOut,
)
from tests.localcluster.process import Component

__all__ = [
    "Api",
    "ApiError",
    "BuildFailed",
    "Component",
    "ControlPlane",
    "FolderInUse",
    "GoMissing",
    "LocalClusterError",
    "StartFailed",
    "TimedOut",
    "ensure_binaries",
]
