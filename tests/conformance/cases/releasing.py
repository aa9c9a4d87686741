"""Freeing a part of a job, and status by path and by rank (fluxion reference 5.2, 5.5)."""

from __future__ import annotations

from tests.conformance.cases.replaying import listing, timed
from tests.conformance.graphs import cluster, of
from tests.conformance.jobspecs import Json, cores, slot, spec, want
from tests.conformance.session import Step, allocate, cancel, case, down, info, reserve

FLAT = cluster(of("node", 3, of("core", 2), of("memory", 1, size=4)))
RACKS = cluster(of("rack", 2, of("node", 2, of("core", 2))))
SIX = spec(slot(6, cores(1)))
EVERY_CORE = "; ".join(f"node{node}: core0-1" for node in range(3))
WHOLE_NODES = spec(slot(2, want("node", 1, cores(2))))


def by_rank(ranks: str) -> Json:
    return {"version": 1, "execution": {"R_lite": [{"rank": ranks, "children": {}}]}}


def release(jobid: int, resources: object, answer: str) -> Step:
    """``yes`` where nothing is left of the job."""
    return Step("partial_cancel", (jobid, resources), answer)


def is_up(path: str, answer: str) -> Step:
    return Step("get_status", (path,), answer)


def mark_ranks(ranks: tuple[int, ...], up: bool, answer: str = "done") -> Step:
    return Step("set_rank_status", (ranks, up), answer)


def rank_is_up(rank: int, answer: str) -> Step:
    return Step("get_rank_status", (rank,), answer)


CASES = [
    case(
        "a_rank_of_a_job_is_freed",
        FLAT,
        "lonode",
        allocate(SIX, EVERY_CORE),
        release(1, by_rank("1"), "no"),
        info(1, "ALLOCATED at 0"),
        allocate(spec(slot(2, cores(1))), "node1: core0-1"),
        cancel(1),
        allocate(spec(slot(4, cores(1))), "node0: core0-1; node2: core0-1"),
    ),
    case(
        "several_ranks_of_a_job_are_freed",
        FLAT,
        "lonode",
        allocate(SIX, EVERY_CORE),
        release(1, by_rank("0,2"), "no"),
        allocate(spec(slot(4, cores(1))), "node0: core0-1; node2: core0-1"),
    ),
    case(
        "a_job_that_is_freed_rank_by_rank_is_gone_with_the_last",
        FLAT,
        "lonode",
        allocate(SIX, EVERY_CORE),
        release(1, by_rank("0"), "no"),
        release(1, by_rank("1-2"), "yes"),
        info(1, "CANCELED at 0"),
        cancel(1, "ENOENT"),
        allocate(SIX, EVERY_CORE),
    ),
    case(
        "a_whole_node_is_freed_with_its_rank",
        FLAT,
        "lonode",
        allocate(WHOLE_NODES, "node0: core0-1; .: node0-1; node1: core0-1"),
        release(1, by_rank("0"), "no"),
        allocate(spec(slot(1, want("node", 1, cores(1)))), "node0: core0; .: node0"),
    ),
    case(
        "nodes_of_different_racks_are_freed_by_rank",
        RACKS,
        "hinode",
        allocate(spec(slot(8, cores(1))), "; ".join(f"rack{n // 2}/node{n}: core0-1" for n in range(4))),
        release(1, by_rank("1-2"), "no"),
        allocate(spec(slot(4, cores(1))), "rack0/node1: core0-1; rack1/node2: core0-1"),
    ),
    case(
        "listed_cores_are_freed",
        FLAT,
        "lonode",
        allocate(spec(slot(2, cores(1))), "node0: core0-1"),
        release(
            1,
            timed(
                {"graph": {"nodes": [listing("node0/core1", graph=FLAT)["graph"]["nodes"][-1]], "edges": []}},
                0,
                0,
            ),
            "no",
        ),
        allocate(spec(slot(1, cores(1))), "node0: core1"),
    ),
    case(
        "a_shared_vertex_can_not_be_freed",
        FLAT,
        "lonode",
        allocate(spec(slot(2, cores(1))), "node0: core0-1"),
        release(1, timed(listing("node0/core1", graph=FLAT), 0, 0), "EINVAL"),
        allocate(spec(slot(1, cores(1))), "node1: core0"),
    ),
    *(
        case(
            name,
            FLAT,
            "lonode",
            allocate(spec(slot(2, cores(1))), "node0: core0-1"),
            release(jobid, resources, answer),
            allocate(spec(slot(2, cores(1))), "node1: core0-1"),
        )
        for name, jobid, resources, answer in (
            ("an_unknown_job_has_nothing_to_free", 5, by_rank("0"), "ENOENT"),
            ("a_rank_that_is_not_there_can_not_be_freed", 1, by_rank("9"), "EINVAL"),
            ("a_rank_listed_twice_is_refused", 1, by_rank("0,0"), "EINVAL"),
            ("an_r_of_another_version_frees_nothing", 1, by_rank("0") | {"version": 2}, "EINVAL"),
            ("bare_jgf_frees_nothing", 1, listing("node0/core0", graph=FLAT), "EINVAL"),
            (
                "an_unknown_writer_frees_nothing",
                1,
                timed(listing("node0/core0", graph=FLAT), 0, 0, writer="x"),
                "EINVAL",
            ),
            ("what_is_no_json_frees_nothing", 1, "R", "EINVAL"),
        )
    ),
    case(
        "a_reservation_is_not_freed_in_parts",
        FLAT,
        "lonode",
        allocate(spec(slot(6, cores(1)), duration=10), EVERY_CORE),
        reserve(spec(slot(6, cores(1)), duration=10), f"at 10 {EVERY_CORE}"),
        release(2, by_rank("0"), "ENOENT"),
        info(2, "RESERVED at 10"),
    ),
    case(
        "a_vertex_tells_its_own_status",
        RACKS,
        "lonode",
        is_up("/cluster0/rack0", "yes"),
        down("/cluster0/rack0"),
        is_up("/cluster0/rack0", "no"),
        is_up("/cluster0/rack0/node0", "yes"),
        is_up("/cluster0/rack9", "EINVAL"),
    ),
    case(
        "ranks_are_marked_at_their_node",
        RACKS,
        "lonode",
        mark_ranks((0, 2), False),
        is_up("/cluster0/rack0/node0", "no"),
        is_up("/cluster0/rack0/node0/core0", "yes"),
        rank_is_up(0, "no"),
        rank_is_up(1, "yes"),
        allocate(spec(slot(4, cores(1))), "rack0/node1: core0-1; rack1/node3: core0-1"),
        mark_ranks((0,), True),
        allocate(spec(slot(1, cores(1))), "rack0/node0: core0"),
    ),
    case(
        "ranks_that_are_not_there_have_no_status",
        RACKS,
        "lonode",
        mark_ranks((9,), False, "EINVAL"),
        mark_ranks((), False, "EINVAL"),
        rank_is_up(9, "EINVAL"),
    ),
]
