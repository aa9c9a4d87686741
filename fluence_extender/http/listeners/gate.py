"""Who may see what: the gate in front of the state API and of metrics.

The rule: callers see what they could read from the API server themselves, and only counts of everything else. Gangs and
allocations are shown to those who may list pods in the namespace, nodes and the resource graph to those who may list
nodes, metrics to those who may get the path /metrics. Virtual devices are shown to every caller.

Callers identify themselves in one of two ways:

* Through the API server, as ``kubectl fluence`` does: an APIService makes ``/v1`` a part of the API server's own paths.
  The API server authenticates the user by the kubeconfig's credentials (client certificate, token, exec plugin, OIDC)
  and names the user to us (`front_proxy`). We never see the credentials. The API server's proxy to Services can't be
  used for this, because it removes the user's credentials and doesn't name the user.
* Directly, with a bearer token that the API server accepts for itself, as Prometheus does. The same rights are needed
  as through the API server.

Invariants: a caller who isn't identified sees nothing. While the API server can't be asked, no answer is based on a
decision older than `REMEMBERED`. A repeated request costs no call to the API server. Unknown tokens cost it no more
calls than `newcomers` allows, and delay no other question.
"""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections.abc import Awaitable, Callable, Collection
from hashlib import sha256
from typing import Protocol, TypeVar

from starlette.types import Scope

from fluence_extender.cluster.errors import ClusterError
from fluence_extender.http.listeners.brief_cache import BriefCache
from fluence_extender.http.listeners.front_proxy import FrontProxy
from fluence_extender.http.listeners.newcomers import Newcomers, impossible
from fluence_extender.http.listeners.serving import PEER
from fluence_extender.model.access import EVERYTHING, Caller, CallerSight, Right, pods_in, question

T = TypeVar("T")

Names = Callable[[], Collection[str]]
"""Returns the names of namespaces; called only if they matter."""

REMEMBERED = 10.0
"""Seconds for which a decision of the API server about a caller counts."""

MOST_PEERS = 100
MOST_TOKENS = 1_000
MOST_DECISIONS = 20_000

AT_ONCE = 16
"""The most reviews under way at the same time."""

NEWCOMERS_AT_ONCE = 4
"""The most reviews of tokens under way at the same time."""

MOST_WAITING = 2_000
"""The most reviews that may wait for their turn; more are refused."""

LONGEST_TOKEN = 16_384


class AccessRefused(Exception):
    """The caller gets no answer; ``status`` is 401, 403, 429 or 503, and the text says why and what to do."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def lacking(right: Right) -> AccessRefused:
    """Return the refusal of a caller without ``right``."""
    return AccessRefused(403, f"you may not {right}; an administrator grants it with RBAC")


class Reviews(Protocol):
    """The API server's decisions about callers. Each call may raise a `ClusterError`."""

    async def caller(self, token: str) -> Caller | None:
        """Return the owner of the bearer token, None if it isn't valid."""
        ...

    async def allowed(self, caller: Caller, right: Right) -> bool:
        """Return whether the caller has the right."""
        ...


class AccessGate(Protocol):
    """Decides about one request by its ASGI scope. Each method raises `AccessRefused`."""

    async def admit(self, scope: Scope) -> Caller | None:
        """Return the caller, None if callers aren't identified.

        Refuse a caller who isn't identified, or who may not make this request to the state API.
        """
        ...

    async def demand(self, scope: Scope, right: Right) -> None:
        """Refuse a caller without this right."""
        ...

    async def sight(self, scope: Scope, namespaces: Names, whole: Right | None = None) -> CallerSight:
        """Return which of these ``namespaces`` the caller may see: everything, with the right ``whole``."""
        ...


class OpenGate:
    """Shows everything to everyone. This is for loopback, where all clients are on this machine or in this pod."""

    async def admit(self, scope: Scope) -> None:
        """Let any caller in."""

    async def demand(self, scope: Scope, right: Right) -> None:
        """Let the caller in."""

    async def sight(self, scope: Scope, namespaces: Names, whole: Right | None = None) -> CallerSight:
        """Return the sight of everything."""
        return EVERYTHING


class ReviewingGate:
    """Asks the API server about each caller, and caches the decision for a few seconds."""

    def __init__(self, reviews: Reviews, clock: Callable[[], float] = time.monotonic) -> None:
        self._newcomers = Newcomers(clock)
        self._token_turns = asyncio.Semaphore(NEWCOMERS_AT_ONCE)
        self._front_proxy: FrontProxy | None = None
        self._peers: dict[bytes, bool] = {}
        self._reviews = reviews
        self._callers: BriefCache[bytes, Caller | None] = BriefCache(REMEMBERED, MOST_TOKENS, clock)
        self._decisions: BriefCache[tuple[Caller, Right], bool] = BriefCache(
            REMEMBERED, MOST_DECISIONS, clock
        )
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._waiting = 0

    def adopt(self, front_proxy: FrontProxy | None) -> None:
        """Trust this front proxy from now on, and no other."""
        self._front_proxy = front_proxy
        self._peers.clear()

    async def admit(self, scope: Scope) -> Caller:
        """Return the caller. Refuse one who isn't identified, or who may not make this request.

        The API server has already checked the rights of a caller who comes through it.
        """
        found = self._proxied(scope)
        if found is not None:
            return found
        await self.demand(scope, question(scope["method"], scope["path"]))
        return await self._caller(scope)

    async def demand(self, scope: Scope, right: Right) -> None:
        """Refuse a caller without this right."""
        caller = await self._caller(scope)
        if not await self._allowed(caller, right):
            raise lacking(right)

    async def sight(self, scope: Scope, namespaces: Names, whole: Right | None = None) -> CallerSight:
        """Return which of these ``namespaces`` the caller may see: everything, with the right ``whole``."""
        caller = await self._caller(scope)
        for right in (pods_in(""), whole):
            if right is not None and await self._allowed(caller, right):
                return EVERYTHING
        names = sorted(set(namespaces()))
        allowed = await asyncio.gather(*(self._allowed(caller, pods_in(one)) for one in names))
        seen = frozenset(one for one, yes in zip(names, allowed, strict=True) if yes)
        return CallerSight(seen)

    async def _caller(self, scope: Scope) -> Caller:
        found = self._proxied(scope)
        if found is not None:
            return found
        token = _bearer(scope)
        if not token:
            raise AccessRefused(401, NOT_IDENTIFIED)
        why = impossible(token, time.time())
        if why:
            raise AccessRefused(401, f"the API server accepts no such bearer token: {why}; get a new one")
        key, client = sha256(token.encode()).digest(), scope.get("client") or ("", 0)
        caller = await self._callers.get(key, lambda: self._review_token(key, token, client[0]))
        if caller is None:
            raise AccessRefused(
                401,
                "the API server doesn't accept this bearer token: it is wrong, expired, or for another audience",
            )
        return caller

    async def _review_token(self, key: bytes, token: str, address: str) -> Caller | None:
        if not self._newcomers.may_ask(key, address):
            raise AccessRefused(
                429,
                "too many unknown bearer tokens come from your address, or from all addresses; try again in a few "
                "seconds, or ask through the API server (kubectl fluence)",
            )
        caller = await self._review(lambda: self._reviews.caller(token), self._token_turns)
        self._newcomers.answered(key, caller is not None)
        return caller

    def _proxied(self, scope: Scope) -> Caller | None:
        """Return the user that the front proxy names, None if the request doesn't come through it."""
        peer = scope.get("state", {}).get(PEER)
        if peer is None or self._front_proxy is None:
            return None
        if peer not in self._peers:
            if len(self._peers) >= MOST_PEERS:
                self._peers.clear()
            self._peers[peer] = self._front_proxy.trusts(peer)
        return self._front_proxy.caller(scope["headers"]) if self._peers[peer] else None

    async def _allowed(self, caller: Caller, right: Right) -> bool:
        return await self._decisions.get(
            (caller, right), lambda: self._review(lambda: self._reviews.allowed(caller, right))
        )

    async def _review(self, ask: Callable[[], Awaitable[T]], turns: asyncio.Semaphore | None = None) -> T:
        if self._waiting >= MOST_WAITING:
            raise AccessRefused(429, "too many callers at once; try again")
        self._waiting += 1
        try:
            async with turns or self._turns:
                return await ask()
        except ClusterError as error:
            raise AccessRefused(503, f"the API server can't be asked who may see this: {error}") from error
        finally:
            self._waiting -= 1


NOT_IDENTIFIED = (
    "this request names no user: ask through the API server (kubectl fluence, or kubectl get --raw "
    "/apis/fluence.flux-framework.org/v1/gangs), or send a bearer token"
)


def is_loopback(host: str) -> bool:
    """Return whether a listener at ``host`` can be reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _bearer(scope: Scope) -> str:
    """Return the bearer token of a request, "" if it has none."""
    for name, value in scope["headers"]:
        if name == b"authorization" and len(value) <= LONGEST_TOKEN:
            kind, _, token = value.decode("latin-1").partition(" ")
            if kind.lower() == "bearer":
                return str(token.strip())
    return ""
