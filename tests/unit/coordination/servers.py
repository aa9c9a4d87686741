"""Fake vendors: HTTP servers on this machine that answer like the real services."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

Json = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """A request as a server received it. Header names are in lower case."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Reply:
    """A server's answer."""

    status: int = 200
    body: Any = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)


@contextmanager
def serving(answer: Callable[[Call], Reply], address: str = "127.0.0.1") -> Iterator[str]:
    """Serve on a free port of ``address`` while the context lasts, and return the URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._handle()

        def do_POST(self) -> None:
            self._handle()

        def _handle(self) -> None:
            parts = urlsplit(self.path)
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = answer(Call(self.command, parts.path, parse_qs(parts.query), headers, raw))
            body = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            self.send_response_only(reply.status)
            for name, value in {
                "Content-Length": str(len(body)),
                "Connection": "close",
                **reply.headers,
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)
            self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:
            """Print nothing."""

    with ThreadingHTTPServer((address, 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://{address}:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@dataclass
class FakeBraket:
    """A fake Amazon Braket, which creates, searches and describes tasks, ``page`` at a time."""

    page: int = 2
    tasks: list[Json] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    denies_tags: bool = False
    denied_regions: frozenset[str] = frozenset()
    refuse: Callable[[Call], Reply | None] = lambda call: None

    def add(self, name: str, status: str = "QUEUED", position: str | None = None, **tags: str) -> str:
        """Add a task and return its ARN."""
        arn = f"arn:aws:braket:us-west-1:123456789012:quantum-task/{name}"
        created = f"2026-01-01T00:00:{len(self.tasks):02d}.000Z"
        queue = {"queue": "QUANTUM_TASKS_QUEUE", "position": position}
        self.tasks.append(
            {"quantumTaskArn": arn, "status": status, "createdAt": created, "tags": tags, "queue": queue}
        )
        return arn

    def answer(self, call: Call) -> Reply:
        """Answer one request."""
        self.calls.append(call)
        refused = self.refuse(call)
        if refused is not None:
            return refused
        region = call.headers["authorization"].split("/")[2]
        if region in self.denied_regions:
            return Reply(403, {"message": "not authorized to perform braket:SearchQuantumTasks"})
        if call.path == "/quantum-tasks":
            request = json.loads(call.body)
            first = int(request.get("nextToken") or 0)
            shown = [
                {k: v for k, v in one.items() if k != "queue"}
                for one in self.tasks[first : first + self.page]
            ]
            more = {"nextToken": str(first + self.page)} if first + self.page < len(self.tasks) else {}
            return Reply(200, {"quantumTasks": shown, **more})
        if call.path == "/quantum-task":
            request = json.loads(call.body)
            if request.get("tags") and self.denies_tags:
                error = {"x-amzn-errortype": "AccessDeniedException"}
                return Reply(403, {"message": "not authorized to perform braket:TagResource"}, error)
            arn = self.add(f"made-{len(self.tasks)}", "QUEUED", "2", **(request.get("tags") or {}))
            return Reply(201, {"quantumTaskArn": arn})
        arn = unquote(call.path.removeprefix("/quantum-task/"))
        found = next((one for one in self.tasks if one["quantumTaskArn"] == arn), None)
        if found is None:
            return Reply(404, {"message": f"no task {arn}"})
        with_queue = "QueueInfo" in call.query.get("additionalAttributeNames", ())
        return Reply(200, {**found, **({"queueInfo": found["queue"]} if with_queue else {})})


@dataclass
class FakeIbm:
    """A fake IBM Quantum with its IAM: jobs by id, and how many wait for each backend."""

    jobs: dict[str, Json] = field(default_factory=dict)
    waiting: dict[str, Any] = field(default_factory=dict)
    tokens: int = 0
    listing: bytes | None = None
    calls: list[Call] = field(default_factory=list)

    def add(self, name: str, status: str = "Queued", *tags: str, backend: str = "ibm_fez") -> str:
        """Add a job and return its id."""
        created = f"2026-01-01T00:00:{len(self.jobs):02d}Z"
        self.jobs[name] = {
            "id": name, "state": {"status": status}, "tags": list(tags), "backend": backend, "created": created
        }  # fmt: skip
        return name

    def answer(self, call: Call) -> Reply:
        """Answer one request."""
        self.calls.append(call)
        if call.path == "/identity/token":
            form = parse_qs(call.body.decode())
            if form["apikey"] != ["key"]:
                return Reply(400, {"errorMessage": "Provided API key could not be found."})
            self.tokens += 1
            return Reply(200, {"access_token": f"token-{self.tokens}", "expires_in": 3600})
        if call.headers.get("authorization") != f"Bearer token-{self.tokens}":
            return Reply(401, {"errors": [{"message": "token is expired"}]})
        if call.headers.get("service-crn") != "crn:v1:bluemix":
            return Reply(403, {"errors": [{"message": "no such instance"}]})
        path = call.path.removeprefix("/api/v1")
        if path == "/jobs":
            if self.listing is not None:
                return Reply(200, self.listing)
            wanted = set(call.query["tags"])
            return Reply(200, {"jobs": [one for one in self.jobs.values() if wanted & set(one["tags"])]})
        if path.startswith("/backends/"):
            return Reply(200, {"length_queue": self.waiting.get(path.split("/")[2])})
        found = self.jobs.get(path.removeprefix("/jobs/"))
        return Reply(404, {"errors": []}) if found is None else Reply(200, found)
