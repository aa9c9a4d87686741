"""One pool of connections to the API server, with raw bodies in both directions.

The official client's `RESTClientObject` prepares TLS, client certificates, server name and proxy, and all requests go
through its aiohttp session. Its typed models are never used, because they cost far more time than all other work on an
answer. Every call has a time limit, and every failure is a `ClusterError`.

Repeating a call is safe: each write carries a uid or a fixed name, so the API server refuses it the second time. So a
call that is cut off before its answer is repeated once, and a call that is refused because of load (429, 503) is
repeated while time is left.

A redirect is a refusal. API servers send none, and to follow one would give our token to another server.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode
from weakref import WeakSet

import aiohttp
import structlog
from aiohttp.abc import AbstractStreamWriter
from msgspec.json import encode
from yarl import URL

from fluence_extender import __version__
from fluence_extender.cluster.credentials import Credentials, find_origin, tls_fingerprint
from fluence_extender.cluster.errors import (
    BadKubeconfig,
    ClusterError,
    NoAnswer,
    TooManyRequests,
    error_from,
    read_status,
)
from fluence_extender.cluster.official_client import Configuration, RESTClientObject

log = structlog.get_logger(__name__)

POOL = 288
"""The most calls under way at the same time. The bounds of all callers together are below this."""

WATCHES = 16
CONNECT_LIMIT = 5.0
CALL_LIMIT = 8.0
CALL_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_LIMIT)
CUT_OFF = (aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError, ConnectionResetError)
UNTRUSTED = (aiohttp.ClientConnectorCertificateError, ssl.SSLCertVerificationError)
CLOSE_ROUNDS = 100
HEADERS = {"Accept-Encoding": "identity", "User-Agent": f"fluence-extender/{__version__}"}
KEEP_ALIVE = (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 5000))
"""Options of each socket. The last one is in milliseconds: data that the peer hasn't acknowledged by then is dropped,
and never arrives later (tcp(7))."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer.

    ``retry_after`` is the Retry-After header, "" without one. ``warnings`` are the texts of its Warning headers.
    """

    status: int
    body: bytes
    retry_after: str = ""
    warnings: tuple[str, ...] = ()


QUOTED, ESCAPED = re.compile(r'"((?:[^"\\]|\\.)*)"'), re.compile(r"\\(.)")
"""A quoted string, and a character of it that is escaped (RFC 9110, 5.6.4)."""

Response = TypeVar("Response", Answer, aiohttp.ClientResponse)


class _PermittedBody(aiohttp.BytesPayload):
    """A body that calls ``permit`` once there is a connection; ``refused`` is what that call raised.

    The API server doesn't carry out a write without its body.
    """

    def __init__(self, body: bytes, permit: Callable[[], None]) -> None:
        super().__init__(body)
        self._permit = permit
        self.refused: Exception | None = None

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        try:
            self._permit()
        except Exception as error:
            self.refused = error
            raise
        await super().write_with_length(writer, content_length)


class _Transport(RESTClientObject):
    """The official session, with TCP keep-alive, so that a dead peer ends a silent watch within half a minute.

    It keeps track of its sockets, because aiohttp leaves aborted TLS connections to close later, and ``close`` must end
    them.
    """

    def __init__(self, configuration: Configuration) -> None:
        self._sockets: WeakSet[socket.socket] = WeakSet()
        super().__init__(configuration)
        self._always: dict[str, Any] = {}
        if configuration.tls_server_name:
            self._always["server_hostname"] = configuration.tls_server_name
        if self.proxy:
            self._always |= {"proxy": self.proxy, "proxy_headers": self.proxy_headers or None}
        self._server: str = configuration.host.rstrip("/")

    async def send(
        self,
        method: str,
        target: str,
        headers: dict[str, str],
        body: bytes | None,
        permit: Callable[[], None],
    ) -> Answer:
        """Send a request and return the whole answer.

        ``target`` is already encoded; ``permit`` is called just before the request is sent.
        """
        sent = _PermittedBody(body, permit) if body else None
        if sent is None:
            permit()
        try:
            async with await self.begin(method, target, headers, sent, CALL_TIMEOUT) as response:
                answered = await response.read()
                retry_after = response.headers.get("Retry-After", "")
                warnings = tuple(map(_warning, response.headers.getall("Warning", ())))
                return Answer(response.status, answered, retry_after, warnings)
        except aiohttp.ClientError:
            if sent is not None and sent.refused is not None:
                raise sent.refused from None
            raise

    async def begin(
        self,
        method: str,
        target: str,
        headers: dict[str, str],
        body: bytes | aiohttp.Payload | None,
        timing: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        """Send a request and return the response once its head has come."""
        if self.pool_manager is None:
            self.pool_manager = self._create_pool_manager()
        session: aiohttp.ClientSession = self.pool_manager
        at = URL(f"{self._server}{target}", encoded=True)
        return await session.request(
            method,
            at,
            headers=headers,
            data=body,
            timeout=timing,
            allow_redirects=False,
            **self._always,
        )

    def _create_connector(self) -> aiohttp.TCPConnector:
        return aiohttp.TCPConnector(
            limit=POOL + WATCHES, ssl=self.ssl_context, keepalive_timeout=60, socket_factory=self._new_socket
        )

    def _new_socket(self, address: tuple[Any, ...]) -> socket.socket:
        family, kind, protocol = address[:3]
        made = socket.socket(family, kind, protocol)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in KEEP_ALIVE:
            if hasattr(socket, name):
                made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        self._sockets.add(made)
        return made

    async def close(self) -> None:
        await super().close()
        for one in self._sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for _ in range(CLOSE_ROUNDS):
            if all(one.fileno() < 0 for one in self._sockets):
                return
            await asyncio.sleep(0.01)


STRATEGIC_PATCH = "application/strategic-merge-patch+json"
"""The content type of patches in which the items of a list are found by their key, not by their position."""
MERGE_PATCH = "application/merge-patch+json"
METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
"""The form of answers to patches. They aren't read, so the API server needn't write out the whole object."""


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One request.

    ``attempt`` says for messages what it does ("bind pod a/b"). ``body`` is encoded as JSON. ``accept`` is the form of
    the answer.
    """

    method: str
    path: str
    attempt: str
    query: Mapping[str, str | int] | None = None
    body: object = None
    content_type: str = "application/json"
    accept: str = "application/json"

    @property
    def writes(self) -> bool:
        """Whether it changes the cluster. A dry run changes nothing."""
        return self.method != "GET" and "dryRun" not in (self.query or ())


class Connection:
    """Calls to one API server. Call ``close`` at the end, or use `connect`."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._generation = credentials.generation
        self._calls = asyncio.Semaphore(POOL)
        self._transport, self._fingerprint = _open(credentials)
        self._retired: _Transport | None = None
        self.permit: Callable[[], None] = _always
        """Called immediately before each write is sent, also before a repeated one. If it raises, nothing is sent."""

    @property
    def origin(self) -> str:
        """The origin of the credentials, for messages."""
        return str(self._credentials.origin)

    @property
    def server(self) -> str:
        """The API server's URL."""
        return self._credentials.configuration.host

    async def close(self) -> None:
        """Close every connection of the pool."""
        for transport in (self._transport, self._retired):
            if transport is not None:
                await transport.close()

    async def call(
        self, request: ApiRequest, limit: float = CALL_LIMIT, patient: bool = True, urgent: bool = False
    ) -> bytes:
        """Send a request and return the body of the answer; see `ask`."""
        return (await self.ask(request, limit, patient, urgent)).body

    async def ask(
        self, request: ApiRequest, limit: float = CALL_LIMIT, patient: bool = True, urgent: bool = False
    ) -> Answer:
        """Send a request and return the answer; all tries together take at most ``limit`` seconds.

        A ``patient`` call is repeated after a 429 or 503. An ``urgent`` call doesn't queue behind other calls. Raise a
        `ClusterError`.
        """
        try:
            async with asyncio.timeout(limit), nullcontext() if urgent else self._calls:
                return await self._repeat(request, patient)
        except TimeoutError:
            raise NoAnswer(f"{request.attempt}: {self.server} gave no answer within {limit:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            reason = str(error) or type(error).__name__
            raise NoAnswer(f"{request.attempt}: {self.server} can't be reached: {reason}") from error

    async def _repeat(self, request: ApiRequest, patient: bool) -> Answer:
        cuts = 0
        while True:
            try:
                answer = await self._renewing(partial(self._send, request))
            except CUT_OFF:
                cuts += 1
                if cuts > 1:
                    raise
                continue
            if answer.status < 300:
                return answer
            refusal = _refusal(answer, request.attempt)
            if not patient or not isinstance(refusal, TooManyRequests):
                raise refusal
            await asyncio.sleep(refusal.retry_after)

    async def _send(self, request: ApiRequest) -> Answer:
        target, headers, body = await self._prepared(request)
        permit = self.permit if request.writes else _always
        return await self._transport.send(request.method, target, headers, body, permit)

    @asynccontextmanager
    async def stream(self, request: ApiRequest, silence: float) -> AsyncIterator[aiohttp.StreamReader]:
        """Yield the content of a response that goes on; reading it fails after ``silence`` seconds without data.

        Raise a `ClusterError`, also for failures while the content is read.
        """
        timing = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_LIMIT, sock_read=silence)
        try:
            async with await self._renewing(partial(self._begin, request, timing)) as response:
                if response.status >= 300:
                    retry_after = response.headers.get("Retry-After", "")
                    refused = Answer(response.status, await response.read(), retry_after)
                    raise _refusal(refused, request.attempt)
                yield response.content
        except TimeoutError:
            raise NoAnswer(f"{request.attempt}: nothing came from {self.server} for {silence:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            reason = str(error) or type(error).__name__
            raise NoAnswer(f"{request.attempt}: {self.server} was lost: {reason}") from error

    async def _begin(self, request: ApiRequest, timing: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        target, headers, body = await self._prepared(request)
        return await self._transport.begin(request.method, target, headers, body, timing)

    async def _prepared(self, request: ApiRequest) -> tuple[str, dict[str, str], bytes | None]:
        """Return the target, the headers and the body of a request."""
        headers = {**HEADERS, "Accept": request.accept}
        body: bytes | None = None
        if request.body is not None:
            headers["Content-Type"] = request.content_type
            body = encode(request.body)
        authorization = await self._credentials.authorization()
        if authorization:
            headers["Authorization"] = authorization
        target = f"{request.path}?{urlencode(request.query)}" if request.query else request.path
        return target, headers, body

    async def _renewing(self, send: Callable[[], Awaitable[Response]]) -> Response:
        """Call ``send``; if the credentials aren't accepted, load them again and call it once more."""
        generation = self._credentials.generation
        try:
            response = await send()
        except UNTRUSTED:
            if not await self._renew(generation):
                raise
            return await send()
        if response.status == 401 and await self._renew(generation):
            if isinstance(response, aiohttp.ClientResponse):
                response.release()
            return await send()
        return response

    async def _renew(self, generation: int) -> bool:
        renewed = await self._credentials.renew(generation)
        if renewed and self._generation != self._credentials.generation:
            self._generation = self._credentials.generation
            await self._reopen()
        return renewed

    async def _reopen(self) -> None:
        """Open a new pool if the TLS files have changed.

        The old pool serves the calls under way until the next change.
        """
        try:
            if tls_fingerprint(self._credentials.configuration) == self._fingerprint:
                return
            transport, fingerprint = _open(self._credentials)
        except BadKubeconfig as error:
            log.warning("the renewed TLS files can't be used; the old ones are kept", error=str(error))
            return
        retired, self._retired = self._retired, self._transport
        self._transport, self._fingerprint = transport, fingerprint
        if retired is not None:
            await retired.close()


def _open(credentials: Credentials) -> tuple[_Transport, str]:
    configuration = credentials.configuration
    # The proxy is part of the configuration. Without trust_env aiohttp doesn't read .netrc before each request.
    configuration.client_session_kwargs = {
        "trust_env": False,
        "cookie_jar": aiohttp.DummyCookieJar(),
        "skip_auto_headers": ("Accept", "Accept-Encoding", "User-Agent", "Content-Type"),
    }
    try:
        return _Transport(configuration), tls_fingerprint(configuration)
    except OSError as error:
        raise BadKubeconfig(
            f"{credentials.origin}: its TLS certificates or key can't be used: {error}"
        ) from error


def _warning(header: str) -> str:
    """Return the text of a Warning header, which is quoted after a code and an agent (RFC 7234, 5.5)."""
    found = QUOTED.search(header)
    return ESCAPED.sub(r"\1", found[1]) if found else header


def _always() -> None:
    """Permit a read, which needs no permission."""


def _refusal(answer: Answer, attempt: str) -> ClusterError:
    try:
        retry_after = float(answer.retry_after or 1)
    except ValueError:
        retry_after = 1.0
    return error_from(answer.status, read_status(answer.body, answer.status), attempt, retry_after)


@asynccontextmanager
async def connect(kubeconfig: str | None = None) -> AsyncIterator[Connection]:
    """Yield a connection by ``kubeconfig``, else $KUBECONFIG, else the pod's ServiceAccount, else ~/.kube/config.

    This sends nothing yet. Raise `errors.BadKubeconfig`, which names the path and the fix.
    """
    credentials = await Credentials.load(find_origin(kubeconfig, os.environ, Path.home()))
    connection = Connection(credentials)
    try:
        yield connection
    finally:
        await connection.close()
