"""Slots and counts under each policy."""

from __future__ import annotations

from tests.oracle.conformance.graphs import cluster, of
from tests.oracle.conformance.jobspecs import cores, slot, spec, want
from tests.oracle.conformance.session import allocate, cancel, case, info, satisfiable, try_now, under

FLAT = cluster(of("node", 4, of("core", 4), of("memory", 2, size=8)))
SOCKETS = cluster(of("node", 2, of("socket", 2, of("core", 2), of("gpu", 1))))

ONE = spec(slot(1, cores(1)))
FOUR = spec(slot(4, cores(1)))
THREE_TOGETHER = spec(slot(1, cores(3)))
WHOLE = "node{0}: core0-3 memory0-1=8; .: node{0}"

CASES = [
    *under(
        "four_slots_of_one_core",
        FLAT,
        {
            "low": (allocate(FOUR, "node0: core0; node1: core0; node2: core0; node3: core0"),),
            "high": (allocate(FOUR, "node0: core3; node1: core3; node2: core3; node3: core3"),),
            "lonode": (allocate(FOUR, "node0: core0-3"),),
            "hinode": (allocate(FOUR, "node3: core0-3"),),
            "first": (allocate(FOUR, "node3: core0-3"),),
            "lonodex": (allocate(FOUR, WHOLE.format(0)),),
            "hinodex": (allocate(FOUR, WHOLE.format(3)),),
            "firstnodex": (allocate(FOUR, WHOLE.format(3)),),
            "locality": (allocate(FOUR, "node0: core0-3"),),
            "policy=low": (allocate(FOUR, "node0: core0; node1: core0; node2: core0; node3: core0"),),
            "policy=low node_centric=true": (allocate(FOUR, "node0: core0-3"),),
            "policy=high node_centric=true": (allocate(FOUR, "node3: core0-3"),),
            "policy=low node_centric=true node_exclusive=true": (allocate(FOUR, WHOLE.format(0)),),
            "policy=low stop_on_1_matches=true": (allocate(FOUR, "node3: core0-3"),),
        },
    ),
    *under(
        "a_slot_lies_below_one_parent",
        FLAT,
        {
            "low": (allocate(THREE_TOGETHER, "node0: core0-2"),),
            "high": (allocate(THREE_TOGETHER, "node0: core1-3"),),
            "lonode": (allocate(THREE_TOGETHER, "node0: core0-2"),),
            "hinode": (allocate(THREE_TOGETHER, "node3: core1-3"),),
            "first": (allocate(THREE_TOGETHER, "node3: core1-3"),),
        },
    ),
    *under(
        "successive_jobs_of_one_core",
        FLAT,
        {
            "low": (
                allocate(ONE, "node0: core0"),
                allocate(ONE, "node1: core0"),
                allocate(ONE, "node2: core0"),
                allocate(ONE, "node3: core0"),
                allocate(ONE, "node0: core1"),
            ),
            "high": (
                allocate(ONE, "node0: core3"),
                allocate(ONE, "node1: core3"),
                allocate(ONE, "node2: core3"),
            ),
            "lonode": (
                allocate(ONE, "node0: core0"),
                allocate(ONE, "node0: core1"),
                allocate(ONE, "node0: core2"),
                allocate(ONE, "node0: core3"),
                allocate(ONE, "node1: core0"),
            ),
            "hinode": (allocate(ONE, "node3: core3"), allocate(ONE, "node3: core2")),
            "first": (
                allocate(ONE, "node3: core3"),
                allocate(ONE, "node2: core3"),
                allocate(ONE, "node1: core3"),
                allocate(ONE, "node0: core3"),
                allocate(ONE, "node3: core2"),
            ),
            "lonodex": (
                allocate(ONE, WHOLE.format(0)),
                allocate(ONE, WHOLE.format(1)),
                allocate(ONE, WHOLE.format(2)),
                allocate(ONE, WHOLE.format(3)),
                allocate(ONE, "EBUSY"),
            ),
            "firstnodex": (allocate(ONE, WHOLE.format(3)), allocate(ONE, WHOLE.format(2))),
        },
    ),
    case(
        "slots_larger_than_half_a_node_take_a_node_each",
        FLAT,
        "lonode",
        allocate(spec(slot(2, cores(3))), "node0: core0-2; node1: core0-2"),
    ),
    case(
        "slots_of_half_a_node_share_a_node",
        FLAT,
        "lonode",
        allocate(spec(slot(2, cores(2))), "node0: core0-3"),
    ),
    case(
        "a_slot_never_spans_parents",
        FLAT,
        "lonode",
        allocate(spec(slot(1, cores(5))), "EBUSY"),
        satisfiable(spec(slot(1, cores(5))), "ENODEV"),
    ),
    case(
        "cores_without_a_slot_take_nothing",
        FLAT,
        "lonode",
        allocate(spec(cores(1)), "nothing"),
    ),
    case(
        "exclusive_cores_without_a_slot_may_span_nodes",
        FLAT,
        "lonode",
        allocate(spec(want("core", 5, exclusive=True)), "node0: core0-3; node1: core0"),
    ),
    case(
        "a_count_of_zero_matches_nothing",
        FLAT,
        "low",
        allocate(spec(slot(0, cores(1))), "EBUSY"),
        satisfiable(spec(slot(1, cores(0))), "ENODEV"),
    ),
    case(
        "a_slot_that_holds_a_node_takes_the_node_but_lists_only_what_was_named",
        FLAT,
        "lonode",
        allocate(spec(slot(1, want("node", 1, cores(1)))), "node0: core0; .: node0"),
        allocate(ONE, "node1: core0"),
    ),
    case(
        "a_slot_inside_a_node_leaves_the_node_shared",
        FLAT,
        "lonode",
        allocate(spec(want("node", 1, slot(1, cores(1)))), "node0: core0"),
        allocate(spec(want("node", 1, slot(1, cores(1)))), "node0: core1"),
    ),
    case(
        "slots_inside_nodes_are_counted_on_each_node",
        FLAT,
        "lonode",
        allocate(spec(want("node", 2, slot(2, cores(1)))), "node0: core0-1; node1: core0-1"),
    ),
    case(
        "different_types_in_a_slot_come_from_the_same_parent",
        FLAT,
        "lonode",
        allocate(spec(slot(2, cores(1), want("memory", 8))), "node0: core0-1 memory0-1=8"),
        allocate(spec(slot(1, cores(1), want("memory", 1))), "node1: core0 memory0=8"),
    ),
    case(
        "siblings_of_a_type_never_match",
        FLAT,
        "lonode",
        allocate(spec(slot(1, cores(1)), slot(1, cores(1))), "EBUSY"),
        satisfiable(spec(want("node", 1), want("node", 1)), "ENODEV"),
    ),
    case(
        "a_slot_takes_sockets_with_what_is_below_them",
        SOCKETS,
        "lonode",
        allocate(
            spec(slot(2, want("socket", 1, cores(1), want("gpu", 1)))),
            "node0/socket0: core0 gpu0; node0: socket0-1; node0/socket1: core0 gpu0",
        ),
    ),
    case(
        "levels_below_the_first_that_matches_must_be_spelled_out",
        SOCKETS,
        "lonode",
        allocate(spec(slot(1, want("node", 1, cores(1)))), "EBUSY"),
        allocate(
            spec(slot(1, want("node", 1, want("socket", 1, cores(1))))),
            "node0/socket0: core0; node0: socket0; .: node0",
        ),
    ),
    case(
        "a_slot_below_a_resource_resolves_at_that_resource",
        cluster(of("node", 2, of("socket", 2, of("core", 2)))),
        "lonode",
        allocate(spec(want("node", 1, slot(1, cores(1)))), "nothing"),
        allocate(spec(want("socket", 1, slot(1, cores(1)))), "node0/socket0: core0"),
    ),
    case(
        "every_job_that_allocates_or_finds_no_room_takes_a_number",
        FLAT,
        "lonode",
        allocate(spec(slot(16, cores(1))), "; ".join(f"node{node}: core0-3" for node in range(4))),
        allocate(ONE, "EBUSY"),
        try_now(ONE, "EBUSY"),
        satisfiable(ONE, "yes"),
        allocate(spec(), "EINVAL"),
        cancel(1),
        allocate(ONE, "node0: core0"),
        info(1, "CANCELED at 0"),
        info(2, "ENOENT"),
        info(3, "ALLOCATED at 0"),
        info(4, "ENOENT"),
    ),
    case(
        "without_allocating_tells_and_takes_nothing",
        FLAT,
        "lonode",
        try_now(FOUR, "node0: core0-3"),
        try_now(FOUR, "node0: core0-3"),
        allocate(FOUR, "node0: core0-3"),
    ),
    case(
        "first_turns_to_other_nodes_even_where_nothing_is_taken",
        FLAT,
        "first",
        try_now(ONE, "node3: core3"),
        try_now(ONE, "node2: core3"),
    ),
]
