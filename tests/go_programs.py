"""Programs of other projects, each built once from its Go module into the user's cache, as the control plane is.

Invariants: a file that stands in the cache under its name is complete (it is built under another name and renamed); two
processes that need it build it only once (a file lock).
"""

from __future__ import annotations

import fcntl
import json
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.localcluster.binaries import cache_folder
from tests.localcluster.toolchain import find_go, go_environment

FLAGS = ("-trimpath", "-gcflags=all=-dwarf=false", "-ldflags=-s -w")


def built(name: str, module: str, version: str, package: str = ".") -> Path:
    """Return the path of a program; ``package`` is its folder in the module."""
    return _cached(name, version, lambda: _download(module, version) / package, FLAGS)


def compiled(name: str, source: Path, version: str, flags: Sequence[str] = FLAGS) -> Path:
    """Return the path of a program whose sources, with go.mod and go.sum, are in the folder ``source``."""
    return _cached(name, version, lambda: source, flags)


def _cached(name: str, version: str, source: Callable[[], Path], flags: Sequence[str]) -> Path:
    folder = cache_folder() / name
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{name}-{version}-{sys.platform}-{platform.machine()}"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            with tempfile.TemporaryDirectory(dir=folder) as scratch:
                made = Path(scratch, name)
                _go("build", "-o", str(made), *flags, folder=source())
                made.rename(target)
    return target


def _download(module: str, version: str) -> Path:
    """Return the folder of a module's sources, which is read-only."""
    return Path(
        json.loads(_go("mod", "download", "-json", f"{module}@{version}", folder=cache_folder()))["Dir"]
    )


def _go(*arguments: str, folder: Path) -> str:
    command = [str(find_go(cache_folder()).path), *arguments]
    environment = go_environment()
    return subprocess.run(
        command, env=environment, cwd=folder, stdout=subprocess.PIPE, text=True, check=True
    ).stdout
