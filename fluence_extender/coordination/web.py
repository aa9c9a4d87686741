"""JSON over HTTP to vendors, with the standard library: a sidecar makes a few calls a minute.

Vendors' own libraries can't be installed beside the Kubernetes client (they need an older python-dateutil), and the
three calls that matter here don't need them. Proxies are those of the environment.
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

LIMIT = 20.0
LARGEST = 16 * 1024 * 1024
TOLD = 300


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer; header names are in lower case, ``body`` is {} where it isn't a JSON object."""

    status: int
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    text: str


def ask(
    method: str,
    url: str,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    limit: float = LIMIT,
) -> Answer:
    """Ask ``url`` (http, https or file), each wait at most ``limit`` seconds.

    Raises `ProviderError` where no answer comes; an error status is an answer.
    """
    named = f"{urlsplit(url).scheme}://{urlsplit(url).netloc}{urlsplit(url).path}"
    try:
        request = urllib.request.Request(url, data=body, method=method)
        for name, value in {"User-Agent": f"fluence-sidecar/{__version__}", **(headers or {})}.items():
            request.add_header(name, value)
        try:
            with urllib.request.urlopen(request, timeout=limit) as response:
                return _answer(getattr(response, "status", None) or 200, response)
        except urllib.error.HTTPError as refused:
            with refused:
                return _answer(refused.code, refused)
    except (OSError, ValueError, HTTPException) as error:
        raise ProviderError(f"{method} {named}: {error or type(error).__name__}") from error


def asked(answer: Answer, what: str) -> Mapping[str, Any]:
    """The body of a good answer. Raises `ProviderError` for others."""
    if answer.status >= 400:
        raise ProviderError(f"{what}: HTTP {answer.status}: {answer.text[:TOLD]}")
    return answer.body


def listed(answer: Answer, key: str, what: str) -> list[Mapping[str, Any]]:
    """The objects in the list ``key`` of a good answer. Raises `ProviderError` for others, also where no list is there.

    A proxy's page, or a service that changes, mustn't be taken for one that knows no tasks.
    """
    found = asked(answer, what).get(key)
    if not isinstance(found, list):
        raise ProviderError(f'{what}: the answer holds no list "{key}": {answer.text[:TOLD]}')
    return [one for one in found if isinstance(one, dict)]


def _answer(status: int, response: Any) -> Answer:
    raw = response.read(LARGEST)
    text = raw.decode("utf-8", "replace")
    try:
        body = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        body = {}
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Answer(status, headers, body if isinstance(body, dict) else {}, text)
