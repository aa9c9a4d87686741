"""The build of the local control plane, in a process of its own, while the tests that need none run.

The process that knows which tests will run starts the build. A process that runs tests waits for it before its first
test on the control plane. Invariants: what the build prints goes to its log only; the build and the compilers that it
starts end with the process that started it, however that ends; nobody waits for a build that has ended, because the log
is locked (flock(2)) for as long as one of its processes lives.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from tests.localcluster import LocalClusterError, ensure_binaries

LOG, VERDICT = "log", "verdict"
TAIL_LINES = 30
SECONDS_TO_CLEAN_UP = 10.0


class BackgroundBuild:
    """One build, as seen by the process that starts it. Nothing runs before `start`."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="fluence-build-"))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def started(self) -> bool:
        return self._process is not None

    def start(self) -> None:
        with (self.folder / LOG).open("w") as log:
            fcntl.flock(log, fcntl.LOCK_EX)
            # The child's standard input tells it that we ended. A session of its own keeps the terminal's signals away.
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(self.folder)],
                cwd=Path(__file__).parents[1],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def runs_for(self, seconds: float) -> bool:
        """Return whether the build, which was started, still runs after ``seconds``."""
        assert self._process
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return True
        return False

    def end(self) -> None:
        """End the build if it runs, wait until it has ended, and remove its log."""
        if self._process:
            assert self._process.stdin
            self._process.stdin.close()
            self._process.wait()
        shutil.rmtree(self.folder)


def failure_of(folder: Path) -> str:
    """Wait until the build in ``folder`` has ended. Return why it failed, nothing if it didn't."""
    with (folder / LOG).open() as log:
        fcntl.flock(log, fcntl.LOCK_SH)
        try:
            return (folder / VERDICT).read_text()
        except FileNotFoundError:
            tail = "\n".join(log.read().splitlines()[-TAIL_LINES:])
            return f"the build of the control plane was ended before it was done:\n{tail}"


def _end_with_parent() -> None:
    """Wait until the parent ends, then end this process and all that it started."""
    sys.stdin.buffer.read()
    os.killpg(0, signal.SIGINT)
    time.sleep(SECONDS_TO_CLEAN_UP)
    os.killpg(0, signal.SIGKILL)


def main(folder: Path) -> None:
    # A shell that starts make in the background makes it ignore SIGINT.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        ensure_binaries()
        failure = ""
    except LocalClusterError as error:
        failure = str(error)
    except KeyboardInterrupt:
        # The build has removed what it left half done. What it started may ignore an interrupt.
        os.killpg(0, signal.SIGKILL)
    (folder / "unfinished").write_text(failure)
    (folder / "unfinished").rename(folder / VERDICT)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
