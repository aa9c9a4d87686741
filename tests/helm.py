"""Helm, built once from its Go module into the user's cache, as the control plane is.

Invariants: a file that stands in the cache under its name is complete (it is built under another name and renamed); two
processes that need it build it only once (a file lock).
"""

from __future__ import annotations

import fcntl
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

from fluence_extender.localcluster.binaries import cache_folder
from fluence_extender.localcluster.toolchain import find_go, go_environment

VERSION = "v3.22.0"
PACKAGE = f"helm.sh/helm/v3/cmd/helm@{VERSION}"
FLAGS = ("-trimpath", "-gcflags=all=-dwarf=false", "-ldflags=-s -w")
CHART = Path(__file__).parents[1] / "deploy" / "helm"


def helm(*arguments: str, kubeconfig: Path | None = None) -> subprocess.CompletedProcess[str]:
    """What Helm did with ``arguments``, whether it failed or not."""
    command = [_program(), *arguments, *(("--kubeconfig", kubeconfig) if kubeconfig else ())]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _program() -> Path:
    """Its path. From nothing that takes about four minutes on two cores, downloads included."""
    folder = cache_folder() / "helm"
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"helm-{VERSION}-{sys.platform}-{platform.machine()}"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            with tempfile.TemporaryDirectory(dir=folder) as scratch:
                environment = go_environment(os.environ) | {"GOBIN": scratch}
                go = find_go(cache_folder()).path
                subprocess.run([go, "install", *FLAGS, PACKAGE], env=environment, check=True)
                Path(scratch, "helm").rename(target)
    return target
