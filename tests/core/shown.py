"""Reading what the state API would show."""

from __future__ import annotations

import json
from typing import TypeVar

from fluence_extender.http.state.lists import Page, graph_document
from fluence_extender.http.state.state import Listing
from fluence_extender.matcher.port import Jgf
from tests.core.world import World

V = TypeVar("V")


def every(listing: Listing[V]) -> list[V]:
    """All items of a list."""
    items = listing.read()
    return [view for key in items.keys if (view := items.make(key)) is not None]


def drawn(world: World, expanded: bool) -> Jgf:
    """The graph."""

    async def draw() -> bytes:
        pieces = await world.service.graph(expanded).read()
        return b"".join([piece async for piece in graph_document(pieces)])

    document: Jgf = json.loads(world.run(draw()))
    return document


def documents(world: World) -> dict[str, tuple[str, str]]:
    """Everything that can be asked for: its revision and its content, by path."""
    service = world.service
    listings: dict[str, Listing[object]] = {
        "/v1/gangs": service.gangs(),
        "/v1/gangs?gone=true": service.gangs(gone=True),
        "/v1/allocations": service.allocations(),
        "/v1/nodes": service.nodes(),
        "/v1/backends": service.backends(),
    }
    found = {path: (one.revision, _text(world, one)) for path, one in listings.items()}
    found["/v1/graph"] = (service.graph(False).revision, json.dumps(drawn(world, False)))
    for gang in every(service.gangs(gone=True)):
        story = service.gang(gang.namespace, gang.name, gang.convention)
        if story is not None:
            found[f"/v1/gangs/{gang.namespace}/{gang.name}"] = (story.revision, repr(story))
    for node in every(service.nodes()):
        about = service.node(node.name)
        assert about is not None
        found[f"/v1/nodes/{node.name}"] = (about.revision, repr(about))
    return found


def _text(world: World, listing: Listing[object]) -> str:
    async def read() -> bytes:
        return b"".join([part async for part in Page("all", 0, "").streamed(listing.read(), None, True)])

    return str(world.run(read()).decode())
