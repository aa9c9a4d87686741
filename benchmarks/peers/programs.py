"""The peers' programs, built once from their Go modules into the user's cache; and their versions, pinned here alone.

Each is built as its own project builds it: in the module itself, with the dependencies that its go.mod and go.sum pin.
Go checks the module against the checksum database. The same folder holds the files that users of a peer install, such
as the definitions of its resources. A program that stands in the cache under its name is complete (it is built under
another name and renamed), and is used as it is.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.localcluster import LocalClusterError
from tests.localcluster.binaries import cache_folder
from tests.localcluster.toolchain import find_go, go_environment, say

ERROR_LINES = 10
FLAGS = ("-p=1", "-mod=readonly", "-trimpath", "-gcflags=all=-dwarf=false", "-ldflags=-s -w")
"""Only one package is compiled at a time, because a build here shouldn't stop other work on the machine."""

GENTLY = ("nice", "-n", "10")


class NotBuilt(LocalClusterError):
    """A peer's module couldn't be downloaded or built."""

    def __init__(self, what: str, said: str) -> None:
        super().__init__(f"{what} failed: " + "\n".join(said.splitlines()[-ERROR_LINES:]))


@dataclass(frozen=True, slots=True)
class Module:
    """A Go module of one version.

    Some modules require another one that only their repository has. ``part`` names a published version of that one, as
    PATH@VERSION; the build uses it.
    """

    path: str
    version: str
    part: str = ""

    def __str__(self) -> str:
        return f"{self.path} {self.version}"

    def program(self, package: str) -> Path:
        """Return the program that is the main ``package`` (a path such as cmd/scheduler); build it if it is missing.

        Raise `NotBuilt` or `GoMissing`.
        """
        where = f"{self.path.rpartition('/')[2]}-{self.version}-{sys.platform}-{platform.machine()}"
        target = cache_folder() / "peers" / where / package.rpartition("/")[2]
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            say(f"building {package} of {self}")
            with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
                built = Path(scratch, "built")
                flags = [*FLAGS, *self._with_part(Path(scratch))]
                _go(
                    f"building {package} of {self}",
                    self.folder,
                    "build",
                    *flags,
                    f"-o={built}",
                    f"./{package}",
                )
                built.rename(target)
        return target

    @property
    def folder(self) -> Path:
        """The folder of its files. Raise `NotBuilt` if it can't be downloaded."""
        return _downloaded(self)

    def _with_part(self, scratch: Path) -> list[str]:
        """Return the flags by which ``part`` is used, with go.mod and go.sum for them in ``scratch``."""
        if not self.part:
            return []
        for name in ("go.mod", "go.sum"):
            (scratch / name).write_bytes((self.folder / name).read_bytes())
        changed = (f"-dropreplace={self.part.partition('@')[0]}", f"-require={self.part}")
        _go(f"requiring {self.part}", scratch, "mod", "edit", *changed, str(scratch / "go.mod"))
        return [f"-modfile={scratch / 'go.mod'}", "-mod=mod"]

    def manifests(self, pattern: str) -> Iterator[dict[str, Any]]:
        """Return the objects in its YAML files that fit ``pattern``."""
        for file in sorted(self.folder.glob(pattern)):
            yield from filter(None, yaml.safe_load_all(file.read_text()))


COSCHEDULING = Module("sigs.k8s.io/scheduler-plugins", "v0.35.4-devel")
VOLCANO = Module("volcano.sh/volcano", "v1.14.1", "volcano.sh/apis@v1.14.0")
KUEUE = Module("sigs.k8s.io/kueue", "v0.19.2")


@cache
def _downloaded(module: Module) -> Path:
    with tempfile.TemporaryDirectory() as outside:
        wanted = f"{module.path}@{module.version}"
        said = _go(f"downloading {module}", Path(outside), "mod", "download", "-json", wanted)
        return Path(json.loads(said)["Dir"])


def _go(what: str, folder: Path, *arguments: str) -> str:
    outcome = subprocess.run(
        [*GENTLY, find_go(cache_folder()).path, *arguments],
        cwd=folder,
        env=go_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if outcome.returncode != 0:
        raise NotBuilt(what, outcome.stdout + outcome.stderr)
    return outcome.stdout
