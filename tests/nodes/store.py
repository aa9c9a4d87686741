"""containerd's files with all images in them, made once and linked into each node's folder.

To unpack images takes longer than all else that a node needs. Nothing ever writes to an unpacked image (containers have
a layer of their own above it), so the nodes can share its files; containerd's databases are copied.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from tests.localcluster import Component
from tests.nodes.network import run
from tests.nodes.programs import CNI, program

SOCKET = "containerd.sock"
STORE = "containerd"
PAUSE = "registry.k8s.io/pause:3.10"


def containerd_config(folder: Path, state: Path) -> str:
    """Return the configuration of a containerd with its files in ``folder``."""
    return f"""\
version = 2
root = "{folder}/{STORE}"
state = "{state}"
oom_score = 0
[grpc]
  address = "{folder}/{SOCKET}"
[plugins."io.containerd.grpc.v1.cri"]
  # Without CAP_SYS_RESOURCE nobody may lower a score, which the sandbox of every pod would have.
  restrict_oom_score_adj = true
  disable_apparmor = true
  sandbox_image = "{PAUSE}"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "{CNI}"
  conf_dir = "{folder}/cni"
"""


def ctr(folder: Path, *command: str) -> str:
    """Run containerd's own client, and return what it prints. Raise `RuntimeError`."""
    return run("ctr", f"--address={folder}/{SOCKET}", "--namespace=k8s.io", *command)


def answers(folder: Path) -> bool:
    """Return whether the containerd of this folder answers."""
    try:
        ctr(folder, "version")
    except RuntimeError:
        return False
    return True


def prepared(home: Path, archives: Sequence[Path]) -> Path:
    """Return a folder below ``home`` with the images of the archives, unpacked; make it if it isn't there."""
    stamps = [(one.name, one.stat().st_size, one.stat().st_mtime_ns) for one in archives]
    target = home / f"store-{hashlib.sha256(repr(stamps).encode()).hexdigest()[:12]}"
    if target.exists():
        return target
    folder = home / "unfinished"
    for former in (folder, *home.glob("store-*")):
        shutil.rmtree(former, ignore_errors=True)
    folder.mkdir()
    file = folder / "containerd.toml"
    file.write_text(containerd_config(folder, folder / "state"))
    command = [program("containerd"), f"--config={file}"]
    containerd = Component("containerd", command, folder / "log", partial(answers, folder))
    containerd.start()
    try:
        for one in archives:
            ctr(folder, "images", "import", str(one))
    finally:
        containerd.stop()
    (folder / STORE).rename(target)
    shutil.rmtree(folder)
    return target


def link(store: Path, target: Path) -> None:
    """Let ``target`` have the files of a store; the databases are its own."""
    target.parent.mkdir(parents=True)
    run("cp", "--archive", "--link", str(store), str(target))
    for database in target.rglob("*.db"):
        database.unlink()
        shutil.copy2(store / database.relative_to(target), database)
