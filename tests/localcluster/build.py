"""Builds the program that is the whole control plane, and says meanwhile how far it is.

The first build on a machine compiles some two thousand packages, so a line says how many are done, and how long the
last build took here.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Callable, Collection
from pathlib import Path

import msgspec

from tests.localcluster import recipe
from tests.localcluster.errors import BuildFailed
from tests.localcluster.progress import step
from tests.localcluster.toolchain import Go, go_environment

ERROR_LINES = 30
MODULE = "fluence-extender.local/controlplane"
"""The package of the main function (see go.mod), which is compiled last."""


class BuildRecord(msgspec.Struct, frozen=True):
    """What a build did: how many packages it compiled, and how long it took in all."""

    packages: int
    seconds: float

    def __str__(self) -> str:
        minutes, seconds = divmod(round(self.seconds), 60)
        took = f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
        return f"{self.packages} packages in {took}"


def build(go: Go, target: Path, record: Path) -> None:
    """Build the program as ``target``, and write to ``record`` how long it took. Raise `BuildFailed`."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".build-", dir=target.parent) as scratch:
        with step("copying the control plane's Go modules, and downloading those that are missing"):
            packages = _lay_out(go, Path(scratch))
        built = Path(scratch, "built")
        begun = time.monotonic()
        with step(_title(read_record(record))) as tell:
            compiled = _compile(go, built, packages, tell)
        built.rename(target)
        _write_record(record, BuildRecord(compiled, time.monotonic() - begun))


def _title(last: BuildRecord | None) -> str:
    title = f"building the control plane (Kubernetes {recipe.KUBERNETES_VERSION}, etcd {recipe.ETCD_VERSION})"
    return f"{title}; last time: {last}" if last else title


def read_record(path: Path) -> BuildRecord | None:
    """Return what the last build on this machine did, None if there is no readable record."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=BuildRecord)
    except (OSError, msgspec.MsgspecError):
        return None


def _write_record(path: Path, record: BuildRecord) -> None:
    path.write_bytes(msgspec.json.encode(record))


def _lay_out(go: Go, folder: Path) -> set[str]:
    """Write all that the program is made from to ``folder``, and return the import paths of its packages."""
    for path, content in recipe.sources().items():
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
        env=go_environment(os.environ),
        capture_output=True,
        text=True,
        check=False,
    )
    if outcome.returncode != 0:
        lines = (outcome.stdout + outcome.stderr).splitlines()
        raise BuildFailed(f"go {arguments[0]}", outcome.returncode, lines[-ERROR_LINES:])
    return outcome.stdout


def _compile(go: Go, built: Path, packages: Collection[str], tell: Callable[[str], None]) -> int:
    """Build the program in the folder of ``built``, and return how many packages were compiled."""
    compiled = 0
    others: deque[str] = deque(maxlen=ERROR_LINES)
    with subprocess.Popen(
        [go.path, "build", "-v", *recipe.FLAGS, "-o", built, "."],
        cwd=built.parent,
        env=go_environment(os.environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout
        # With -v, go names each package that it compiles. What earlier builds left in its cache isn't named.
        for line in map(str.strip, process.stdout):
            if line == MODULE:
                tell("linking")
            elif line in packages:
                compiled += 1
                tell(f"{compiled} of at most {len(packages)} packages compiled")
            else:
                others.append(line)
    if process.returncode != 0 or not built.is_file():
        raise BuildFailed("go build", process.returncode, others)
    return compiled
