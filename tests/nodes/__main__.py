"""The end-to-end tests on real nodes of this machine, with the product installed as deploy/ installs it.

    python -m tests.nodes [--check] [PYTEST_ARGUMENT...]

It installs the system's packages that are missing, builds kubelet and kube-proxy into the user's cache, makes the
image from the Dockerfile, and runs everything in namespaces that end with it. Then it looks for what is left on the
machine; anything is an error. Where the machine can't run nodes, it says in one line what it lacks, and runs nothing.
With --check it exits with 77 then, and runs nothing in any case.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.images import building
from tests.localcluster import ensure_binaries, shim
from tests.localcluster.binaries import cache_folder
from tests.nodes import groups, programs
from tests.nodes.archives import archives
from tests.nodes.isolation import isolated
from tests.nodes.machine import missing, missing_links, traces

LEFT_OUT = 77
"""The exit code of a test that this machine can't run, as automake has it."""


def main(arguments: Sequence[str]) -> int:
    """Run all of it, and return the exit code."""
    home = cache_folder() / "nodes"
    home.mkdir(parents=True, exist_ok=True)
    lacking = missing(home)
    if lacking:
        tell_what_is_left_out(lacking)
    if lacking or "--check" in arguments:
        return LEFT_OUT if lacking and "--check" in arguments else 0
    begun = time.monotonic()
    try:
        if packages := programs.missing_packages():
            print(f"Installing {', '.join(packages)}", flush=True)
            programs.install(packages)
        building.base()
    except (subprocess.CalledProcessError, RuntimeError) as error:
        tell_what_is_left_out(f"Debian's packages, or a way to them: {str(error).splitlines()[-1]}")
        return 0
    if lacking := missing_links(home):
        tell_what_is_left_out(lacking)
        return 0
    print("Building the control plane, kubelet and kube-proxy; minutes the first time", flush=True)
    ensure_binaries()
    programs.kubelet()
    archives(home)
    print(f"Everything is built: {time.monotonic() - begun:.0f} s", flush=True)
    sweep(home)
    group = f"{groups.PREFIX}{os.getpid()}"
    folder = home / group
    folder.mkdir(mode=0o700)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        code = _run(isolated("tests.nodes.inside", str(folder), group, *arguments, network=True))
    finally:
        groups.remove(group)
        shutil.rmtree(folder, ignore_errors=True)
    left = list(traces(folder, group))
    print("\n".join(f"Left on this machine: {one}" for one in left) or "Nothing is left on this machine")
    print(f"Ended after {time.monotonic() - begun:.0f} s", flush=True)
    return code or bool(left)


def sweep(home: Path) -> None:
    """Remove what is left of rigs that were killed: their processes are gone, their groups and files aren't."""
    for path in {*groups.left(), *home.glob(f"{groups.PREFIX}*")}:
        if not Path("/proc", path.name.removeprefix(groups.PREFIX)).exists():
            groups.remove(path.name)
            shutil.rmtree(home / path.name, ignore_errors=True)


def _run(command: Sequence[str]) -> int:
    """Run the command to its end, and end it if this process ends."""
    launch = [
        sys.executable,
        "-I",
        "-S",
        shim.__file__,
        str(os.getpid()),
        shutil.which(command[0]) or "",
        *command[1:],
    ]
    process = subprocess.Popen(launch)
    # What is typed at the terminal reaches the child too, which ends in order.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return process.wait()
    finally:
        process.kill()
        process.wait()
        signal.signal(signal.SIGINT, before)


def tell_what_is_left_out(lacking: str) -> None:
    """Say in one line that nothing is run, and why."""
    print(f"The tests on real nodes are left out: this machine lacks {lacking}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
