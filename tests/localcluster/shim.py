"""Run a program that dies with its parent: ``python shim.py PARENT_PID PROGRAM ARGUMENT...``.

The kernel kills this process when its parent ends (prctl(2), PR_SET_PDEATHSIG, which an execve of an ordinary program
keeps). A parent that ended before that call would go unnoticed, so the parent is checked after the call. This is a
program of its own because code between fork and exec in a threaded parent may deadlock. It imports only the standard
library, so that it starts in isolated mode.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, program = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("the parent ended before the program was started")
    os.execv(program[0], program)


if __name__ == "__main__":
    main()
