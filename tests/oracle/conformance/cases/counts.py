"""Moldable counts."""

from __future__ import annotations

from tests.oracle.conformance.graphs import cluster, of
from tests.oracle.conformance.jobspecs import Json, between, slot, spec, want
from tests.oracle.conformance.session import Case, allocate, case, satisfiable, under

FLAT = cluster(of("node", 4, of("core", 8)))
ONE_NODE = cluster(of("node", 1, of("core", 30)))


def of_one_node(count: Json | int) -> Json:
    """Return a jobspec of ``count`` exclusive cores anywhere."""
    return spec(want("core", count, exclusive=True))


def effective(name: str, count: Json, cores: str) -> Case:
    """Return a case that shows how many of 30 cores a count takes, or that it doesn't match."""
    return case(name, ONE_NODE, "lonode", allocate(of_one_node(count), cores))


CASES = [
    effective("a_range_takes_all_there_is_up_to_its_maximum", between(2, 100), "node0: core0-29"),
    effective("a_range_stops_at_its_maximum", between(2, 5), "node0: core0-4"),
    effective("a_range_needs_its_minimum", between(31, 40), "EBUSY"),
    effective("a_minimum_alone_is_a_range_without_end", {"min": 3}, "node0: core0-29"),
    effective("a_range_of_one_number", between(7, 7), "node0: core0-6"),
    effective("plus_steps_up_from_the_minimum", between(2, 9, "+", 3), "node0: core0-7"),
    effective("plus_steps_that_miss_the_maximum", between(5, 11, "+", 4), "node0: core0-8"),
    effective("plus_steps_bounded_by_what_there_is", between(1, 100, "+", 7), "node0: core0-28"),
    effective("a_step_wider_than_the_range_leaves_the_minimum", between(3, 10, "+", 50), "node0: core0-2"),
    effective("times_multiplies_from_the_minimum", between(3, 100, "*", 2), "node0: core0-23"),
    effective("times_stops_at_the_maximum", between(1, 20, "*", 3), "node0: core0-8"),
    effective(
        "times_that_leaps_over_the_maximum_leaves_the_minimum", between(4, 15, "*", 4), "node0: core0-3"
    ),
    effective("power_raises_again_and_again", between(2, 100, "^", 2), "node0: core0-15"),
    effective("power_stops_at_the_maximum", between(2, 15, "^", 2), "node0: core0-3"),
    effective(
        "power_that_leaps_over_all_there_is_leaves_the_minimum", between(6, 1000, "^", 2), "node0: core0-5"
    ),
    effective("numbers_in_strings_count", between(2, 3) | {"min": "2", "max": "3"}, "node0: core0-2"),
    *under(
        "a_moldable_number_of_slots_takes_all_that_fit",
        FLAT,
        {
            "low": (
                allocate(
                    spec(slot(between(1, 100), want("core", 3))),
                    "node0: core0-5; node1: core0-5; node2: core0-5; node3: core0-5",
                ),
            ),
            "high": (
                allocate(
                    spec(slot(between(1, 3), want("core", 5))),
                    "node0: core3-7; node1: core3-7; node2: core3-7",
                ),
            ),
            "lonode": (
                allocate(spec(slot(between(1, 3), want("core", 4))), "node0: core0-7; node1: core0-3"),
            ),
            "hinode": (
                allocate(spec(slot(between(1, 3), want("core", 4))), "node2: core4-7; node3: core0-7"),
            ),
            "first": (
                allocate(spec(slot(between(1, 3), want("core", 4))), "node2: core4-7; node3: core0-7"),
            ),
        },
    ),
    case(
        "a_moldable_count_in_a_slot_is_of_all_that_is_there_and_so_one_slot_swallows_it",
        FLAT,
        "lonode",
        allocate(spec(slot(2, want("core", {"min": 1}))), "node0: core0-7; node1: core0-7"),
        allocate(spec(slot(3, want("core", {"min": 1}))), "EBUSY"),
        satisfiable(spec(slot(4, want("core", {"min": 1}))), "yes"),
        satisfiable(spec(slot(5, want("core", {"min": 1}))), "ENODEV"),
    ),
    case(
        "a_bounded_count_in_a_slot_leaves_room_for_the_next_slot",
        FLAT,
        "lonode",
        allocate(spec(slot(3, want("core", between(1, 4)))), "node0: core0-7; node1: core0-3"),
    ),
    case(
        "moldable_nodes_take_those_that_are_free",
        FLAT,
        "lonode",
        allocate(spec(slot(1, want("core", 1))), "node0: core0"),
        allocate(
            spec(want("node", between(2, 4), want("core", 8, exclusive=True))),
            "node1: core0-7; node2: core0-7; node3: core0-7",
        ),
        allocate(spec(want("node", between(1, 4), want("core", 7, exclusive=True))), "node0: core1-7"),
        allocate(spec(want("node", between(1, 4), want("core", 1, exclusive=True))), "EBUSY"),
    ),
    case(
        "moldable_nodes_by_doubling",
        FLAT,
        "hinode",
        allocate(
            spec(want("node", between(1, 8, "*", 2), slot(1, want("core", 8)))),
            "node0: core0-7; node1: core0-7; node2: core0-7; node3: core0-7",
        ),
    ),
    case(
        "moldable_counts_at_two_levels",
        FLAT,
        "low",
        allocate(
            spec(want("node", between(1, 3), slot(between(1, 3), want("core", between(2, 3))))),
            "node0: core0-5; node1: core0-5; node2: core0-5",
        ),
    ),
    case(
        "moldable_slots_under_first_stop_at_the_maximum",
        FLAT,
        "first",
        allocate(
            spec(slot(between(2, 4), want("core", 8))), "; ".join(f"node{n}: core0-7" for n in range(4))
        ),
        allocate(spec(slot(between(1, 4), want("core", 8))), "EBUSY"),
    ),
]
