"""A real Kubernetes control plane on loopback, without containers and without root, for tests and the demo.

What a scheduler extender does shows only against the real thing: a stock kube-scheduler, a real API server, real
controllers. This room builds etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok from pinned Go
modules once, runs them in a folder of their own, and plays the one part that kwok leaves out: kubelet's admission.

Invariants: nothing of it outlives the process that started it, however that process ends; two control planes at once
share nothing but the built binaries; it imports no other room, so that it can judge them.
"""

from fluence_extender.localcluster.api import Api, ApiError
from fluence_extender.localcluster.binaries import Binaries, ensure_binaries
from fluence_extender.localcluster.controlplane import ControlPlane
from fluence_extender.localcluster.errors import (
    BuildFailed,
    FolderInUse,
    GoMissing,
    LocalClusterError,
    StartFailed,
    TimedOut,
)
from fluence_extender.localcluster.judge import KubeletJudge, Violation
from fluence_extender.localcluster.process import Component
from fluence_extender.localcluster.progress import ConsoleProgress, Progress, Silent

__all__ = [
    "Api",
    "ApiError",
    "Binaries",
    "BuildFailed",
    "Component",
    "ConsoleProgress",
    "ControlPlane",
    "FolderInUse",
    "GoMissing",
    "KubeletJudge",
    "LocalClusterError",
    "Progress",
    "Silent",
    "StartFailed",
    "TimedOut",
    "Violation",
    "ensure_binaries",
]
