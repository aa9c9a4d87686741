"""One component as a child process: started, watched, stopped; never left behind.

A child is its own session, so that an interrupt typed at the terminal reaches only the parent, which then
stops its children in order. It also dies with the parent (see `shim`). The kernel binds that to the *thread*
that started the child, so all are started by one thread which lives as long as the process.
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path

from fluence_extender.localcluster import shim
from fluence_extender.localcluster.errors import StartFailed
from fluence_extender.localcluster.waiting import poll

TAIL_LINES = 25


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
    """The last ``lines`` lines of a log file; empty when there is none."""
    try:
        with log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - 400 * lines))
            return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])
    except FileNotFoundError:
        return ""


class Component:
    """One program: its ``name``, command line, and log (appended to at each start).

    ``ready`` says whether it is up (by default: as soon as it runs); it has ``timeout`` seconds for that.
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
        """Start it unless it runs, and wait until it is ready. Raises `StartFailed`."""
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
        """Ask it to end (SIGTERM), kill it after ``timeout`` seconds; returns once it is gone."""
        self._end(signal.SIGTERM, timeout)

    def kill(self) -> None:
        """Kill it at once (SIGKILL), as a crash would; returns once it is gone."""
        self._end(signal.SIGKILL, 10)

    def restart(self) -> None:
        """Stop it and start it again."""
        self.stop()
        self.start()

    def wait_ready(self) -> None:
        """Wait until it is ready; raises `StartFailed` with the log's end if it ends before, or is too slow."""

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
