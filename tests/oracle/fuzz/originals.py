"""The valid documents that are spoiled, and the calls that take them."""

from __future__ import annotations

from typing import Any

from tests.oracle.conformance.graphs import cluster, of, subtree, without
from tests.oracle.conformance.jobspecs import between, cores, slot, spec, want

_NODE = {
    "basename": "node",
    "name": "node0",
    "unit": "",
    "status": 0,
    "exclusive": False,
    "size": 1,
    "uniq_id": 1,
    "properties": {"big": "", "zone=a": "1"},
}
WHOLE = cluster(of("node", 3, of("core", 2, size=1), of("memory", 2, size=4), single={0: _NODE}))
GRAPH = without(WHOLE, "/cluster0/node2")
ADDITION = subtree(WHOLE, "/cluster0/node2")

JOBSPECS = (
    spec(slot(between(1, 2), cores(1), want("memory", 1)), duration=5, queue="a", environment={"A": "1"}),
    spec(
        want("node", 1, slot(1, want("core", "1", unit="x"), exclusive=True)),
        duration=60.5,
        constraints={
            "and": [
                {"ranks": ["0-1"]},
                {"or": [{"hostlist": ["node[0-3]"]}, {"not": [{"properties": ["^big"]}]}]},
            ]
        },
    ),
    spec(want("core", between(1, 8, "*", 2), exclusive=True), duration=1),
)


def _listing(*exclusive: str) -> dict[str, Any]:
    """Return an R of node 0 with these leaves."""
    listed = ("0", "1", *exclusive)
    return {
        "graph": {
            "nodes": [
                entry
                | {"metadata": entry["metadata"] | ({"exclusive": True} if entry["id"] in exclusive else {})}
                for entry in GRAPH["graph"]["nodes"]
                if entry["id"] in listed
            ],
            "edges": [edge for edge in GRAPH["graph"]["edges"] if edge["target"] in listed],
        }
    }


R = _listing("4", "5")
"""An R of memory, which no job of the busy matcher holds."""
TIMED_R: dict[str, Any] = {
    "version": 1,
    "execution": {
        "R_lite": [{"rank": "0", "children": {"core": "1"}}],
        "nodelist": ["node0"],
        "properties": {"big": "0"},
        "starttime": 0,
        "expiration": 10,
    },
    "scheduling": _listing("3", "4") | {"writer": "fluxion:jgf"},
}

OPTIONS: dict[str, Any] = {
    "policy": "policy=low node_centric=true",
    "prune_filters": "ALL:core,cluster:node",
    "match_format": "jgf",
}
