"""Child processes of a control plane: started, watched and stopped, with ports and host names of their own.

Each child is its own session, so that an interrupt typed at the terminal reaches only the parent, which then stops its
children in order. A child also dies with its parent (see `shim`). The kernel binds that to the *thread* that started
the child, so one thread, which lives as long as the process, starts all of them.
"""

from __future__ import annotations

import os
import queue
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.localcluster import shim
from tests.localcluster.errors import LocalClusterError, StartFailed

LOOPBACK = "127.0.0.1"
TAIL_LINES = 25
SET_HOSTNAME = 'echo "$0" > /proc/sys/kernel/hostname && exec "$@"'


def poll(done: Callable[[], bool], timeout: float, interval: float = 0.05) -> bool:
    """Return whether ``done()`` became true within ``timeout`` seconds.

    It is called at least once, and then again after ``interval`` seconds, or after as long as the last call took.
    """
    deadline = time.monotonic() + timeout
    while True:
        called = time.monotonic()
        if done():
            return True
        returned = time.monotonic()
        if returned >= deadline:
            return False
        time.sleep(max(interval, returned - called))


class Ports:
    """The loopback ports of one control plane, which no other process can take.

    A port that was found free and let go may belong to another process a moment later. So each port stays bound by this
    process, without listening, for as long as it is needed. The component binds it too, both with SO_REUSEPORT
    (socket(7)), and the port stays reserved even while the component is down.
    """

    def __init__(self) -> None:
        self._held: list[socket.socket] = []

    def reserve(self) -> int:
        """Return a TCP port that only a listener with SO_REUSEPORT of the same user can take."""
        held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind((LOOPBACK, 0))
        self._held.append(held)
        return int(held.getsockname()[1])

    def release(self) -> None:
        """Release all ports."""
        while self._held:
            self._held.pop().close()


def under_hostname(hostname: str, command: Sequence[str]) -> list[str]:
    """Return the command line that runs ``command`` under ``hostname``, as the containers of a pod run.

    kube-scheduler holds its Lease under the host's name, so two of them on one machine need two names. Linux gives each
    process tree its own name in a UTS namespace (uts_namespaces(7)), and root may create one. Raise
    `LocalClusterError`, which says what is missing.
    """
    if sys.platform != "linux":
        raise LocalClusterError("a host name of its own for a program needs Linux (UTS namespaces)")
    unshare, shell = shutil.which("unshare"), shutil.which("sh")
    if unshare is None or shell is None:
        raise LocalClusterError("a host name of its own for a program needs unshare(1), part of util-linux")
    if os.geteuid() != 0:
        raise LocalClusterError("a host name of its own for a program needs root (unshare --uts)")
    return [unshare, "--uts", "--", shell, "-c", SET_HOSTNAME, hostname, *command]


class Startable(ABC):
    """Something that runs from `start` to `stop`, or as long as a ``with`` statement.

    After a `start` that raises, `stop` isn't called: `start` itself ends what it had begun.
    """

    @abstractmethod
    def start(self) -> None:
        """Start it, and wait until it is ready."""

    @abstractmethod
    def stop(self) -> None:
        """Stop it, and wait until it has ended."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class _Starter:
    """The thread that starts every child."""

    def __init__(self) -> None:
        self._orders: queue.SimpleQueue[
            tuple[Callable[[], subprocess.Popen[bytes]], Future[subprocess.Popen[bytes]]]
        ]
        self._orders = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._pid = 0

    def start(self, order: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
        with self._lock:
            # A forked process inherits this object but not its thread.
            if self._pid != os.getpid():
                self._pid = os.getpid()
                self._orders = queue.SimpleQueue()
                threading.Thread(target=self._run, name="localcluster-starter", daemon=True).start()
        outcome: Future[subprocess.Popen[bytes]] = Future()
        self._orders.put((order, outcome))
        return outcome.result()

    def _run(self) -> None:
        while True:
            order, outcome = self._orders.get()
            try:
                outcome.set_result(order())
            except BaseException as error:
                outcome.set_exception(error)


_STARTER = _Starter()


def tail(log: Path, lines: int = TAIL_LINES) -> str:
    """Return the last ``lines`` lines of a log file, "" if there is none."""
    try:
        with log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - 400 * lines))
            return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])
    except FileNotFoundError:
        return ""


class Component:
    """One program with its ``name``, its command line, and its log, to which each start appends.

    ``ready`` returns whether it is ready (by default it is ready once it runs). It must be ready after ``timeout``
    seconds.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        ready: Callable[[], bool] | None = None,
        timeout: float = 120,
    ) -> None:
        self.name = name
        self.command = tuple(command)
        self.log = log
        self._ready = ready
        self._timeout = timeout
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Its process id while it runs."""
        return self._process.pid if self._process and self._process.poll() is None else None

    @property
    def running(self) -> bool:
        """Whether it was started and hasn't ended."""
        return self.pid is not None

    def start(self) -> None:
        """Start it unless it runs, and wait until it is ready. Raise `StartFailed`."""
        self.launch()
        self.wait_ready()

    def launch(self) -> None:
        """Start it unless it runs, without waiting."""
        if self.running:
            return
        self.log.parent.mkdir(parents=True, exist_ok=True)
        launch = [sys.executable, "-I", "-S", shim.__file__, str(os.getpid()), *self.command]
        with self.log.open("ab") as log:
            self._process = _STARTER.start(
                lambda: subprocess.Popen(
                    launch,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            )

    def stop(self, timeout: float = 3) -> None:
        """Send SIGTERM, and SIGKILL after ``timeout`` seconds; return once it has ended."""
        self._end(signal.SIGTERM, timeout)

    def kill(self) -> None:
        """Send SIGKILL, as in a crash; return once it has ended."""
        self._end(signal.SIGKILL, 10)

    def wait_ready(self) -> None:
        """Wait until it is ready. Raise `StartFailed`, with the end of its log, if it ends before or is too slow."""

        def settled() -> bool:
            return not self.running or self._ready is None or self._ready()

        if not poll(settled, self._timeout):
            raise StartFailed(self.name, f"wasn't ready within {self._timeout:g} s", self.log, tail(self.log))
        self.check()

    def check(self) -> None:
        """Raise `StartFailed` if it isn't running."""
        if not self.running:
            code = self._process.returncode if self._process else None
            raise StartFailed(self.name, f"isn't running (exit code {code})", self.log, tail(self.log))

    def _end(self, first: signal.Signals, timeout: float) -> None:
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.send_signal(first)
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
