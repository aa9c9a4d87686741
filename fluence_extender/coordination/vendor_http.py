"""Send JSON over HTTP to vendors, with the standard library: a sidecar makes a few calls a minute.

Vendors' own libraries can't be installed beside the Kubernetes client: botocore needs python-dateutil below 3, and
kubernetes 37 needs 3 or later. The few calls that matter here don't need them. Proxies are those of the environment.

Invariant: the headers of a request, which hold credentials, reach only the server that the request names. A redirect to
another server is an error.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

from fluence_extender import __version__
from fluence_extender.coordination.provider import ProviderError

TIMEOUT = 20.0
LARGEST = 16 * 1024 * 1024
LONGEST_SHOWN = 300


@dataclass(frozen=True, slots=True)
class VendorResponse:
    """A whole response. Header names are in lower case; ``body`` is {} if the text isn't a JSON object."""

    status: int
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    text: str

    def checked(self, attempt: str) -> Mapping[str, Any]:
        """Return the body of a successful response. Raises `ProviderError` for an error status."""
        if self.status >= 400:
            raise ProviderError(f"{attempt}: HTTP {self.status}: {self.text[:LONGEST_SHOWN]}")
        return self.body

    def items(self, key: str, attempt: str) -> list[Mapping[str, Any]]:
        """Return the objects in the list ``key`` of a successful response. Raises `ProviderError` if there is no list.

        A proxy's error page, or a service that has changed, must not count as one that knows no tasks.
        """
        found = self.checked(attempt).get(key)
        if not isinstance(found, list):
            raise ProviderError(f'{attempt}: the answer holds no list "{key}": {self.text[:LONGEST_SHOWN]}')
        return [one for one in found if isinstance(one, dict)]


class _SameServer(urllib.request.HTTPRedirectHandler):
    """Follows redirects within one server; the standard library would send all headers to any other one too."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        old, new = urlsplit(req.full_url), urlsplit(newurl)
        if (old.scheme, old.netloc) != (new.scheme, new.netloc):
            raise ProviderError(
                f"{old.scheme}://{old.netloc}{old.path} redirects to {new.scheme}://{new.netloc}, which isn't "
                "followed, because it would get the credentials: configure that address if it is the right one"
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


_open = urllib.request.build_opener(_SameServer).open


def send(
    method: str, url: str, headers: Mapping[str, str] | None = None, body: bytes | None = None
) -> VendorResponse:
    """Return the response of ``url`` (http, https or file). Each wait takes at most `TIMEOUT`.

    An error status is a response. Raises `ProviderError` if none comes, or for a redirect to another server.
    """
    parts = urlsplit(url)
    try:
        request = urllib.request.Request(url, data=body, method=method)
        for name, value in {"User-Agent": f"fluence-sidecar/{__version__}", **(headers or {})}.items():
            request.add_header(name, value)
        try:
            with _open(request, timeout=TIMEOUT) as response:
                return _read(getattr(response, "status", None) or 200, response)
        except urllib.error.HTTPError as refused:
            with refused:
                return _read(refused.code, refused)
    except (OSError, ValueError, HTTPException) as error:
        # Without the query, which may hold what isn't for the log.
        named = f"{parts.scheme}://{parts.netloc}{parts.path}"
        raise ProviderError(f"{method} {named}: {error or type(error).__name__}") from error


def _read(status: int, response: Any) -> VendorResponse:
    raw = response.read(LARGEST)
    text = raw.decode("utf-8", "replace")
    try:
        body = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        body = {}
    headers = {name.lower(): value for name, value in response.headers.items()}
    return VendorResponse(status, headers, body if isinstance(body, dict) else {}, text)
