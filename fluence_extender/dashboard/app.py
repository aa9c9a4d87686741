"""The addresses of the dashboard, and the answers behind them.

A page that is open asks for itself again, with the tag of what it shows and how long it waits. The answer comes as soon
as the page would look different. A page is made once for each state of a visitor, for all who look at it in his name.

On the user's own machine there is one visitor. In the cluster each request brings the bearer token of its user, which
the proxy in front of us has put there, and everything is asked with it.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs
from weakref import WeakKeyDictionary

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from fluence_extender.dashboard.pages.devices import devices_page
from fluence_extender.dashboard.pages.frame import PageContent, framed
from fluence_extender.dashboard.pages.gangs import gang_page, gangs_page
from fluence_extender.dashboard.pages.nodes import node_page, nodes_page
from fluence_extender.dashboard.pages.overview import overview_page
from fluence_extender.dashboard.pages.parts import note
from fluence_extender.dashboard.pages.queue import queue_page
from fluence_extender.dashboard.pages.search import search_page
from fluence_extender.dashboard.pages.usage import usage_page
from fluence_extender.dashboard.pages.whatif import too_large, whatif_page
from fluence_extender.dashboard.poller import Poller
from fluence_extender.dashboard.service import LARGEST_MANIFEST, ServiceAddress, ServiceReader, Trouble
from fluence_extender.dashboard.state import ClusterState
from fluence_extender.dashboard.views import links
from fluence_extender.dashboard.views.filters import Filters
from fluence_extender.dashboard.views.usage import question
from fluence_extender.dashboard.views.whatif import what_if
from fluence_extender.dashboard.watch import TooManyVisitors, VisitorWatch

STATIC = Path(__file__).parent / "static"

WAIT = "Fluence-Wait"
"""The header with the tag that a page shows; its answer may take `PATIENCE`."""

PATIENCE = 20.0
REDRAWN = 15.0
"""Seconds after which a page is made anew although nothing changed: a timeline moves on."""

MOST_KEPT = 64
"""Pages of a visitor that are kept for others who look at them in his name."""


@dataclass(frozen=True, slots=True)
class _Made:
    """A page as it was made, for one version of the state, until it is old."""

    version: int
    until: float
    tag: str
    text: str
    status: int


Maker = Callable[[Poller, ClusterState, Request], Awaitable[PageContent]]

NOBODY = (
    "This request names no user. Open the dashboard through the proxy that logs you in.\n"
    "For its operator: the proxy has to pass on the user's token as Authorization: Bearer (docs/dashboard.md).\n"
)
CROWDED = "Too many users look at this dashboard now. Try again in a minute.\n"
LONGEST_TOKEN = 16_384


class _Unnamed(Exception):
    """The request can't be answered; it has the answer."""

    def __init__(self, answer: Response) -> None:
        super().__init__()
        self.answer = answer


class Dashboard:
    """The pages over one origin of ``/v1``; ``shared`` by users who are named by their tokens, or of one user."""

    def __init__(self, origin: ServiceAddress, shared: bool = False) -> None:
        self._reader = ServiceReader(origin)
        self._watch = VisitorWatch(self._reader)
        self._shared = shared
        self._made: WeakKeyDictionary[Poller, dict[str, _Made]] = WeakKeyDictionary()
        self._renewing = asyncio.Lock()
        pages: dict[str, Maker] = {
            links.OVERVIEW: _at_once(lambda state, _: overview_page(state)),
            links.QUEUE: _at_once(lambda state, request: queue_page(state, _filters(request))),
            links.GANGS: _at_once(lambda state, request: gangs_page(state, _filters(request))),
            links.NODES: _at_once(lambda state, request: nodes_page(state, _filters(request))),
            links.DEVICES: _at_once(lambda state, request: devices_page(state, _filters(request))),
            links.USAGE: self._usage,
            links.SEARCH: _at_once(lambda state, request: search_page(state, _filters(request)["q"])),
            f"{links.NODES}/{{name}}": self._node,
            f"{links.GANGS}/{{namespace}}/{{name:path}}": self._gang,
        }
        self.app = Starlette(
            routes=[
                *(Route(path, self._endpoint(maker)) for path, maker in pages.items()),
                Route(links.WHAT_IF, self._ask, methods=["GET", "POST"]),
                Route("/healthz", _healthy),
                Mount("/static", StaticFiles(directory=STATIC)),
            ],
            lifespan=self._lifespan,
            exception_handlers={404: _no_page, _Unnamed: _unnamed},
        )

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        async with self._reader:
            polling = asyncio.create_task(self._watch.run())
            try:
                yield
            finally:
                polling.cancel()
                with suppress(asyncio.CancelledError):
                    await polling

    async def end(self) -> None:
        """Answer the pages that wait for news, so that the server can end."""
        await self._watch.end()

    async def _visitor(self, request: Request) -> Poller:
        """Return what the visitor of a request sees. Raise `_Unnamed`."""
        authorization = ""
        if self._shared:
            authorization = request.headers.get("Authorization", "")
            if not authorization.lower().startswith("bearer ") or len(authorization) > LONGEST_TOKEN:
                raise _Unnamed(PlainTextResponse(NOBODY, 401, {"WWW-Authenticate": "Bearer"}))
        try:
            return await self._watch.visited(authorization)
        except TooManyVisitors:
            raise _Unnamed(PlainTextResponse(CROWDED, 503, {"Retry-After": "60"})) from None

    def _endpoint(self, maker: Maker) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            shown = request.headers.get(WAIT, "")
            visitor = await self._visitor(request)
            state = visitor.state
            deadline = time.monotonic() + PATIENCE
            while True:
                made = await self._page(visitor, state, request, maker)
                left = deadline - time.monotonic()
                if made.tag != shown:
                    headers = {"ETag": f'"{made.tag}"', "Cache-Control": "no-store"}
                    return Response(made.text, made.status, headers, "text/html; charset=utf-8")
                if left <= 0 or visitor.ending:
                    return Response(status_code=204)
                state = await visitor.newer(state.version, min(left, max(made.until - time.monotonic(), 0.1)))
                await self._turn()

        return endpoint

    async def _turn(self) -> None:
        """Wait for the turn of a page that is made anew; requests that come meanwhile are answered between two."""
        async with self._renewing:
            await asyncio.sleep(0)

    async def _page(self, visitor: Poller, state: ClusterState, request: Request, maker: Maker) -> _Made:
        """Return the page for a state of a visitor, which may have been made for another window of his."""
        address = f"{request.url.path}?{request.url.query}"
        pages = self._made.setdefault(visitor, {})
        known = pages.get(address)
        now = time.monotonic()
        if known is not None and known.version == state.version and now < known.until:
            return known
        page = await maker(visitor, state, request)
        text = framed(page, state, request.query_params.get("q", ""))
        tag = hashlib.sha256(text.encode()).hexdigest()[:24]
        made = _Made(state.version, now + REDRAWN, tag, text, page.status)
        if len(pages) >= MOST_KEPT:
            pages.clear()
        pages[address] = made
        return made

    async def _gang(self, visitor: Poller, state: ClusterState, request: Request) -> PageContent:
        namespace, name = request.path_params["namespace"], request.path_params["name"]
        convention = request.query_params.get("convention", "")
        query = {"convention": convention} if convention else {}
        try:
            item = await visitor.story(f"/v1/gangs/{namespace}/{name}", query)
        except Trouble as trouble:
            return _troubled(f"Gang {namespace}/{name}", links.gang(namespace, name), state, trouble)
        return gang_page(namespace, name, item, state)

    async def _node(self, visitor: Poller, state: ClusterState, request: Request) -> PageContent:
        name = request.path_params["name"]
        try:
            item = await visitor.story(f"/v1/nodes/{name}")
        except Trouble as trouble:
            return _troubled(f"Node {name}", links.node(name), state, trouble)
        return node_page(name, item, state)

    async def _usage(self, visitor: Poller, state: ClusterState, request: Request) -> PageContent:
        filters = _filters(request)
        try:
            answer = await visitor.story("/v1/usage", question(filters), REDRAWN)
        except Trouble as trouble:
            return usage_page(state, filters, trouble)
        return usage_page(state, filters, answer or {})

    async def _ask(self, request: Request) -> Response:
        visitor = await self._visitor(request)
        if request.method != "POST":
            return _document(whatif_page(visitor.state))
        content = bytearray()
        async for chunk in request.stream():
            content += chunk
            # A form writes a byte as up to three.
            if len(content) > 3 * LARGEST_MANIFEST:
                return _document(whatif_page(visitor.state, trouble=too_large()))
        given = parse_qs(content.decode(errors="replace"), max_num_fields=8)
        manifest, namespace = given.get("manifest", [""])[0], given.get("namespace", [""])[0]
        if len(manifest.encode()) > LARGEST_MANIFEST:
            return _document(whatif_page(visitor.state, namespace=namespace, trouble=too_large()))
        try:
            answer = await visitor.reader.simulate(manifest, namespace)
        except Trouble as trouble:
            return _document(whatif_page(visitor.state, manifest, namespace, trouble=trouble))
        return _document(whatif_page(visitor.state, manifest, namespace, what_if(answer)))


def _at_once(make: Callable[[ClusterState, Request], PageContent]) -> Maker:
    async def made(_: Poller, state: ClusterState, request: Request) -> PageContent:
        return make(state, request)

    return made


def _filters(request: Request) -> Filters:
    return Filters({name: value for name, value in request.query_params.items() if value})


def _troubled(title: str, path: str, state: ClusterState, trouble: Trouble) -> PageContent:
    """Return a page that can't be shown now. The frame tells of a trouble that it knows of."""
    known = state.trouble is not None and state.trouble.text == trouble.text
    return PageContent(title, path, None if known else note(trouble.text, trouble.advice, "trouble"))


def _document(page: PageContent) -> Response:
    headers = {"Cache-Control": "no-store"}
    return Response(framed(page, None), page.status, headers, "text/html; charset=utf-8")


async def _unnamed(_: Request, error: Exception) -> Response:
    assert isinstance(error, _Unnamed)
    return error.answer


async def _no_page(request: Request, _: Exception) -> Response:
    advice = "The navigation above leads to all pages. The search finds gangs, nodes and devices."
    return _document(
        PageContent("There is no such page", request.url.path, note("Nothing is here.", advice), status=404)
    )


async def _healthy(_: Request) -> Response:
    return PlainTextResponse("ok\n")
