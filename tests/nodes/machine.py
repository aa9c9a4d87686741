"""What a machine must have for real nodes, and what a rig may have left on it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.nodes import groups
from tests.nodes.isolation import NAMESPACES
from tests.nodes.programs import missing_packages

TRIAL = """
set -e
mkdir lower upper work merged
mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work merged
mount -t tmpfs memory lower
"""
LINKS = """
set -e
ip link add bridge-trial type bridge
ip link add trial type veth peer name other
nft add table ip trial
"""


def missing(folder: Path) -> str:
    """Return what keeps nodes from running on this machine with their files in ``folder``, nothing if nothing does."""
    if sys.platform != "linux":
        return "Linux"
    if os.geteuid() != 0:
        return "root"
    if lacking := groups.CONTROLLERS - groups.controllers():
        return f"the control group controllers {', '.join(sorted(lacking))}"
    try:
        groups.make(f"{groups.PREFIX}trial")
    except OSError as error:
        return f"control groups that root may make ({error})"
    finally:
        groups.remove(f"{groups.PREFIX}trial")
    if not Path("/dev/kmsg").exists():
        return "/dev/kmsg"
    if not shutil.which("unshare"):
        return "unshare of util-linux"
    if told := _tried(TRIAL, folder):
        return f"namespaces and overlay mounts ({told})"
    if missing_packages() and not shutil.which("apt-get"):
        return f"the programs of {', '.join(missing_packages())}, and apt-get to install them"
    return ""


def missing_links(folder: Path) -> str:
    """Return what keeps the nodes' network from working, once the programs for it are installed."""
    told = _tried(LINKS, folder)
    return f"bridges, veth links and nftables in network namespaces ({told})" if told else ""


def _tried(script: str, folder: Path) -> str:
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        command = ["unshare", *NAMESPACES, "--net", "sh", "-c", script]
        ended = subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=False, timeout=60)
    return (
        (ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"])[-1]
        if ended.returncode
        else ""
    )


def traces(folder: Path, group: str) -> Iterator[str]:
    """Yield what is left of a rig that had its files in ``folder`` and its processes in ``group``."""
    if folder.exists():
        yield f"the folder {folder}"
    for hierarchy in groups.hierarchies():
        if (hierarchy / group).exists():
            yield f"the control group {hierarchy / group}"
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        if str(folder) in line:
            yield f"the mount {line.split()[4]}"
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if str(folder).encode() in words or group.encode() in words:
            yield f"the process {entry.name}: {words.replace(bytes(1), b' ').decode(errors='replace')[:200]}"
