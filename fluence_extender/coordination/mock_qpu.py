"""A mock backend: it answers what the provider ``http`` asks, for examples and a first look.

``POST /tasks`` submits a task. Each task finds some others ahead of it in the queue, one of which ends every few
seconds. Then the task runs, then it is completed.
"""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

HEADER = "Fluence-Pod-Uid"


@dataclass
class MockQpu:
    """The queue; ``ahead`` other tasks are before each task, and each takes ``seconds``."""

    ahead: int
    seconds: float
    clock: Callable[[], float] = time.monotonic
    _submitted: list[tuple[str, float]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def submit(self, tag: str) -> dict[str, Any]:
        """Accept a task of the pod ``tag`` and return it."""
        with self._lock:
            self._submitted.append((tag, self.clock()))
            return self._task(len(self._submitted) - 1)

    def tasks(self, tag: str) -> list[dict[str, Any]]:
        """Return the tasks of a pod, or all tasks if ``tag`` is empty."""
        with self._lock:
            every = [self._task(number) for number in range(len(self._submitted))]
        return [one for one in every if not tag or one["tag"] == tag]

    def _task(self, number: int) -> dict[str, Any]:
        tag, since = self._submitted[number]
        ended = int((self.clock() - since) / self.seconds)
        task = {"id": f"mock-{number}", "tag": tag, "created": number, "position": None}
        if ended < self.ahead:
            return {**task, "state": "queued", "position": self.ahead - ended}
        return {**task, "state": "running" if ended == self.ahead else "completed"}


def server(host: str, port: int, queue: MockQpu) -> ThreadingHTTPServer:
    """Return an HTTP server for ``queue``; port 0 takes a free one. Raises `OSError` if it can't listen."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if urlsplit(self.path).path == "/tasks":
                self._answer(201, queue.submit(self.headers.get(HEADER, "")))
            else:
                self._answer(404, {"error": "POST /tasks submits a task"})

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            first, _, name = parts.path.strip("/").partition("/")
            if first != "tasks":
                self._answer(404, {"error": "the paths are /tasks and /tasks/ID"})
            elif not name:
                self._answer(200, {"tasks": queue.tasks(parse_qs(parts.query).get("tag", [""])[0])})
            else:
                found = [one for one in queue.tasks("") if one["id"] == name]
                self._answer(200 if found else 404, found[0] if found else {"error": f"no task {name}"})

        def _answer(self, status: int, body: object) -> None:
            raw = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

    return ThreadingHTTPServer((host, port), Handler)


def serve(host: str, port: int, ahead: int, seconds: float) -> None:
    """Serve until SIGTERM or SIGINT.

    Both signals need a handler. Linux drops signals without one for the first process of a container
    (pid_namespaces(7)), and a process that a shell starts in the background ignores SIGINT.
    """
    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, signal.default_int_handler)
    with server(host, port, MockQpu(ahead, seconds)) as serving:
        print(f"mock QPU at port {serving.server_port}: {ahead} tasks ahead, {seconds:g} s each", flush=True)
        try:
            serving.serve_forever()
        except KeyboardInterrupt:
            return
