"""What the state API shows of a world."""

from __future__ import annotations

import json
from typing import TypeVar

from fluence_extender.graph.jgf import Jgf
from fluence_extender.http.state.listings import Listing
from fluence_extender.http.state.responses import graph_document, list_document
from fluence_extender.model.access import EVERYTHING
from tests.core.world import World

V = TypeVar("V")


def every(listing: Listing[V]) -> list[V]:
    """Return all items of a list."""
    items = listing.read()
    return [item for key in items.keys if (item := items.make(key)) is not None]


def drawn(world: World) -> Jgf:
    """Return the graph document."""

    async def draw() -> bytes:
        pieces = await world.state.graph().read()
        return b"".join([piece async for piece in graph_document(pieces)])

    document: Jgf = json.loads(world.run(draw()))
    return document


def documents(world: World) -> dict[str, tuple[str, str]]:
    """Return the revision and the content of every document, by path."""
    state = world.state
    listings: dict[str, Listing[object]] = {
        "/v1/gangs": state.gangs(False, EVERYTHING),
        "/v1/gangs?gone=true": state.gangs(True, EVERYTHING),
        "/v1/allocations": state.allocations(),
        "/v1/nodes": state.nodes(),
        "/v1/backends": state.backends(),
    }
    found = {path: (one.revision, _text(world, one)) for path, one in listings.items()}
    found["/v1/graph"] = (state.graph().revision, json.dumps(drawn(world)))
    for gang in every(state.gangs(True, EVERYTHING)):
        story = state.gang(gang.namespace, gang.name, gang.convention, EVERYTHING)
        if story is not None:
            found[f"/v1/gangs/{gang.namespace}/{gang.name}"] = (story.revision, repr(story))
    for node in every(state.nodes()):
        about = state.node(node.name)
        assert about is not None
        found[f"/v1/nodes/{node.name}"] = (about.revision, repr(about))
    return found


def _text(world: World, listing: Listing[object]) -> str:
    async def read() -> bytes:
        return b"".join([part async for part in list_document(listing.read(), None, True)])

    return str(world.run(read()).decode())
