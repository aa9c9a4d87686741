"""Who may use the pages: on the user's machine whoever has the address with its key, in the cluster each by his token.

A loopback port is open to all users of a machine and, by a name that an attacker's server resolves to 127.0.0.1, to all
pages that the user's browser shows. So a request needs one of our names as its Host and, as a cookie, the key that the
command prints. A question (POST) needs our own pages as its origin, too. Every answer forbids scripts, styles and
frames of others.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

KEY = "key"
"""The parameter of the address, and the first part of the cookie's name."""

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
    " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Guard:
    """Middleware that lets ``app`` answer those who may ask.

    ``hosts`` are the values of Host that mean us, none: any. ``key`` is empty where something in front of us knows the
    users; no browser sends their tokens by itself, so there the name that it calls us by gives nobody anything.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str], key: str) -> None:
        self._app = app
        self._hosts = {host.lower() for host in hosts}
        self._key = key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refusal = self._refusal(scope)
        await (refusal or self._app)(scope, receive, guarded)

    def _refusal(self, scope: Scope) -> ASGIApp | None:
        """Return what to answer instead of the page, None if the caller may have it."""
        headers = Headers(scope=scope)
        host = headers.get("host", "").lower()
        if self._hosts and host not in self._hosts:
            return PlainTextResponse(f"This is no dashboard of {host or 'no host'}.\n", 421)
        if scope["method"] not in ("GET", "HEAD") and not _is_own(headers, host):
            return PlainTextResponse("Questions are asked from the dashboard's own pages.\n", 403)
        if not self._key:
            return None
        name = f"{KEY}-{host.rpartition(':')[2]}"
        given = cookie_parser(headers.get("cookie", "")).get(name, "")
        if secrets.compare_digest(given.encode(), self._key.encode()):
            return None
        return self._let_in(scope, name) or PlainTextResponse(
            "This dashboard is for the user who started it.\n"
            "Open the whole address that kubectl fluence dashboard printed, with its key.\n",
            403,
        )

    def _let_in(self, scope: Scope, name: str) -> ASGIApp | None:
        """Return the answer to an address with the right key: the cookie, and the address without the key."""
        query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        given = query.pop(KEY, "")
        if not given or not secrets.compare_digest(given.encode(), self._key.encode()):
            return None
        # The path begins with one slash, so that it never names another host.
        path = "/" + scope["raw_path"].decode("latin-1").lstrip("/\\")
        answer = RedirectResponse(path + (f"?{urlencode(query)}" if query else ""), 303)
        answer.set_cookie(name, self._key, httponly=True, samesite="strict")
        return answer


def _is_own(headers: Headers, host: str) -> bool:
    """Return whether a browser says that one of our pages sends the request."""
    return headers.get("origin", "").partition("://")[2].lower() == host
