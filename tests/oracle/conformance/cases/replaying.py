"""Taking over what an R lists, and what R and job states look like (2.2, 5.1)."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from tests.oracle.conformance.graphs import cluster, of
from tests.oracle.conformance.jobspecs import Json, cores, slot, spec, want
from tests.oracle.conformance.session import allocate, cancel, case, info, replay, reserve, satisfiable
from tests.oracle.port import Jgf

FLAT = cluster(of("node", 2, of("core", 2), of("memory", 1, size=8)))
TWO = spec(slot(2, cores(1)))


def listing(*exclusive: str, graph: Jgf = FLAT) -> Jgf:
    """Return an R of ``graph`` that holds the vertices at these paths below the root, and shares what is above them."""
    paths = [f"/cluster0/{path}" for path in exclusive]
    nodes, kept = [], set()
    for entry in graph["graph"]["nodes"]:
        own = entry["metadata"]["paths"]["containment"]
        if any(path == own or path.startswith(f"{own}/") for path in paths):
            metadata = entry["metadata"] | ({"exclusive": True} if own in paths else {})
            nodes.append({"id": entry["id"], "metadata": metadata})
            kept.add(entry["id"])
    edges = [edge for edge in graph["graph"]["edges"] if {edge["source"], edge["target"]} <= kept]
    return {"graph": {"nodes": nodes, "edges": edges}}


def timed(resources: Jgf, start: float, end: float, **scheduling: Any) -> Json:
    """Return an R (RFC 20) with this listing."""
    return {
        "version": 1,
        "execution": {
            "R_lite": [{"rank": "0", "children": {"core": "0"}}],
            "nodelist": ["node0"],
            "starttime": start,
            "expiration": end,
        },
        "scheduling": resources | scheduling,
    }


def changed(resources: Jgf, index: int, **metadata: Any) -> Jgf:
    """Return the listing with other metadata in one entry."""
    other = deepcopy(resources)
    other["graph"]["nodes"][index]["metadata"] |= metadata
    return other


CORE0, CORES = listing("node0/core0"), listing("node0/core0", "node0/core1")
WHOLE_NODE = listing("node1", "node1/core0", "node1/core1", "node1/memory0")

CASES = [
    case(
        "what_an_r_lists_is_taken",
        FLAT,
        "lonode",
        replay(7, CORE0, "node0: core0"),
        info(7, "ALLOCATED at 0"),
        allocate(TWO, "node0: core1; node1: core0"),
        cancel(7),
        allocate(spec(slot(1, cores(1))), "node0: core0"),
    ),
    case(
        "replayed_jobs_don_t_move_the_count_of_jobs",
        FLAT,
        "lonode",
        replay(7, CORE0, "node0: core0"),
        allocate(TWO, "node0: core1; node1: core0"),
        info(1, "ALLOCATED at 0"),
    ),
    case(
        "a_replayed_node_is_exclusive_with_what_is_listed",
        FLAT,
        "hinode",
        replay(3, WHOLE_NODE, "node1: core0-1 memory0=8; .: node1"),
        allocate(TWO, "node0: core0-1"),
        allocate(spec(slot(1, cores(1))), "EBUSY"),
    ),
    case(
        "what_is_taken_can_not_be_taken_again",
        FLAT,
        "lonode",
        allocate(spec(slot(1, cores(1))), "node0: core0"),
        replay(7, CORES, "EINVAL"),
        info(7, "ENOENT"),
        allocate(spec(slot(1, cores(1))), "node0: core1"),
    ),
    case(
        "a_job_that_is_held_can_not_be_replayed",
        FLAT,
        "lonode",
        replay(7, CORE0, "node0: core0"),
        replay(7, listing("node0/core1"), "EEXIST"),
        cancel(7),
        replay(7, listing("node0/core1"), "node0: core1"),
    ),
    case(
        "times_come_back_with_an_r_of_rfc_20",
        FLAT,
        "lonode",
        replay(7, timed(CORES, 0, 30), "node0: core0-1"),
        reserve(spec(slot(3, cores(1)), duration=5), "at 30 node0: core0-1; node1: core0"),
    ),
    case(
        "a_job_may_be_replayed_into_the_future",
        FLAT,
        "lonode",
        replay(7, timed(CORES, 50, 80), "at 50 node0: core0-1"),
        info(7, "ALLOCATED at 50"),
        reserve(spec(slot(4, cores(1)), duration=60), "at 80 node0: core0-1; node1: core0-1"),
    ),
    case(
        "parts_of_seconds_in_an_r_are_cut_off",
        FLAT,
        "lonode",
        replay(7, timed(CORES, 0.9, 30.9), "node0: core0-1"),
        reserve(spec(slot(3, cores(1)), duration=5), "at 30 node0: core0-1; node1: core0"),
    ),
    case(
        "an_r_without_an_end_has_none",
        FLAT,
        "lonode",
        replay(7, timed(CORES, 0, 0), "node0: core0-1"),
        reserve(spec(slot(3, cores(1)), duration=5), "EBUSY"),
        satisfiable(spec(slot(3, cores(1)), duration=5), "yes"),
    ),
    case(
        "the_writer_of_an_r_may_be_named",
        FLAT,
        "lonode",
        replay(7, timed(CORE0, 0, 9, writer="fluxion"), "node0: core0"),
        replay(8, timed(listing("node0/core1"), 0, 9, writer="fluxion:jgf"), "node0: core1"),
        replay(9, timed(listing("node1/core0"), 0, 9, writer="someone"), "EINVAL"),
    ),
    *(
        case(
            name,
            FLAT,
            "lonode",
            replay(7, document, answer),
            info(7, "ENOENT"),
            allocate(TWO, "node0: core0-1"),
        )
        for name, document, answer in (
            ("an_r_of_another_size_is_refused", changed(CORE0, 2, size=2), "EINVAL"),
            ("an_r_of_another_name_is_refused", changed(CORE0, 1, name="other"), "EINVAL"),
            ("an_r_of_another_type_is_refused", changed(CORE0, 2, type="gpu"), "EINVAL"),
            ("an_r_of_another_number_is_refused", changed(CORE0, 2, id=5), "EINVAL"),
            (
                "an_r_without_edges_is_refused",
                {"graph": {"nodes": CORE0["graph"]["nodes"], "edges": []}},
                "EINVAL",
            ),
            ("an_r_without_graph_is_refused", {"nodes": []}, "EINVAL"),
            ("an_r_that_starts_before_time_is_refused", timed(CORE0, -1, 5), "EINVAL"),
        )
    ),
    case(
        "properties_of_an_r_need_not_be_those_of_the_graph",
        FLAT,
        "lonode",
        replay(7, changed(CORE0, 1, properties={"new": ""}), "node0: core0"),
    ),
    case(
        "only_jobs_that_were_there_can_be_cancelled",
        FLAT,
        "low",
        cancel(1, "ENOENT"),
        allocate(TWO, "node0: core0; node1: core0"),
        cancel(1),
        cancel(1, "ENOENT"),
        info(1, "CANCELED at 0"),
    ),
    case(
        "cancelling_a_shared_job_leaves_the_node_to_the_others",
        FLAT,
        "lonode",
        allocate(spec(slot(1, cores(1))), "node0: core0"),
        allocate(spec(slot(1, cores(1))), "node0: core1"),
        cancel(1),
        allocate(spec(slot(1, want("node", 1, cores(1)))), "node1: core0; .: node1"),
        cancel(2),
        allocate(spec(slot(1, want("node", 1, cores(2)))), "node0: core0-1; .: node0"),
    ),
]
