"""Time: reservations, durations, busy or never, and the answers of a search for a start."""

from __future__ import annotations

from tests.oracle.conformance.graphs import cluster, of
from tests.oracle.conformance.jobspecs import Json, cores, slot, spec, want
from tests.oracle.conformance.session import (
    allocate,
    allocate_or_say_why,
    cancel,
    case,
    down,
    info,
    reserve,
    satisfiable,
    try_ever,
    try_now,
    under,
    up,
)

PAIR = cluster(of("node", 2, of("core", 2)))


def whole(nodes: int, duration: float | None) -> Json:
    return spec(slot(nodes, want("node", 1, cores(2))), duration=duration)


def one(duration: float | None) -> Json:
    return spec(slot(1, cores(1)), duration=duration)


TOO_WIDE = spec(slot(1, cores(3)))
NODE0, NODE1 = "node0: core0-1; .: node0", "node1: core0-1; .: node1"
BOTH = "node0: core0-1; .: node0-1; node1: core0-1"

CASES = [
    *under(
        "a_reservation_starts_when_the_first_job_ends",
        PAIR,
        {
            "lonode": (
                reserve(whole(1, 10), NODE0),
                reserve(whole(1, 20), NODE1),
                reserve(whole(1, 5), f"at 10 {NODE0}"),
                reserve(whole(1, 5), f"at 15 {NODE0}"),
            ),
            "hinode": (
                reserve(whole(1, 10), NODE1),
                reserve(whole(1, 20), NODE0),
                reserve(whole(1, 5), f"at 10 {NODE1}"),
            ),
            "low": (
                reserve(whole(2, 10), BOTH),
                reserve(whole(2, 10), f"at 10 {BOTH}"),
                reserve(whole(1, 10), f"at 20 {NODE0}"),
            ),
            "first": (
                reserve(whole(1, 10), NODE1),
                reserve(whole(1, 20), NODE0),
                reserve(whole(1, 5), f"at 10 {NODE1}"),
            ),
            "lonodex": (
                reserve(one(10), NODE0),
                reserve(one(10), NODE1),
                reserve(one(10), f"at 10 {NODE0}"),
            ),
        },
    ),
    case(
        "a_short_job_fits_before_a_reservation",
        PAIR,
        "lonode",
        reserve(whole(1, 10), NODE0),
        reserve(whole(2, 10), f"at 10 {BOTH}"),
        reserve(whole(1, 10), NODE1),
        reserve(whole(1, 11), f"at 20 {NODE0}"),
    ),
    case(
        "a_job_that_would_run_into_a_reservation_waits_behind_it",
        PAIR,
        "lonode",
        allocate(whole(1, 10), NODE0),
        reserve(whole(2, 10), f"at 10 {BOTH}"),
        allocate(whole(1, 11), "EBUSY"),
        reserve(whole(1, 11), f"at 20 {NODE0}"),
    ),
    case(
        "cores_are_reserved_one_by_one",
        PAIR,
        "lonode",
        allocate(spec(slot(3, cores(1)), duration=10), "node0: core0-1; node1: core0"),
        reserve(spec(slot(2, cores(1)), duration=10), "at 10 node0: core0-1"),
        reserve(one(10), "node1: core1"),
        reserve(one(10), "at 10 node1: core0"),
    ),
    case(
        "cancelling_makes_room_for_later_jobs_and_leaves_reservations_where_they_are",
        PAIR,
        "lonode",
        allocate(whole(2, 100), BOTH),
        reserve(whole(1, 10), f"at 100 {NODE0}"),
        cancel(1),
        info(2, "RESERVED at 100"),
        reserve(whole(1, 100), NODE0),
        reserve(whole(2, 10), "at 110 " + BOTH),
    ),
    case(
        "a_cancelled_reservation_frees_its_time",
        PAIR,
        "lonode",
        allocate(whole(2, 100), BOTH),
        reserve(whole(2, 50), f"at 100 {BOTH}"),
        reserve(whole(2, 50), f"at 150 {BOTH}"),
        cancel(2),
        reserve(whole(2, 60), f"at 200 {BOTH}"),
        reserve(whole(2, 50), f"at 100 {BOTH}"),
        info(2, "CANCELED at 100"),
    ),
    case(
        "nothing_can_be_reserved_behind_a_job_without_end",
        PAIR,
        "lonode",
        allocate(whole(2, None), BOTH),
        reserve(whole(1, 10), "EBUSY"),
        allocate_or_say_why(whole(1, 10), "EBUSY"),
        try_ever(whole(1, 10), "EBUSY"),
    ),
    case(
        "a_part_of_a_second_counts_as_a_second",
        PAIR,
        "lonode",
        reserve(whole(2, 0.25), BOTH),
        reserve(whole(2, 9.5), f"at 1 {BOTH}"),
        reserve(whole(2, 1), f"at 11 {BOTH}"),
    ),
    case(
        "duration_zero_is_without_end",
        PAIR,
        "lonode",
        allocate(whole(2, 0), BOTH),
        reserve(whole(1, 1), "EBUSY"),
    ),
    case(
        "durations_out_of_range_are_refused",
        PAIR,
        "lonode",
        allocate(whole(1, -1), "EINVAL"),
        allocate(whole(1, 3_153_600_001), "EINVAL"),
        allocate(whole(1, 3_153_600_000), NODE0),
    ),
    case(
        "a_refused_duration_leaves_no_type_exclusive",
        PAIR,
        "lonode",
        allocate(spec(want("node", 1, exclusive=True), duration=-1), "EINVAL"),
        allocate(one(None), "node0: core0"),
        allocate(one(None), "node0: core1"),
    ),
    case(
        "trying_for_the_future_reserves_nothing",
        PAIR,
        "lonode",
        allocate(whole(2, 30), BOTH),
        try_now(whole(1, 10), "EBUSY"),
        try_ever(whole(1, 10), f"at 30 {NODE0}"),
        try_ever(whole(1, 10), f"at 30 {NODE0}"),
        reserve(whole(1, 10), f"at 30 {NODE0}"),
        try_ever(whole(1, 10), f"at 30 {NODE1}"),
    ),
    case(
        "busy_and_never_are_told_apart_where_that_is_asked",
        PAIR,
        "low",
        allocate(whole(2, None), BOTH),
        allocate(whole(1, None), "EBUSY"),
        allocate_or_say_why(whole(1, None), "EBUSY"),
        allocate(TOO_WIDE, "EBUSY"),
        allocate_or_say_why(TOO_WIDE, "ENODEV"),
        reserve(TOO_WIDE, "ENODEV"),
        try_now(TOO_WIDE, "EBUSY"),
        try_ever(TOO_WIDE, "ENODEV"),
    ),
    case(
        "more_nodes_than_are_up_are_busy_to_whoever_searches",
        PAIR,
        "low",
        allocate_or_say_why(whole(3, None), "ENODEV"),
        reserve(whole(3, None), "EBUSY"),
        try_ever(whole(3, None), "EBUSY"),
        satisfiable(whole(3, None), "ENODEV"),
    ),
    case(
        "satisfiability_sees_an_empty_graph_that_is_up",
        PAIR,
        "low",
        allocate(whole(2, None), BOTH),
        satisfiable(whole(2, None), "yes"),
        down("/cluster0/node0"),
        down("/cluster0/node1"),
        satisfiable(whole(2, None), "yes"),
        satisfiable(whole(3, None), "ENODEV"),
        satisfiable(spec(slot(1, want("core", 3))), "ENODEV"),
    ),
    case(
        "satisfiability_takes_nothing_and_no_number",
        PAIR,
        "low",
        satisfiable(whole(2, None), "yes"),
        satisfiable(whole(9, None), "ENODEV"),
        allocate(whole(2, None), BOTH),
        info(1, "ALLOCATED at 0"),
    ),
    case(
        "nodes_that_are_down_count_as_never_for_requests_of_nodes",
        PAIR,
        "lonode",
        down("/cluster0/node1"),
        allocate_or_say_why(whole(2, None), "ENODEV"),
        allocate_or_say_why(spec(slot(2, cores(2))), "EBUSY"),
        up("/cluster0/node1"),
        allocate_or_say_why(whole(2, None), BOTH),
    ),
    case(
        "a_reservation_needs_its_nodes_up",
        PAIR,
        "lonode",
        allocate(whole(1, 10), NODE0),
        down("/cluster0/node1"),
        reserve(whole(1, 5), f"at 10 {NODE0}"),
        reserve(spec(slot(2, cores(2)), duration=5), "EBUSY"),
    ),
    case(
        "starts_are_sought_only_at_ends_of_jobs_that_the_root_counts",
        PAIR,
        "lonode",
        allocate(spec(slot(1, cores(2)), duration=10), "node0: core0-1"),
        allocate(spec(slot(1, cores(1)), duration=25), "node1: core0"),
        reserve(spec(slot(2, cores(2)), duration=1), "at 25 node0: core0-1; node1: core0-1"),
        reserve(spec(slot(1, cores(2)), duration=20), "at 26 node0: core0-1"),
    ),
]
