"""``kubectl proxy`` on a private socket: the API server with the user's own kubeconfig, whatever signs the user in.

Invariant: only this user can reach it. The socket is in a folder that no other user may enter; a port would be open to
everyone on the machine. It passes on nothing but the service's paths.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fluence_extender.apps.kubectl.errors import CommandError
from fluence_extender.apps.kubectl.program import kubectl_program
from fluence_extender.apps.kubectl.state_api import API_GROUP

START = 10.0
"""Seconds that kubectl gets to listen."""

STOP = 5.0
"""Seconds that it gets to end."""


@contextmanager
def tunnel(connection: Sequence[str]) -> Iterator[Path]:
    """Yield the socket of a ``kubectl proxy`` with kubectl's flags ``connection``. Raise `CommandError`."""
    with tempfile.TemporaryDirectory(prefix="fluence-") as folder:
        socket, log = Path(folder) / "api", Path(folder) / "log"
        command = [
            *(kubectl_program(), "proxy", f"--unix-socket={socket}"),
            f"--accept-paths=^{re.escape(API_GROUP)}/",
            "--reject-methods=^(PUT|PATCH|DELETE)$",
            *(word for word in connection if not word.startswith("--request-timeout")),
        ]
        with (
            log.open("wb") as written,
            subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=written, stderr=written) as process,
        ):
            try:
                _wait(process, socket, log)
                yield socket
            finally:
                end(process)


def end(process: subprocess.Popen[Any]) -> None:
    """Ask a process to end, and kill it if it doesn't within `STOP` seconds."""
    process.terminate()
    try:
        process.wait(STOP)
    except subprocess.TimeoutExpired:
        process.kill()


def _wait(process: subprocess.Popen[bytes], socket: Path, log: Path) -> None:
    deadline = time.monotonic() + START
    while not socket.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            lines = log.read_text(errors="replace").strip().splitlines()
            raise CommandError(
                f"kubectl proxy didn't start: {lines[-1] if lines else 'it says nothing'};"
                " check that kubectl cluster-info works"
            )
        time.sleep(0.02)
