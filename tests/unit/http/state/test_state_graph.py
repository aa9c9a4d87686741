"""The graph in the state API is that of one moment, however long it takes to send."""

from __future__ import annotations

from fluence_extender.graph.cluster_graph import NO_RESOURCES
from fluence_extender.graph.current import GraphSource
from fluence_extender.graph.jgf import Jgf
from fluence_extender.http.state.graph import SLICE, pieces_of
from fluence_extender.http.state.listings import Pieces
from fluence_extender.model.node import Node
from tests.core.values import node


def source(*nodes: Node) -> GraphSource:
    return GraphSource({present.name: present for present in nodes}, NO_RESOURCES, {})


async def collected(pieces: Pieces) -> tuple[list[Jgf], list[Jgf]]:
    vertices = [vertex async for piece in pieces.vertices() for vertex in piece]
    return vertices, [edge async for piece in pieces.edges() for edge in piece]


def by_path(vertices: list[Jgf], edges: list[Jgf]) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Return the sizes of the vertices and the edges between them, by path."""
    paths = {vertex["id"]: vertex["metadata"]["paths"]["containment"] for vertex in vertices}
    assert len(paths) == len(vertices)
    sizes = {paths[vertex["id"]]: vertex["metadata"].get("size", 1) for vertex in vertices}
    return sizes, sorted((paths[edge["source"]], paths[edge["target"]]) for edge in edges)


async def test_pieces_are_the_whole_document_in_whole_cores_and_gib() -> None:
    graph = source(*(node(f"n{number}", 2500, 3) for number in range(400)))
    sizes, edges = by_path(*await collected(await pieces_of(graph)))
    assert len(sizes) == 1 + 400 * 3 > SLICE
    assert (sizes["/cluster/n7/core0"], sizes["/cluster/n7/memory0"]) == (2, 3)
    assert edges == sorted((path.rpartition("/")[0], path) for path in sizes if path != "/cluster")


async def test_leaves_that_make_no_whole_unit_are_left_out() -> None:
    vertices, edges = await collected(await pieces_of(source(node("small", 900, 3))))
    assert by_path(vertices, edges)[0] == {"/cluster": 1, "/cluster/small": 1, "/cluster/small/memory0": 3}
    assert len(edges) == 2
