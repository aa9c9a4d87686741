"""The graph in the state API is that of one moment, however long it takes to send."""

from __future__ import annotations

import asyncio

from fluence_extender.graph import jgf
from fluence_extender.graph.cluster_graph import build_containment
from fluence_extender.graph.containment import Containment
from fluence_extender.graph.units import COARSE, FINE, Units
from fluence_extender.http.state.graph import pieces_of
from fluence_extender.http.state.listings import Pieces
from tests.core.values import node


def cluster(count: int, units: Units = FINE) -> Containment:
    return build_containment([node(f"n{number}", 2500, 3) for number in range(count)], units=units)


async def collected(pieces: Pieces) -> tuple[list[jgf.Jgf], list[jgf.Jgf]]:
    vertices = [one async for piece in pieces.vertices() for one in piece]
    return vertices, [one async for piece in pieces.edges() for one in piece]


def by_path(vertices: list[jgf.Jgf], edges: list[jgf.Jgf]) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Return the sizes of the vertices and the edges between them, by path."""
    paths = {one["id"]: one["metadata"]["paths"]["containment"] for one in vertices}
    assert len(paths) == len(vertices)
    sizes = {paths[one["id"]]: one["metadata"].get("size", 1) for one in vertices}
    return sizes, sorted((paths[one["source"]], paths[one["target"]]) for one in edges)


async def test_the_pieces_are_the_whole_document_in_whole_cores_and_gib() -> None:
    containment = cluster(400)
    vertices, edges = await collected(await pieces_of(lambda: containment))
    graph = jgf.sized(jgf.to_jgf(cluster(400, COARSE)))["graph"]
    assert by_path(vertices, edges) == by_path(graph["nodes"], graph["edges"])
    assert len(vertices) == 1 + 400 * 3


async def test_leaves_that_make_no_whole_unit_are_left_out() -> None:
    containment = build_containment([node("small", 900, 3)], units=FINE)
    vertices, edges = await collected(await pieces_of(lambda: containment))
    assert by_path(vertices, edges)[0] == {"/cluster": 1, "/cluster/small": 1, "/cluster/small/memory0": 3}
    assert len(edges) == 2


async def test_a_graph_that_changes_meanwhile_is_gathered_again() -> None:
    now = [cluster(400)]
    other = cluster(3)

    def look() -> Containment:
        return now[0]

    reading = asyncio.create_task(pieces_of(look))
    await asyncio.sleep(0)
    now[0] = other
    vertices, _ = await collected(await reading)
    assert len(vertices) == 10


async def test_a_graph_that_keeps_changing_is_shown_all_the_same() -> None:
    containment = cluster(400)

    def look() -> Containment:
        containment.revision += 1
        return containment

    vertices, edges = await collected(await pieces_of(look))
    assert (len(vertices), len(edges)) == (1201, 1200)
