"""The control plane's binaries: found, or built once into the user's cache.

Invariants: a file that stands in the cache under its name is whole (it is built beside and renamed); two processes that
need the same binary build it once (a file lock); what is built is decided by the pinned modules alone.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fluence_extender.localcluster.errors import BuildFailed
from fluence_extender.localcluster.golang import Go, find_go, go_environment
from fluence_extender.localcluster.progress import ConsoleProgress, Progress
from fluence_extender.localcluster.recipe import COMMANDS, Command

ASSETS = "KUBEBUILDER_ASSETS"


@dataclass(frozen=True, slots=True)
class Binaries:
    """Where each binary is, by its name (``kube-apiserver``, ``etcd``, ...)."""

    paths: Mapping[str, Path]

    def __getitem__(self, binary: str) -> Path:
        return self.paths[binary]


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """The project's folder in the user's cache: under ``$XDG_CACHE_HOME`` if absolute, else ``~/.cache``."""
    base = Path(environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():
        base = Path(environ.get("HOME") or Path.home()) / ".cache"
    return base / "fluence-extender"


def locate(command: Command, cache: Path, environ: Mapping[str, str] = os.environ) -> Path:
    """Where ``command`` is or shall be: in ``KUBEBUILDER_ASSETS`` if that folder holds it, else in the cache."""
    assets = environ.get(ASSETS)
    if assets and _runnable(Path(assets) / command.binary):
        return (Path(assets) / command.binary).absolute()
    return cache / "controlplane" / command.module.key() / command.binary


def ensure_binaries(progress: Progress | None = None) -> Binaries:
    """All binaries of `COMMANDS`, building those that are missing (about 7 minutes on 2 cores when none is there).

    Raises `GoMissing` and `BuildFailed`.
    """
    shown = progress or ConsoleProgress()
    cache = cache_folder()
    paths = {command.binary: locate(command, cache) for command in COMMANDS}
    if not all(map(_runnable, paths.values())):
        with _locked(cache / "controlplane" / "lock", shown):
            missing = [command for command in COMMANDS if not _runnable(paths[command.binary])]
            _build_all(missing, paths, cache, shown)
    return Binaries(paths)


def _runnable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


@contextmanager
def _locked(path: Path, progress: Progress) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with progress.step("waiting for another process that builds the control plane"):
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build_all(commands: list[Command], paths: Mapping[str, Path], cache: Path, progress: Progress) -> None:
    if not commands:
        return
    go = find_go(cache, progress)
    for number, command in enumerate(commands, 1):
        title = f"building {command.binary} {command.module.version} ({number} of {len(commands)})"
        with progress.step(title):
            _build(go, command, paths[command.binary])


def _build(go: Go, command: Command, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".build-", dir=target.parent) as scratch:
        for pin, content in command.module.pins().items():
            Path(scratch, pin).write_bytes(content)
        built = Path(scratch, command.binary)
        flags = ["-mod=readonly", "-trimpath", "-ldflags", command.module.ldflags(), "-o", str(built)]
        outcome = subprocess.run(
            [go.path, "build", *flags, command.package],
            cwd=scratch,
            env=go_environment(os.environ),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if outcome.returncode != 0 or not _runnable(built):
            raise BuildFailed(command.binary, "\n".join(outcome.stdout.splitlines()[-30:]))
        built.rename(target)
