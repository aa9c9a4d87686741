"""Control groups of the rig, below one folder in each hierarchy of the machine; version 1, 2 or both."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
PREFIX = "fluence-nodes-"
WEIGHTS = {"cpu.shares": "16384", "cpu.weight": "1600"}
"""So that all pods together get more of a busy machine than one of its other processes does."""

CONTROLLERS = frozenset({"cpu", "memory", "pids"})
"""Those that kubelet needs."""


def hierarchies() -> list[Path]:
    """Return the folders of all hierarchies; in version 2 there is one."""
    if (ROOT / "cgroup.controllers").exists():
        return [ROOT]
    # Controllers that are mounted together are seen by several names, of which all but one are links.
    return [folder for folder in sorted(ROOT.iterdir()) if folder.is_dir() and not folder.is_symlink()]


def controllers() -> set[str]:
    """Return the controllers of this machine that groups can be given."""
    unified = ROOT / "cgroup.controllers"
    if unified.exists():
        return set(unified.read_text().split())
    return {name for folder in hierarchies() for name in folder.name.split(",")}


def make(name: str) -> None:
    """Make the group ``name`` (a path below the root) in all hierarchies. Raise `OSError`."""
    for hierarchy in hierarchies():
        folder = hierarchy
        for part in Path(name).parts:
            _hand_on(folder)
            above, folder = folder, folder / part
            folder.mkdir(exist_ok=True)
            # A new group of cpuset has no processors, and takes no process.
            for file in ("cpuset.cpus", "cpuset.mems"):
                if (folder / file).exists() and not (folder / file).read_text().strip():
                    (folder / file).write_text((above / file).read_text())
        _hand_on(folder)
        for file, weight in WEIGHTS.items():
            if (first := hierarchy / Path(name).parts[0] / file).exists():
                first.write_text(weight)


def _hand_on(folder: Path) -> None:
    """In version 2 a group's children have the controllers that it hands on."""
    switch = folder / "cgroup.subtree_control"
    if folder.is_relative_to(ROOT) and switch.exists() and (ROOT / "cgroup.controllers").exists():
        for controller in (folder / "cgroup.controllers").read_text().split():
            with suppress(OSError):
                switch.write_text(f"+{controller}")


def remove(name: str, seconds: float = 10) -> None:
    """Remove the group ``name`` with all groups below it. Their processes must be about to end."""
    deadline = time.monotonic() + seconds
    while _remove(name) and time.monotonic() < deadline:
        time.sleep(0.1)


def _remove(name: str) -> bool:
    """Return whether anything is left."""
    for hierarchy in hierarchies():
        for folder, _, _ in os.walk(hierarchy / name, topdown=False):
            with suppress(OSError):
                Path(folder).rmdir()
    return any((hierarchy / name).exists() for hierarchy in hierarchies())


def left() -> Iterator[Path]:
    """Yield the groups of rigs that there are."""
    for hierarchy in hierarchies():
        yield from hierarchy.glob(f"{PREFIX}*")
