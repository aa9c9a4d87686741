"""How the dashboard reads ``/v1``: with conditional requests, so that a state that hasn't changed costs nothing.

The address is the service's own, or a socket on which ``kubectl proxy`` passes requests on to the API server. Failures
become a `Trouble`, which says what happened and what to do.

Callers share what the service itself says is the same for them: a caller who may see exactly what another one was sent
gets the answer 304 to that one's entity tag, because the service's tags differ between callers who see different
things. So a document comes once for all who may see it, and nobody gets one that the service hasn't granted in answer
to a request of his own.
"""

from __future__ import annotations

import asyncio
import copy
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import msgspec

from fluence_extender.apps.kubectl.errors import CommandError
from fluence_extender.apps.kubectl.sources import ManifestSource, manifests_as_json
from fluence_extender.apps.kubectl.state_api import API_GROUP, ROLE, SIMULATE_ROLE
from fluence_extender.dashboard.listing import KnownItems, decoded

PATIENCE = aiohttp.ClientTimeout(total=60, connect=5)
LARGEST_MANIFEST = 4 * 2**20
"""Bytes that the service takes as a question."""

MOST_VALUES = 500_000
"""Values that the service takes as a question."""

CHANGE = "Change the question and ask again."

Item = dict[str, Any]


class Trouble(Exception):
    """A question that wasn't answered: what happened, and what to do about it."""

    def __init__(self, text: str, advice: str) -> None:
        super().__init__(text)
        self.text = text
        self.advice = advice


class Refused(Trouble):
    """The caller isn't known, or may not ask at all."""


class Concealed(Trouble):
    """The service answers, and shows this to users with a right that the caller lacks."""


class Absent(Trouble):
    """The service has nothing under this path."""


@dataclass(frozen=True, slots=True)
class ServiceAddress:
    """Where ``/v1`` is: below ``base``, reached through ``unix_socket`` if there is one, with ``headers``."""

    base: str
    headers: Mapping[str, str] = field(default_factory=dict)
    unix_socket: str = ""
    tls: ssl.SSLContext | None = None
    name: str = "the service"


def api_server_address(url: str, tls: ssl.SSLContext) -> ServiceAddress:
    """Return where ``/v1`` is behind the API server at ``url``."""
    return ServiceAddress(f"{url}{API_GROUP}", tls=tls, name="the service")


@dataclass(frozen=True, slots=True)
class Reading:
    """A list, and the entity tag by which to ask for the next one."""

    items: KnownItems
    metadata: Item
    tag: str


NEWEST = 4
"""Documents under one path that are kept for other callers."""


class ServiceReader:
    """Reads documents of ``/v1``, as an asynchronous context."""

    def __init__(self, origin: ServiceAddress) -> None:
        self._origin = origin
        self._session: aiohttp.ClientSession | None = None
        self._caller: dict[str, str] = {}
        self._shared: dict[str, dict[str, Reading]] = {}
        self._parsing = asyncio.Lock()
        """Large manifests take much memory while they are parsed."""

    def as_caller(self, authorization: str) -> ServiceReader:
        """Return a reader that asks in the name of another caller, over the same connections."""
        other = copy.copy(self)
        other._caller = {"Authorization": authorization}
        return other

    async def __aenter__(self) -> ServiceReader:
        origin = self._origin
        connector: aiohttp.BaseConnector
        if origin.unix_socket:
            connector = aiohttp.UnixConnector(origin.unix_socket)
        else:
            connector = aiohttp.TCPConnector(ssl=origin.tls if origin.tls is not None else True)
        self._session = aiohttp.ClientSession(
            connector=connector,
            timeout=PATIENCE,
            headers=origin.headers,
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def read(self, path: str, query: Mapping[str, str] | None = None) -> Item:
        """Return the document under ``path``. Raise `Trouble`."""
        status, content, _ = await self._send("GET", path, query or {}, None, {})
        if status != 200:
            raise self._trouble(status, content, ROLE)
        return self._decoded(content)

    async def read_shared(self, path: str, known: Reading | None) -> Reading:
        """Return the list under ``path``, which may be ``known`` or was sent to another. Raise `Trouble`."""
        shared = self._shared.setdefault(path, {})
        offered = shared | ({known.tag: known} if known is not None else {})
        headers = {"If-None-Match": ", ".join(filter(None, offered))} if offered else {}
        status, content, tag = await self._send("GET", path, {}, None, headers)
        if status == 304 and tag in offered:
            return offered[tag]
        if status != 200:
            raise self._trouble(status, content, ROLE)
        newest = list(offered.values())[-1].items if offered else None
        try:
            reading = Reading(*decoded(content, newest), tag)
        except msgspec.DecodeError:
            raise self._no_json() from None
        if tag:
            shared[tag] = reading
            for old in list(shared)[:-NEWEST]:
                del shared[old]
        return reading

    async def simulate(self, manifest: str, namespace: str) -> Item:
        """Return the answer to a what-if question about YAML or JSON. Raise `Trouble`."""
        try:
            async with self._parsing:
                source = ManifestSource("manifest", manifest.encode())
                body = await asyncio.to_thread(manifests_as_json, [source], MOST_VALUES)
        except CommandError as error:
            raise Trouble(str(error), CHANGE) from None
        headers = {"Content-Type": "application/json"}
        query = {"namespace": namespace or "default"}
        status, content, _ = await self._send("POST", "/v1/simulate", query, body, headers)
        # The API server answers what was created with 201.
        if status not in (200, 201):
            raise self._trouble(status, content, SIMULATE_ROLE)
        return self._decoded(content)

    async def _send(
        self, method: str, path: str, query: Mapping[str, str], body: bytes | None, headers: Mapping[str, str]
    ) -> tuple[int, bytes, str]:
        assert self._session is not None
        url = self._origin.base + path
        try:
            async with self._session.request(
                method, url, params=dict(query), data=body, headers={**headers, **self._caller}
            ) as answer:
                return answer.status, await answer.read(), answer.headers.get("ETag", "")
        except (aiohttp.ClientError, OSError) as error:
            raise Trouble(
                f"{self._origin.name} can't be reached: {_cause(error)}",
                "The page goes on by itself once it is back. kubectl fluence doctor says what is wrong.",
            ) from None

    def _decoded(self, content: bytes) -> Item:
        try:
            return msgspec.json.decode(content, type=dict[str, Any])
        except msgspec.DecodeError:
            raise self._no_json() from None

    def _no_json(self) -> Trouble:
        return Trouble(f"{self._origin.name} gave no JSON", "Check that --server is the service's address.")

    def _trouble(self, status: int, content: bytes, role: str) -> Trouble:
        """Return what an answer that isn't 200 means."""
        message = _message(content) or f"HTTP status {status}"
        name = self._origin.name
        if status == 403 and "forbidden: User" in message:
            return Refused(
                f"You may not ask {name}: {message}",
                "An administrator allows it with kubectl create clusterrolebinding"
                f" {role} --clusterrole={role} --user=YOU",
            )
        if status == 403:
            return Concealed(message, "An administrator can give you this right.")
        if status == 401:
            return Refused(
                f"{name} doesn't know you: {message}",
                "Log in again, and start kubectl fluence dashboard anew if you have started it.",
            )
        if status == 404:
            return Absent(
                f"{name} has nothing here: {message}",
                "Check that the service is installed and of this version.",
            )
        if status == 501:
            return Trouble(
                message, "What ends before that isn't counted. docs/accounting.md says what is kept where."
            )
        if status in (500, 502, 503, 504):
            return Trouble(
                f"{name} isn't ready: {message}",
                "The page goes on by itself once it is. kubectl fluence doctor says what is wrong.",
            )
        return Trouble(message, CHANGE)


def _cause(error: Exception) -> str:
    """Return why a connection failed, in the system's own words if it has some."""
    below = getattr(error, "os_error", error)
    number = getattr(below, "errno", None) or 0
    if number > 0:
        return os.strerror(number)
    return getattr(below, "strerror", None) or str(error) or type(error).__name__


def _message(content: bytes) -> str:
    try:
        document = msgspec.json.decode(content)
        return str(document.get("detail") or document.get("message") or "")
    except (msgspec.DecodeError, AttributeError):
        return content[:200].decode(errors="replace").strip()
