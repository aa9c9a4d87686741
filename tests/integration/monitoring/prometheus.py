"""A real Prometheus of the system's package, and its tool."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

START = 60.0


def program(name: str) -> str:
    """Return the path of a program of Prometheus; .ci/run installs them where there are none."""
    found = shutil.which(name)
    assert found, f"{name} isn't on the PATH; on Debian: apt-get install prometheus"
    return found


def promtool(*arguments: str) -> str:
    """Run Prometheus' tool and return what it says; a failure fails the test with it."""
    ended = subprocess.run([program("promtool"), *arguments], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


class Prometheus:
    """A server at ``url``."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, path: str, **query: str) -> Any:
        """Return the data of an answer."""
        with urllib.request.urlopen(
            f"{self.url}{path}?{urllib.parse.urlencode(query)}", timeout=10
        ) as answer:
            document = json.load(answer)
        assert document["status"] == "success", document
        return document["data"]

    def values(self, expression: str) -> list[float]:
        """Return the values that an expression has now."""
        return [float(one["value"][1]) for one in self.ask("/api/v1/query", query=expression)["result"]]


@contextmanager
def prometheus(folder: Path, config: str) -> Iterator[Prometheus]:
    """Yield a Prometheus with this configuration, which keeps its data in ``folder``."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "prometheus.yml").write_text(config)
    command = [program("prometheus"), f"--config.file={folder}/prometheus.yml"]
    command += [f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{port}"]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            found = Prometheus(f"http://127.0.0.1:{port}")
            deadline = time.monotonic() + START
            while not _ready(found.url):
                assert time.monotonic() < deadline, (folder / "log").read_text()
                time.sleep(0.1)
            yield found
        finally:
            process.terminate()


def _ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/-/ready", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.HTTPError, OSError):
        return False
