"""A service that answers ``/v1`` with the documents that a test puts into it, and that can go away and come back."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

from tests.localcluster.process import Startable

Document = dict[str, Any]
LISTS = ("gangs", "queues", "queue", "reservations", "nodes", "backends")


def gang(name: str, state: str = "waiting", **changed: Any) -> Document:
    """Return a gang as ``/v1/gangs`` shows it."""
    made: Document = {
        "namespace": "lab",
        "name": name,
        "convention": "group",
        "state": state,
        "reason": "busy: 1 of 4 fit now, short of cpu" if state == "waiting" else "",
        "why": "Busy" if state == "waiting" else "",
        "size": 2,
        "created": "2026-06-30T12:00:00Z",
        "expected_start": None,
        "started": None if state == "waiting" else "2026-06-30T12:00:00Z",
        "expected_end": None,
        "queue": "physics",
        "user": "ada",
        "position": 1 if state == "waiting" else None,
        "members": [
            {"pod": f"{name}-{number}", "uid": f"{name}-{number}", "node": node, "backend": ""}
            for number, node in enumerate(["", ""] if state == "waiting" else ["n1", "n2"])
        ],
        "former": [],
        "quantum": None,
    }
    return {**made, **changed}


def story(of: Document, **changed: Any) -> Document:
    """Return a gang as its own path shows it."""
    made: Document = {
        "asks": [{"members": 2, "requests": {"cpu": 2, "pods": 1}, "devices": {}, "requires": {}}],
        "fitting": None,
        "lacking": [],
        "history": [
            {"at": "2026-06-30T12:00:00Z", "what": "seen", "pod": f"{of['name']}-0", "detail": "", "count": 1}
            | {"until": "2026-06-30T12:00:00Z"}
        ],
        "forgotten": 0,
        "leading": True,
    }
    return {**of, **made, **changed}


def entry(of: Document, **changed: Any) -> Document:
    """Return a gang as ``/v1/queue`` shows it."""
    same = ("namespace", "name", "convention", "queue", "created", "reason", "why", "expected_start")
    made = {name: of[name] for name in same}
    more: Document = {
        "position": of["position"] or 1,
        "user": "ada",
        "priority": 0,
        "held": False,
        "reserved_nodes": [],
    }
    return {**made, **more, **changed}


def queue(name: str, **changed: Any) -> Document:
    """Return a queue as ``/v1/queues`` shows it."""
    made = {"name": name, "stop": "None", "waiting": 1, "running": 1, "limits": {}, "head": ""}
    return {**made, "expected_start": None, "oldest": None, "problems": [], **changed}


def node(name: str, cpu: float = 0, **changed: Any) -> Document:
    """Return a node of 4 cpu as ``/v1/nodes`` shows it, of which gangs hold some."""
    made: Document = {
        "name": name,
        "schedulable": True,
        "problems": [],
        "levels": {"zone": "z1", "rack": "r1"},
        "allocatable": {"cpu": 4, "memory": 2**33, "pods": 110},
        "held": {"cpu": cpu},
        "others": {},
        "free": {"cpu": 4 - cpu, "memory": 2**33, "pods": 110},
    }
    return {**made, **changed}


def device(name: str, **changed: Any) -> Document:
    """Return a device as ``/v1/backends`` shows it."""
    made: Document = {
        "backend": name,
        "name": name,
        "path": f"/cluster/{name}",
        "type": "qpu",
        "node": "",
        "attributes": {"vendor": "ibm"},
        "total": 1,
        "held": 0,
        "free": 1,
        "holders": [],
        "hidden": 0,
        "usable": True,
        "problems": [],
    }
    return {**made, **changed}


class StateApi(Startable):
    """Serves ``documents`` by path and ``lists`` by name; ``refused`` has the status and text of other answers.

    ``seen_by`` has lists that callers with an Authorization header see instead, None for those who are refused.
    ``asked`` counts the requests by path, and ``unchanged`` those that were answered with 304.
    """

    def __init__(self) -> None:
        self.lists: dict[str, list[Document]] = {name: [] for name in LISTS}
        self.documents: dict[str, Document] = {}
        self.refused: dict[str, tuple[int, str]] = {}
        self.leading = True
        self.seen_by: dict[str, dict[str, list[Document]] | None] = {}
        self.asked: dict[str, int] = {}
        self.unchanged = 0
        self.bodies: list[bytes] = []
        self._port = 0
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        """Where it listens; the same after a restart."""
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Begin to answer."""
        self._server = _Server(("127.0.0.1", self._port), self._handler())
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        """Answer nothing any more."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def answer(self, path: str) -> tuple[int, Document]:
        """Return the status and the document under ``path``."""
        self.asked[path] = self.asked.get(path, 0) + 1
        if path in self.refused:
            status, text = self.refused[path]
            return status, {"detail": text, "message": text}
        if path in self.documents:
            return 200, self.documents[path]
        name = path.removeprefix("/v1/")
        if name in self.lists:
            metadata = {"leading": self.leading}
            return 200, {"items": self.lists[name], "metadata": metadata}
        return 404, {"detail": f"no {path}"}

    def answer_to(self, caller: str, path: str) -> tuple[int, Document]:
        """Return the answer to a caller with this Authorization header."""
        lists = self.seen_by.get(caller, {})
        if lists is None:
            return 401, {"message": "Unauthorized"}
        name = path.removeprefix("/v1/")
        if name in lists:
            self.asked[path] = self.asked.get(path, 0) + 1
            return 200, {"items": lists[name], "metadata": {"leading": self.leading}}
        return self.answer(path)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        service = self

        class Handler(BaseHTTPRequestHandler):
            # A connection ends with its answer, so that a service that has stopped is gone.
            protocol_version = "HTTP/1.0"

            def do_GET(self) -> None:
                path = unquote(urlsplit(self.path).path)
                status, document = service.answer_to(self.headers.get("Authorization", ""), path)
                body = json.dumps(document).encode()
                tag = f'"{hash(body)}"'
                if status == 200 and tag in self.headers.get("If-None-Match", "").split(", "):
                    service.unchanged += 1
                    status, body = 304, b""
                self._send(status, body, tag)

            def do_POST(self) -> None:
                service.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
                status, document = service.answer(unquote(urlsplit(self.path).path))
                self._send(status, json.dumps(document).encode(), "")

            def _send(self, status: int, body: bytes, tag: str) -> None:
                self.send_response(status)
                self.send_header("ETag", tag)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler


class _Server(ThreadingHTTPServer):
    allow_reuse_address = True
    daemon_threads = True
