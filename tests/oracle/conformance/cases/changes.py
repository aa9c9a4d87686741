"""Status, growing, shrinking."""

from __future__ import annotations

from tests.oracle.conformance.graphs import cluster, of, subtree, without
from tests.oracle.conformance.jobspecs import cores, slot, spec, want
from tests.oracle.conformance.session import (
    allocate,
    allocate_or_say_why,
    cancel,
    case,
    down,
    grow,
    info,
    reserve,
    satisfiable,
    shrink,
    try_ever,
    up,
)

RACKS = cluster(of("rack", 2, of("node", 2, of("core", 2))))
FLAT = cluster(of("node", 3, of("core", 2)))
LAST_NODE, LAST_RACK = "/cluster0/node2", "/cluster0/rack1"
SMALLER = without(FLAT, LAST_NODE)
TRIO = cluster(of("node", 3, of("core", 4)))
SMALL_PAIR = without(TRIO, LAST_NODE)
ADDITION = subtree(FLAT, LAST_NODE)
ONE, TWO, SIX = (spec(slot(count, cores(1))) for count in (1, 2, 6))
EVERY_CORE = "; ".join(f"node{node}: core0-1" for node in range(3))


def nodes(count: int) -> dict[str, object]:
    return spec(slot(count, want("node", 1, cores(1))))


CASES = [
    case(
        "nothing_new_lands_on_a_node_that_is_down",
        RACKS,
        "lonode",
        down("/cluster0/rack0/node0"),
        allocate(ONE, "rack0/node1: core0"),
        up("/cluster0/rack0/node0"),
        allocate(ONE, "rack0/node0: core0"),
    ),
    case(
        "a_rack_that_is_down_shuts_off_its_nodes",
        RACKS,
        "lonode",
        down("/cluster0/rack0"),
        allocate(ONE, "rack1/node2: core0"),
        allocate(spec(slot(4, cores(1))), "EBUSY"),
        up("/cluster0/rack0"),
        allocate(spec(slot(4, cores(1))), "rack0/node0: core0-1; rack0/node1: core0-1"),
    ),
    case(
        "a_core_that_is_down_is_passed_over",
        RACKS,
        "first",
        down("/cluster0/rack1/node3/core1"),
        allocate(ONE, "rack1/node3: core0"),
    ),
    case(
        "jobs_run_on_where_a_node_goes_down",
        RACKS,
        "lonode",
        allocate(ONE, "rack0/node0: core0"),
        down("/cluster0/rack0/node0"),
        info(1, "ALLOCATED at 0"),
        cancel(1),
        allocate(ONE, "rack0/node1: core0"),
    ),
    case(
        "the_root_that_is_down_shuts_off_everything",
        FLAT,
        "low",
        down("/cluster0"),
        allocate(ONE, "EBUSY"),
        satisfiable(ONE, "yes"),
        up("/cluster0"),
        allocate(ONE, "node0: core0"),
    ),
    case(
        "nodes_that_are_down_at_loading_can_come_up",
        cluster(of("node", 3, of("core", 1), single={1: {"status": 1}})),
        "lonode",
        allocate(spec(slot(3, cores(1))), "EBUSY"),
        allocate(ONE, "node0: core0"),
        up("/cluster0/node1"),
        allocate(TWO, "node1: core0; node2: core0"),
    ),
    case(
        "setting_a_status_twice_counts_once",
        FLAT,
        "lonode",
        down(LAST_NODE),
        down(LAST_NODE),
        up(LAST_NODE),
        allocate(nodes(3), "node0: core0; .: node0-2; node1: core0; node2: core0"),
    ),
    case("only_what_is_there_has_a_status", FLAT, "low", down("/cluster0/node9", "EINVAL"), up("", "EINVAL")),
    case(
        "a_reservation_avoids_what_is_down_when_it_is_made",
        FLAT,
        "lonode",
        allocate(spec(slot(6, cores(1)), duration=10), EVERY_CORE),
        down("/cluster0/node0"),
        reserve(spec(slot(1, cores(1)), duration=10), "at 10 node1: core0"),
    ),
    case(
        "a_node_that_was_added_takes_jobs",
        SMALLER,
        "lonode",
        allocate(spec(slot(4, cores(1))), "node0: core0-1; node1: core0-1"),
        allocate_or_say_why(TWO, "EBUSY"),
        grow(ADDITION),
        allocate(TWO, "node2: core0-1"),
        satisfiable(SIX, "yes"),
    ),
    case(
        "what_could_never_be_met_can_be_after_growth",
        SMALLER,
        "lonode",
        satisfiable(SIX, "ENODEV"),
        grow(ADDITION),
        satisfiable(SIX, "yes"),
        allocate(SIX, EVERY_CORE),
    ),
    case(
        "a_whole_rack_can_be_added",
        without(RACKS, LAST_RACK),
        "hinode",
        grow(subtree(RACKS, LAST_RACK)),
        allocate(
            spec(want("rack", 2, slot(1, want("node", 1, cores(2))))),
            "rack0/node1: core0-1; rack0: node1; rack1/node3: core0-1; rack1: node3",
        ),
    ),
    case(
        "what_is_there_already_is_not_added_again",
        FLAT,
        "lonode",
        grow(ADDITION),
        grow(FLAT),
        satisfiable(SIX, "yes"),
        satisfiable(spec(slot(7, cores(1))), "ENODEV"),
        allocate(SIX, EVERY_CORE),
    ),
    case(
        "jobs_stay_where_they_are_while_the_graph_grows",
        SMALLER,
        "first",
        allocate(ONE, "node1: core1"),
        grow(ADDITION),
        allocate(ONE, "node2: core1"),
        cancel(1),
        allocate(spec(slot(5, cores(1))), "node0: core0-1; node1: core0-1; node2: core0"),
    ),
    case(
        "reservations_begin_at_no_time_at_which_too_little_was_free_before_the_graph_grew",
        SMALL_PAIR,
        "low",
        allocate(spec(slot(7, cores(1)), duration=3600), "node0: core0-3; node1: core0-2"),
        allocate(spec(slot(1, cores(1)), duration=100), "node1: core3"),
        grow(subtree(TRIO, LAST_NODE)),
        allocate(spec(slot(4, cores(1)), duration=100), "node2: core0-3"),
        reserve(spec(slot(3, cores(1)), duration=10), "at 3600 node0: core0; node1: core0; node2: core0"),
        reserve(spec(slot(1, cores(1)), duration=10), "at 100 node2: core0"),
        # That reservation begins at 100, so from now on it is known how much is free then.
        reserve(spec(slot(3, cores(1)), duration=10), "at 100 node1: core3; node2: core1-2"),
    ),
    case(
        "jobs_that_begin_or_end_after_the_graph_grew_make_known_what_is_free",
        SMALL_PAIR,
        "low",
        allocate(spec(slot(7, cores(1)), duration=3600), "node0: core0-3; node1: core0-2"),
        allocate(spec(slot(1, cores(1)), duration=100), "node1: core3"),
        grow(subtree(TRIO, LAST_NODE)),
        allocate(spec(slot(1, cores(1)), duration=200), "node2: core0"),
        allocate(spec(slot(3, cores(1)), duration=100), "node2: core1-3"),
        reserve(spec(slot(3, cores(1)), duration=10), "at 100 node1: core3; node2: core1-2"),
    ),
    case(
        "a_search_for_a_time_makes_known_what_is_free_at_the_times_that_it_found",
        SMALL_PAIR,
        "lonode",
        allocate(spec(slot(7, cores(1)), duration=3600), "node0: core0-3; node1: core0-2"),
        allocate(spec(slot(1, cores(1)), duration=100), "node1: core3"),
        grow(subtree(TRIO, LAST_NODE)),
        allocate(spec(slot(4, cores(1)), duration=100), "node2: core0-3"),
        try_ever(spec(slot(1, cores(1)), duration=10), "at 100 node1: core3"),
        reserve(spec(slot(3, cores(1)), duration=10), "at 100 node1: core3; node2: core0-1"),
    ),
    case(
        "a_second_root_can_not_be_added",
        SMALLER,
        "low",
        grow(cluster(of("node", 1), kind="site"), "EINVAL"),
        allocate(ONE, "node0: core0"),
    ),
    case(
        "a_removed_node_takes_no_more_jobs",
        FLAT,
        "hinode",
        shrink(LAST_NODE),
        allocate(ONE, "node1: core1"),
        satisfiable(SIX, "ENODEV"),
        satisfiable(spec(slot(4, cores(1))), "yes"),
    ),
    case(
        "a_removed_rack_goes_with_its_nodes",
        RACKS,
        "hinode",
        shrink(LAST_RACK),
        allocate(spec(slot(4, cores(1))), "rack0/node0: core0-1; rack0/node1: core0-1"),
        allocate_or_say_why(ONE, "EBUSY"),
        satisfiable(spec(slot(5, cores(1))), "ENODEV"),
        down("/cluster0/rack1/node2", "EINVAL"),
    ),
    case(
        "a_core_can_be_removed",
        FLAT,
        "lonode",
        shrink("/cluster0/node0/core0"),
        allocate(TWO, "node0: core1; node1: core0"),
    ),
    case(
        "a_removed_node_can_be_added_again",
        FLAT,
        "lonode",
        shrink(LAST_NODE),
        grow(ADDITION),
        allocate(SIX, EVERY_CORE),
    ),
    case(
        "the_root_and_what_is_not_there_can_not_be_removed",
        FLAT,
        "low",
        shrink("/cluster0", "EINVAL"),
        shrink("/cluster0/node9", "EINVAL"),
        allocate(SIX, EVERY_CORE),
    ),
    case(
        "a_job_on_a_removed_node_can_be_cancelled",
        FLAT,
        "lonode",
        allocate(SIX, EVERY_CORE),
        shrink(LAST_NODE),
        cancel(1),
        allocate(spec(slot(4, cores(1))), "node0: core0-1; node1: core0-1"),
    ),
]
