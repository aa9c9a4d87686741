"""A PostgreSQL server of the system's packages, run by an unprivileged user in a folder of its own."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
from sqlalchemy import URL

PASSWORD = "secret-of-the-test"
START = 30.0
WHERE = "/usr/lib/postgresql"


def programs() -> Path:
    """Return the folder of the server's programs. Raise `RuntimeError` if there is none."""
    found = sorted(Path(WHERE).glob("*/bin/postgres"), key=lambda path: int(path.parts[-3].partition(".")[0]))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    if on_path:
        return Path(on_path).resolve().parent
    raise RuntimeError("these tests need PostgreSQL: apt-get install postgresql (.ci/run does it)")


class PostgresServer:
    """One server on loopback, with the superuser ``fluence``."""

    def __init__(self) -> None:
        self._bin = programs()
        self._folder = Path(tempfile.mkdtemp(prefix="fluence-postgres-"))
        self._user = None if os.getuid() else pwd.getpwnam("nobody").pw_name
        self._made = 0
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        if self._user is not None:
            shutil.chown(self._folder, self._user)
        secret = self._folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        self._data = self._folder / "data"
        words = [
            "--auth=scram-sha-256",
            "--username=fluence",
            f"--pwfile={secret}",
            "--no-sync",
            "--locale=C",
        ]
        subprocess.run(
            [self._bin / "initdb", "-D", self._data, "-E", "UTF8", *words],
            check=True,
            capture_output=True,
            user=self._user,
            cwd=self._folder,
        )
        self._process = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        settings = [
            "-c",
            "fsync=off",
            "-c",
            f"unix_socket_directories={self._folder}",
            "-c",
            "max_connections=40",
        ]
        process = subprocess.Popen(
            [self._bin / "postgres", "-D", self._data, "-p", str(self.port), "-h", "127.0.0.1", *settings],
            user=self._user,
            cwd=self._folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until = time.monotonic() + START
        while True:
            try:
                psycopg.connect(self._info("postgres")).close()
                return process
            except psycopg.OperationalError:
                if process.poll() is not None or time.monotonic() > until:
                    raise
                time.sleep(0.05)

    def _info(self, database: str) -> str:
        return f"host=127.0.0.1 port={self.port} user=fluence password={PASSWORD} dbname={database}"

    def database(self) -> str:
        """Return the URL of a new database."""
        self._made += 1
        with psycopg.connect(self._info("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE d{self._made}".encode())
        return f"postgresql+psycopg://fluence:{PASSWORD}@127.0.0.1:{self.port}/d{self._made}"

    def execute(self, url: URL, statements: str) -> None:
        """Execute statements, in which ``{name}`` is the database's, in the database at ``url``."""
        name = url.database or ""
        info = f"{self._info(name)} options='-c default_transaction_read_only=off'"
        with psycopg.connect(info, autocommit=True) as connection:
            connection.execute(statements.replace("{name}", name).encode())

    def kill(self) -> None:
        """Kill the server and all of its processes at once."""
        for pid in self._processes():
            os.kill(pid, signal.SIGKILL)
        self._process.wait()

    def restart(self) -> None:
        """Start it again."""
        self._process = self._started()

    def stop(self) -> None:
        """Stop it and all of its processes where they are (SIGSTOP)."""
        for pid in self._processes():
            os.kill(pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Let them go on."""
        for pid in self._processes():
            os.kill(pid, signal.SIGCONT)

    def _processes(self) -> Iterator[int]:
        """Yield the server's process and its children."""
        yield self._process.pid
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        yield from map(int, children.read_text().split())

    def close(self) -> None:
        """End it, and remove its folder."""
        self.go_on()
        self._process.send_signal(signal.SIGINT)
        self._process.wait(START)
        shutil.rmtree(self._folder)
