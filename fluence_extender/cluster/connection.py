"""One connection pool to the API server, with raw bodies both ways.

The official client's `RESTClientObject` prepares TLS, client certificates, server name and proxy; streams go through
its aiohttp session, calls go through an `Exchange`, which costs a fraction of it; its typed models are never used, as
making them costs far more than everything we do with them. Every call has a time limit, and every failure is a
`ClusterError`.

Repeating a call is safe here: each write carries a uid or a fixed name, so the API server refuses it the
second time. Hence a call cut off before its answer is repeated once, and one turned away for load (429, 503)
while time is left.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from weakref import WeakSet

import aiohttp
import structlog
from aiohttp.abc import AbstractStreamWriter
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from msgspec.json import encode
from yarl import URL

from fluence_extender import __version__
from fluence_extender.cluster.credentials import Credentials, find_origin, tls_fingerprint
from fluence_extender.cluster.errors import BadKubeconfig, Busy, NoAnswer, error_from, read_status
from fluence_extender.cluster.exchange import Answer, Exchange
from fluence_extender.cluster.port import ClusterError

log = structlog.get_logger(__name__)

POOL = 288
"""Calls under way at the same time: more than anybody makes at once who counts his own."""

WATCHES = 16
CONNECT_LIMIT = 5.0
CALL_LIMIT = 8.0
CALL_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_LIMIT)
CUT_OFF = (aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError, ConnectionResetError)
UNTRUSTED = (aiohttp.ClientConnectorCertificateError, ssl.SSLCertVerificationError)
CLOSE_ROUNDS = 100
HEADERS = {"Accept-Encoding": "identity", "User-Agent": f"fluence-extender/{__version__}"}
KEEP_ALIVE = (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 5000))
"""The last one, in milliseconds: what the peer hasn't taken by then is dropped, and never arrives later (tcp(7))."""


class _Permitted(aiohttp.BytesPayload):
    """A body for which ``permit`` is asked once there is a connection; ``refused`` is what that raised.

    Without its body the API server carries no write out.
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
    """The official session with TCP keep-alive, so that a dead peer ends a silent watch in half a minute.

    It knows its sockets: aiohttp leaves cut TLS connections to close by themselves, and on ``close`` they must.
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
        name = configuration.tls_server_name or ""
        self._exchange = Exchange(self._server, self.ssl_context, name, self._new_socket, CONNECT_LIMIT)

    async def exchange(
        self,
        method: str,
        target: str,
        headers: dict[str, str],
        body: bytes | None,
        permit: Callable[[], None],
    ) -> Answer:
        """A whole answer to a request whose ``target`` is encoded already; ``permit`` is asked just before it goes."""
        if not self.proxy:
            return await self._exchange.send(method, target, headers, body, permit)
        permit()
        sent = _Permitted(body, permit) if body else None
        try:
            async with await self.begin(method, target, headers, sent, CALL_TIMEOUT) as response:
                answered = await response.read()
                return Answer(response.status, answered, response.headers.get("Retry-After", ""))
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
        """The response as soon as its head is there."""
        if self.pool_manager is None:
            self.pool_manager = self._create_pool_manager()
        session: aiohttp.ClientSession = self.pool_manager
        at = URL(f"{self._server}{target}", encoded=True)
        return await session.request(method, at, headers=headers, data=body, timeout=timing, **self._always)

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
        self._exchange.close()
        await super().close()
        for one in self._sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for _ in range(CLOSE_ROUNDS):
            if all(one.fileno() < 0 for one in self._sockets):
                return
            await asyncio.sleep(0.01)


STRATEGIC_PATCH = "application/strategic-merge-patch+json"
"""The content type of patches that tell the items of a list apart by their key, whatever their order."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request; ``attempt`` says for messages what it is to do ("bind pod a/b"), ``body`` becomes JSON.

    ``accept`` is the form of the answer.
    """

    method: str
    path: str
    attempt: str
    query: Mapping[str, str | int] | None = None
    body: object = None
    content_type: str = "application/json"
    accept: str = "application/json"


class Connection:
    """Calls to one API server; ``close`` it, or use `connect` as a context manager."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._generation = credentials.generation
        self._calls = asyncio.Semaphore(POOL)
        self._transport, self._fingerprint = _open(credentials)
        self._retired: _Transport | None = None
        self.permit: Callable[[], None] = _always
        """Called immediately before each write is sent, repeated ones too; what it raises keeps the write back."""

    @property
    def origin(self) -> str:
        """Where the credentials came from, for messages."""
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
        self, request: Request, limit: float = CALL_LIMIT, patient: bool = True, urgent: bool = False
    ) -> bytes:
        """The body of the answer, all tries together within ``limit`` seconds.

        ``patient``: wait out a 429 or 503; ``urgent``: don't queue behind other calls. Raises `errors.NoAnswer`,
        `Denied`, `Gone`, `Conflict`, `errors.Invalid`, `errors.Busy` or another `ClusterError`.
        """
        try:
            async with asyncio.timeout(limit), nullcontext() if urgent else self._calls:
                return await self._repeat(request, patient)
        except TimeoutError:
            raise NoAnswer(f"{request.attempt}: {self.server} gave no answer within {limit:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            reason = str(error) or type(error).__name__
            raise NoAnswer(f"{request.attempt}: {self.server} can't be reached: {reason}") from error

    async def _repeat(self, request: Request, patient: bool) -> bytes:
        cuts = 0
        while True:
            try:
                answer = await self._ask(request)
            except CUT_OFF:
                cuts += 1
                if cuts > 1:
                    raise
                continue
            if answer.status < 400:
                return answer.body
            refusal = _refusal(answer, request.attempt)
            if not patient or not isinstance(refusal, Busy):
                raise refusal
            await asyncio.sleep(refusal.retry_after)

    async def _ask(self, request: Request) -> Answer:
        """Ask; where the API server doesn't know us, once more with credentials loaded anew."""
        generation = self._credentials.generation
        try:
            answer = await self._ask_once(request)
        except UNTRUSTED:
            if not await self._renew(generation):
                raise
            return await self._ask_once(request)
        if answer.status == 401 and await self._renew(generation):
            return await self._ask_once(request)
        return answer

    async def _ask_once(self, request: Request) -> Answer:
        target, headers, body = await self._prepared(request)
        permit = _always if request.method == "GET" else self.permit
        return await self._transport.exchange(request.method, target, headers, body, permit)

    @asynccontextmanager
    async def stream(self, request: Request, silence: float) -> AsyncIterator[aiohttp.StreamReader]:
        """A response that goes on; reading it fails once nothing came for ``silence`` seconds.

        Raises as `call` does; failures while the body is read come out as `errors.NoAnswer` too.
        """
        timing = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_LIMIT, sock_read=silence)
        try:
            async with await self._begin(request, timing) as response:
                if response.status >= 400:
                    retry_after = response.headers.get("Retry-After", "")
                    refused = Answer(response.status, await response.read(), retry_after)
                    raise _refusal(refused, request.attempt)
                yield response.content
        except TimeoutError:
            raise NoAnswer(f"{request.attempt}: nothing came from {self.server} for {silence:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            reason = str(error) or type(error).__name__
            raise NoAnswer(f"{request.attempt}: {self.server} was lost: {reason}") from error

    async def _begin(self, request: Request, timing: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        """Begin a stream; where the API server doesn't know us, once more with credentials loaded anew."""
        generation = self._credentials.generation
        try:
            response = await self._begin_once(request, timing)
        except UNTRUSTED:
            if not await self._renew(generation):
                raise
            return await self._begin_once(request, timing)
        if response.status == 401 and await self._renew(generation):
            response.release()
            return await self._begin_once(request, timing)
        return response

    async def _begin_once(self, request: Request, timing: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        target, headers, body = await self._prepared(request)
        return await self._transport.begin(request.method, target, headers, body, timing)

    async def _prepared(self, request: Request) -> tuple[str, dict[str, str], bytes | None]:
        """Target, headers and body."""
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

    async def _renew(self, generation: int) -> bool:
        renewed = await self._credentials.renew(generation)
        if renewed and self._generation != self._credentials.generation:
            self._generation = self._credentials.generation
            await self._reopen()
        return renewed

    async def _reopen(self) -> None:
        """New TLS files need new connections; the old pool serves what is under way until the next change."""
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
    # The proxy was settled on loading; without trust_env aiohttp doesn't read .netrc before each request.
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


def _always() -> None:
    """Reading needs no permit."""


def _refusal(answer: Answer, attempt: str) -> ClusterError:
    try:
        retry_after = float(answer.retry_after or 1)
    except ValueError:
        retry_after = 1.0
    return error_from(answer.status, read_status(answer.body, answer.status), attempt, retry_after)


@asynccontextmanager
async def connect(kubeconfig: str | None = None) -> AsyncIterator[Connection]:
    """A connection by ``kubeconfig``, else $KUBECONFIG, else the pod's ServiceAccount, else ~/.kube/config.

    Nothing is sent yet. Raises `errors.BadKubeconfig`, naming the path and the fix.
    """
    credentials = await Credentials.load(find_origin(kubeconfig, os.environ, Path.home()))
    connection = Connection(credentials)
    try:
        yield connection
    finally:
        await connection.close()
