"""A service at its own address, without an API server in between."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.unit.apps.kubectl.programs import Fluence, Program
from tests.unit.apps.kubectl.test_questions import NODES, listed


class _Answering(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        found = self.path == "/v1/nodes"
        body = listed(NODES).encode() if found else b'{"detail": "not ready: listing pods"}'
        self.send_response(200 if found else 503)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def address() -> Iterator[str]:
    """Serve, and return the address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Answering) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_the_service_answers_at_its_address(address: str, fluence: Fluence, kubectl: Program) -> None:
    assert len(fluence("top", "--server", address).out.splitlines()) == 4
    assert kubectl.calls == []
    shown = fluence("backends", f"--server={address}/")
    assert shown.err == f"error: {address}: not ready: listing pods\n"
    assert "is no URL" in fluence("top", "--server", "fluence").err
    assert "can't be reached" in fluence("top", "--server", "http://127.0.0.1:1").err
