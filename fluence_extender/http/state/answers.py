"""How a document of the state API is answered: whether it is new, who says so, whole or in pieces."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import fields
from typing import Any, TypeVar

from fastapi import Request
from fastapi.responses import Response, StreamingResponse

from fluence_extender.graph.jgf import GraphTooLarge
from fluence_extender.http.port import Placements
from fluence_extender.http.state.documents import encoded
from fluence_extender.http.state.lists import Page, graph_document
from fluence_extender.http.state.paging import BadToken
from fluence_extender.http.state.problems import BadQuestion
from fluence_extender.http.state.state import Graph, Listing
from fluence_extender.http.state.validators import Tags, matches

V = TypeVar("V")

JSON = "application/json"
LEADING = "Fluence-Leading"


class Answers:
    """Makes the answers of one process."""

    def __init__(self, placements: Placements) -> None:
        self._placements = placements
        self._tags = Tags()

    def listing(
        self, request: Request, listing: Listing[V], page: Page, keep: Callable[[V], bool] | None
    ) -> Response:
        """A page of a list, of those to ``keep``."""
        headers, known = self._headers(request, listing.revision)
        if known is not None:
            return known
        try:
            pieces = page.streamed(listing.read(), keep, self._placements.leading)
        except BadToken as error:
            raise BadQuestion(str(error)) from None
        return _streamed(pieces, headers)

    async def graph(self, request: Request, graph: Graph) -> Response:
        """The graph."""
        headers, known = self._headers(request, graph.revision)
        if known is not None:
            return known
        try:
            pieces = await graph.read()
        except GraphTooLarge as error:
            raise BadQuestion(f"{error}; ask without expand") from None
        return _streamed(graph_document(pieces), headers)

    def one(self, request: Request, revision: str, *parts: Any, **more: Any) -> Response:
        """One item: the fields of ``parts`` (dataclasses), and ``more``."""
        headers, known = self._headers(request, revision)
        if known is not None:
            return known
        document = {field.name: getattr(part, field.name) for part in parts for field in fields(part)}
        body = encoded({**document, **more, "leading": self._placements.leading})
        return Response(body, media_type=JSON, headers=headers)

    def _headers(self, request: Request, revision: str) -> tuple[dict[str, str], Response | None]:
        """The headers of an answer, and the 304 that it is where whoever asks has it already."""
        leading = self._placements.leading
        tag = self._tags.tag(revision, leading)
        headers = {"ETag": tag, "Cache-Control": "no-cache", LEADING: str(leading).lower()}
        if matches(request.headers.get("if-none-match", ""), tag):
            return headers, Response(status_code=304, headers=headers)
        return headers, None


def _streamed(pieces: AsyncIterator[bytes], headers: dict[str, str]) -> Response:
    return StreamingResponse(pieces, media_type=JSON, headers=headers)
