"""The programs of a control plane: found, or built once into the user's cache.

Invariants: a file that stands in the cache under its name is complete (it is built under another name and renamed); two
processes that need the same program build it only once (a file lock); only the program's sources decide what is built.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.localcluster import recipe
from tests.localcluster.build import build
from tests.localcluster.toolchain import find_go, say

ASSETS = "KUBEBUILDER_ASSETS"


def cache_folder() -> Path:
    """Return the project's folder in the user's cache: under ``$XDG_CACHE_HOME`` if absolute, else ``~/.cache``."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():
        base = Path(os.environ.get("HOME") or Path.home()) / ".cache"
    return base / "fluence-extender"


def _locate(component: str, built: Path) -> Path:
    """Return the program of ``component``: in the folder ``KUBEBUILDER_ASSETS`` if it is there, else in ``built``."""
    assets = os.environ.get(ASSETS)
    if assets and _runnable(Path(assets) / component):
        return (Path(assets) / component).absolute()
    return built / component


def ensure_binaries() -> dict[str, Path]:
    """Return the program of each component by its name (``etcd``), and build those that are missing.

    They are of the release that `recipe.release` names. From nothing that takes about six minutes on two idle cores.
    Raise `GoMissing` or `BuildFailed`.
    """
    cache = cache_folder()
    folder = cache / "controlplane"
    release = recipe.release()
    built = folder / recipe.key(release)
    paths = {component: _locate(component, built) for component in recipe.COMPONENTS}
    if not all(map(_runnable, paths.values())):
        with _locked(folder / "lock"):
            if not _runnable(built / recipe.PROGRAM):
                build(find_go(cache), release, built / recipe.PROGRAM)
            for component in recipe.COMPONENTS:
                _link(built / component)
    return paths


def _runnable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _link(path: Path) -> None:
    if not _runnable(path):
        path.unlink(missing_ok=True)
        path.symlink_to(recipe.PROGRAM)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another process that builds the control plane")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
