"""Programs of other projects, each built once from its Go module into the user's cache, as the control plane is.

Invariants: a file that stands in the cache under its name is complete (it is built under another name and renamed); two
processes that need it build it only once (a file lock).
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

from fluence_extender.localcluster.binaries import cache_folder
from fluence_extender.localcluster.toolchain import find_go, go_environment

FLAGS = ("-trimpath", "-gcflags=all=-dwarf=false", "-ldflags=-s -w")


def built(name: str, module: str, version: str, package: str = ".") -> Path:
    """Return the path of a program; ``package`` is its folder in the module."""
    folder = cache_folder() / name
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{name}-{version}-{sys.platform}-{platform.machine()}"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            with tempfile.TemporaryDirectory(dir=folder) as scratch:
                made = Path(scratch, name)
                environment = go_environment(os.environ)
                go = find_go(cache_folder()).path
                download = [str(go), "mod", "download", "-json", f"{module}@{version}"]
                found = subprocess.run(
                    download, env=environment, cwd=scratch, stdout=subprocess.PIPE, check=True
                )
                source = Path(json.loads(found.stdout)["Dir"], package)
                subprocess.run(
                    [str(go), "build", "-o", str(made), *FLAGS], env=environment, cwd=source, check=True
                )
                made.rename(target)
    return target
