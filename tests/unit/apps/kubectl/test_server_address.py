"""A service at its own address, without an API server in between."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from fluence_extender.identity.certificates import make_authority, make_leaf
from fluence_extender.identity.tls import show_certificate, tls_context
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


def test_the_service_answers_at_its_address(
    address: str, fluence: Fluence, kubectl: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(fluence("top", "--server", address).out.splitlines()) == 4
    assert kubectl.calls == []
    shown = fluence("backends", f"--server={address}/")
    assert shown.err == f"error: {address}: not ready: listing pods\n"
    monkeypatch.setenv("FLUENCE_SERVER", address)
    assert len(fluence("top").out.splitlines()) == 4
    assert "is no URL" in fluence("top", "--server", "fluence").err
    assert "can't be reached" in fluence("top", "--server", "http://127.0.0.1:1").err


class _Knowing(_Answering):
    """Answers to one token."""

    def do_GET(self) -> None:
        token = self.headers.get("Authorization", "")
        if token == "Bearer good":
            super().do_GET()
            return
        status, why = (403, b"you may not list nodes") if token else (401, b"this request names no user")
        body = b'{"detail": "%s"}' % why
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def encrypted(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Serve with TLS; return the address, and the file of the authority to trust."""
    now = datetime.now(UTC)
    authority = make_authority(now)
    leaf = make_leaf(authority, ["127.0.0.1"], now)
    context = tls_context()
    show_certificate(context, leaf.certificate_pem, leaf.key_pem)
    file = tmp_path / "ca.crt"
    file.write_bytes(authority.certificate_pem)
    with ThreadingHTTPServer(("127.0.0.1", 0), _Knowing) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"https://127.0.0.1:{server.server_address[1]}", file
        server.shutdown()
        thread.join()


def test_a_token_is_sent_to_a_service_whose_certificate_is_verified(
    encrypted: tuple[str, Path], fluence: Fluence
) -> None:
    address, file = encrypted
    where = ("--server", address, f"--certificate-authority={file}")
    assert len(fluence("top", *where, "--token=good").out.splitlines()) == 4
    assert "doesn't know you: this request names no user; give --token TOKEN" in fluence("top", *where).err
    assert fluence("top", *where, "--token=other").err == "error: you may not list nodes\n"
    unverified = fluence("top", "--server", address, "--token=good")
    assert (unverified.code, "can't be reached" in unverified.err) == (1, True)
    trusting = fluence("top", "--server", address, "--token=good", "--insecure-skip-tls-verify")
    assert trusting.code == 0
