"""Builds the program that is the whole control plane, and says meanwhile how far it is.

The first build on a machine compiles some two thousand packages, so a line says now and then how many are done.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Collection
from pathlib import Path

from tests.localcluster import recipe
from tests.localcluster.errors import BuildFailed
from tests.localcluster.recipe import Release
from tests.localcluster.toolchain import Go, go_environment, say

ERROR_LINES = 30
LINE_SECONDS = 30.0


def build(go: Go, release: Release, target: Path) -> None:
    """Build the program as ``target``. Raise `BuildFailed`."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".build-", dir=target.parent) as scratch:
        begun = time.monotonic()
        say(
            f"building the control plane (Kubernetes {release.kubernetes}, etcd {release.etcd}): its modules first"
        )
        packages = _lay_out(go, release, Path(scratch))
        built = Path(scratch, "built")
        _compile(go, release, built, packages)
        built.rename(target)
        say(f"the control plane is built, after {time.monotonic() - begun:.0f} s")


def _lay_out(go: Go, release: Release, folder: Path) -> set[str]:
    """Write all that the program is made from to ``folder``, and return the import paths of its packages."""
    for path, content in recipe.sources(release).items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    _run(go, folder, "mod", "vendor")
    for path in recipe.LEFT_OUT:
        (folder / "vendor" / path).unlink()
    for file in (folder / recipe.INSTEAD).rglob("*.go"):
        place = folder / "vendor" / file.relative_to(folder / recipe.INSTEAD)
        for replaced in place.parent.glob("*.go"):
            replaced.unlink()
        file.rename(place)
    return set(_run(go, folder, "list", "-mod=vendor", "-deps").split())


def _run(go: Go, folder: Path, *arguments: str) -> str:
    outcome = subprocess.run(
        [go.path, *arguments],
        cwd=folder,
        env=go_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if outcome.returncode != 0:
        lines = (outcome.stdout + outcome.stderr).splitlines()
        raise BuildFailed(f"go {arguments[0]}", outcome.returncode, lines[-ERROR_LINES:])
    return outcome.stdout


def _compile(go: Go, release: Release, built: Path, packages: Collection[str]) -> None:
    compiled = 0
    others: deque[str] = deque(maxlen=ERROR_LINES)
    told = time.monotonic()
    with subprocess.Popen(
        [go.path, "build", "-v", *release.flags, "-o", built, "."],
        cwd=built.parent,
        env=go_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout
        # With -v, go names each package that it compiles. What earlier builds left in its cache isn't named.
        for line in map(str.strip, process.stdout):
            if line in packages:
                compiled += 1
                if time.monotonic() - told >= LINE_SECONDS:
                    told = time.monotonic()
                    say(f"{compiled} of at most {len(packages)} packages compiled")
            else:
                others.append(line)
    if process.returncode != 0 or not built.is_file():
        raise BuildFailed("go build", process.returncode, others)
