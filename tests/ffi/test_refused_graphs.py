"""Graph documents that would crash the library or leave it half loaded are refused, and the error names the place."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import pytest

from fluxion_ffi import InvalidGraph, Library, ResourceGraph
from tests.ffi.documents import Json, edge, graph, vertex
from tests.ffi.stub import Stub

NODE = "graph.nodes[1]"


def metadata(document: Json, index: int = 1) -> Json:
    found: Json = document["graph"]["nodes"][index]["metadata"]
    return found


def setting(**values: Any) -> Callable[[Json], object]:
    return lambda document: metadata(document).update(values)


def dropping(key: str) -> Callable[[Json], object]:
    return lambda document: metadata(document).pop(key)


def node(**values: Any) -> Callable[[Json], object]:
    return lambda document: document["graph"]["nodes"][1].update(values)


def edges(*added: Any) -> Callable[[Json], object]:
    return lambda document: document["graph"]["edges"].extend(added)


def anonymous(name: str) -> Callable[[Json], object]:
    def change(document: Json) -> None:
        metadata(document)["name"] = name
        del metadata(document)["id"]

    return change


BAD_VERTICES = [
    (setting(properties={"a": 1}), f"{NODE}.metadata.properties.a: must be a string"),
    (setting(properties={"a": None}), f"{NODE}.metadata.properties.a: must be a string"),
    (setting(properties=None), f"{NODE}.metadata.properties: must be an object"),
    (setting(properties=["a"]), f"{NODE}.metadata.properties: must be an object"),
    (setting(paths={"containment": 7}), f"{NODE}.metadata.paths.containment: must be a string"),
    (setting(paths={"containment": None}), f"{NODE}.metadata.paths.containment: must be a string"),
    (setting(paths={}), f"{NODE}.metadata.paths: must be an object with the one key containment"),
    (setting(paths={"power": "/p"}), f"{NODE}.metadata.paths: must be"),
    (setting(paths="/cluster0/node0"), f"{NODE}.metadata.paths: must be"),
    (setting(paths={"containment": "node0"}), "isn't of the form /root/…/name"),
    (setting(paths={"containment": "/cluster0/node0/"}), "isn't of the form"),
    (setting(paths={"containment": "/cluster0" + "/a" * 300}), "deeper than 256 levels"),
    (dropping("paths"), f"{NODE}.metadata.paths: must be"),
    (dropping("type"), f"{NODE}.metadata.type: must be a string"),
    (setting(type=""), f"{NODE}.metadata.type: must be a string that isn't empty"),
    (setting(name=None), f"{NODE}.metadata.name: must be a string"),
    (setting(basename=3), f"{NODE}.metadata.basename: must be a string"),
    (setting(unit=None), f"{NODE}.metadata.unit: must be a string"),
    (setting(id="0"), f"{NODE}.metadata.id: must be an integer"),
    (setting(id=True), f"{NODE}.metadata.id: must be an integer"),
    (setting(uniq_id=2**63), f"{NODE}.metadata.uniq_id: must be an integer"),
    (setting(rank=-2), f"{NODE}.metadata.rank: must be an integer from -1"),
    (setting(rank=None), f"{NODE}.metadata.rank: must be an integer"),
    (setting(size=-1), f"{NODE}.metadata.size: must be an integer from 0"),
    (setting(size=2**32), f"{NODE}.metadata.size: must be an integer"),
    (setting(size=1.0), f"{NODE}.metadata.size: must be an integer"),
    (setting(status="up"), f"{NODE}.metadata.status: must be an integer"),
    (setting(status=2), f"{NODE}.metadata.status: must be an integer"),
    (setting(exclusive=1), f"{NODE}.metadata.exclusive: must be true or false"),
    (node(id=1), f"{NODE}.id: must be a string"),
    (node(id="n1"), f"{NODE}.id: 'n1' doesn't begin with a number"),
    (node(id="9" * 19), f"{NODE}.id: '{'9' * 19}' doesn't fit 64 bits"),
    (node(id="9" * 400), "doesn't fit 64 bits"),
    (node(metadata=None), f"{NODE}.metadata: must be an object"),
    (anonymous("host" + "9" * 20), f"{NODE}.metadata.name: ends in a number beyond 64 bits"),
    (anonymous("a" * 2000), f"{NODE}.metadata.name: longer than 1024 characters"),
]

BAD_GRAPHS = [
    (lambda document: document.pop("graph"), "graph: must be an object"),
    (lambda document: document["graph"].pop("nodes"), "graph.nodes: must be a list"),
    (lambda document: document["graph"].update(edges={}), "graph.edges: must be a list"),
    (lambda document: document["graph"]["nodes"].append(None), "graph.nodes[7]: must be an object"),
    (lambda document: document["graph"]["nodes"].append(vertex(1, "x", "/cluster0/x")), "'1' appears twice"),
    (
        lambda document: document["graph"]["nodes"].append(vertex(9, "x", "/cluster0/node0")),
        "/cluster0/node0 appears twice",
    ),
    (
        lambda document: document["graph"]["nodes"].append(vertex(9, "x", "/other0")),
        "/other0 would be a second root beside /cluster0",
    ),
    (
        lambda document: document["graph"]["nodes"].pop(0),
        "graph.edges[0].source: '0' isn't the id of a vertex",
    ),
    (edges({"source": "0"}), "graph.edges[6].target: None isn't the id"),
    (edges("0-1"), "graph.edges[6]: must be an object"),
    (edges(edge(0, 2)), "graph.edges[6]: /cluster0/node0/core0 doesn't lie directly below /cluster0"),
    (edges(edge(1, 0)), "graph.edges[6]: /cluster0 doesn't lie directly below /cluster0/node0"),
    (edges(edge(0, 1)), "graph.edges[6]: /cluster0 has another child with uniq_id 1"),
    (
        edges(edge(0, 1) | {"metadata": {"subsystem": "power"}}),
        "graph.edges[6].metadata: only the containment subsystem",
    ),
    (lambda document: document["graph"]["edges"].clear(), "the root /cluster0 contains nothing"),
    (
        lambda document: document["graph"].update(nodes=[vertex(0, "cluster", "/c")], edges=[]),
        "/c contains nothing",
    ),
    (lambda document: document["graph"].update(nodes=[], edges=[]), "graph.nodes: no vertex is the root"),
    (
        lambda document: metadata(document, 4).update(uniq_id=1),
        "/cluster0 has another child with uniq_id 1",
    ),
]


@pytest.mark.parametrize(
    ("change", "message"),
    BAD_VERTICES + BAD_GRAPHS,
    ids=lambda value: value[:60] if isinstance(value, str) else None,
)
def test_a_graph_is_refused_with_the_place(
    stub: Stub, library: Library, change: Callable[[Json], object], message: str
) -> None:
    document = graph()
    change(document)
    with pytest.raises(InvalidGraph) as raised:
        ResourceGraph(library, document)
    assert message in str(raised.value)
    assert raised.value.errno == errno.EPROTO
    assert stub.calls == 0


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("{", "graph: isn't JSON"),
        (b"\xff", "graph: isn't JSON"),
        ("[]", "graph: must be a JSON object, not list"),
        ("null", "graph: must be a JSON object, not null"),
        (None, "graph: must be a JSON object, not null"),
        ("[" * 100_000, "graph: isn't JSON"),
    ],
)
def test_what_is_not_a_json_object_is_refused(library: Library, document: Any, message: str) -> None:
    with pytest.raises(InvalidGraph) as raised:
        ResourceGraph(library, document)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [("a\0b", "graph.graph.nodes[1].metadata.name: holds a NUL"), ("\ud800", "lone surrogate")],
)
def test_text_that_c_would_read_differently_is_refused(
    stub: Stub, library: Library, name: str, message: str
) -> None:
    document = graph()
    metadata(document)["name"] = name
    with pytest.raises(InvalidGraph) as raised:
        ResourceGraph(library, document)
    assert message in str(raised.value)
    assert stub.calls == 0


@pytest.mark.parametrize(
    "change",
    [
        setting(unknown={"any": None}),
        setting(exclusive=True, status=1, size=0, unit="", basename="node"),
        anonymous("host-00000000000000000000000000000000000007"),
        node(id="1st"),
        edges(),
        lambda document: document["graph"]["nodes"].append(vertex(9, "x", "/cluster0/apart")),
        lambda document: document["graph"]["edges"][0].update(metadata={"subsystem": "containment"}),
    ],
)
def test_unusual_graphs_that_the_library_reads_are_accepted(
    library: Library, change: Callable[[Json], object]
) -> None:
    document = graph()
    change(document)
    if document["graph"]["nodes"][1]["id"] == "1st":
        for link in document["graph"]["edges"]:
            link.update({key: "1st" for key in link if link[key] == "1"})
    ResourceGraph(library, document).close()
