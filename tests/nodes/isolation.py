"""Namespaces in which everything runs, and their first process.

    python -m tests.nodes.isolation MODULE ARGUMENT...

This is the first process of new namespaces (see `isolated`). It runs the module as a child, reaps every process that
has lost its parent, and ends with the child's exit code. When it ends, the kernel kills all other processes of the
namespaces, and their mounts and links go with them.
"""

from __future__ import annotations

import os
import signal
import sys

NAMESPACES = (
    "--mount",
    "--uts",
    "--ipc",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
    "--propagation=private",
)


def isolated(module: str, *arguments: str, network: bool) -> list[str]:
    """Return the command line that runs a module in new namespaces, with a ``network`` of their own or the caller's.

    Everything ends with the process of this command line, however that ends.
    """
    namespaces = [*NAMESPACES, *(["--net"] if network else [])]
    first = [sys.executable, "-m", "tests.nodes.isolation", module, *arguments]
    return ["unshare", *namespaces, *first]


def main(command: list[str]) -> int:
    """Run the command as a child, reap all processes until it has ended, and return its exit code."""
    child = os.fork()
    if child == 0:
        os.execv(command[0], command)
    # What is typed at the terminal reaches the child too, which ends in order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGTERM))
    while True:
        ended, status = os.wait()
        if ended == child:
            return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    code = main([sys.executable, "-m", *sys.argv[1:]])
    sys.exit(code if code >= 0 else 128 - code)
