"""A log-in for OIDC proxies: its page has a link for each user, and its tokens are those that a test gives it."""

from __future__ import annotations

import html
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit


@contextmanager
def log_in(tokens: Mapping[str, str], keys: Mapping[str, Any]) -> Iterator[str]:
    """Yield the address of ``/login``, ``/token`` and ``/keys``; each user of ``tokens`` has an ID token."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
            if path == "/keys":
                self._answer(json.dumps(keys), "application/json")
                return
            links = (
                f"{query['redirect_uri'][0]}?{urlencode({'code': user, 'state': query['state'][0]})}"
                for user in tokens
            )
            page = "".join(
                f'<a href="{html.escape(link)}">{user}</a> ' for user, link in zip(tokens, links, strict=True)
            )
            self._answer(page, "text/html")

        def do_POST(self) -> None:
            asked = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            answer = {"access_token": "none", "token_type": "Bearer", "expires_in": 3600}
            self._answer(json.dumps({**answer, "id_token": tokens[asked["code"][0]]}), "application/json")

        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def _answer(self, text: str, kind: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(text.encode())

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            serving.join()
