"""Constraints and properties of nodes (RFC 31)."""

from __future__ import annotations

from typing import Any

from tests.oracle.conformance.graphs import cluster, of
from tests.oracle.conformance.jobspecs import Json, cores, slot, spec, want
from tests.oracle.conformance.session import (
    Case,
    Step,
    allocate,
    allocate_or_say_why,
    case,
    down,
    reserve,
    satisfiable,
    try_ever,
)

SITE = cluster(
    of(
        "node",
        6,
        of("core", 1),
        single={
            0: {"properties": {"small": "", "zone=a": ""}},
            1: {"properties": {"small": "", "zone=b": ""}},
            2: {"properties": {"big": "", "zone=a": "", "arch": "arm"}},
            3: {"properties": {"big": "", "zone=b": ""}},
            4: {"name": "login1"},
            5: {"name": "login20"},
        },
    )
)
EVERYWHERE = (0, 1, 2, 3, 4, 5)


def request(constraint: Any, count: Any = 1, **more: Any) -> Json:
    return spec(slot(count, cores(1)), constraints=constraint, **more)


def where(name: str, constraint: Any, nodes: tuple[int, ...]) -> Case:
    """Return a case that takes one core after another until the constraint admits no further node."""
    steps: list[Step] = [allocate(request(constraint), f"node{node}: core0") for node in nodes]
    # R names vertices by their paths, which the builder numbers throughout, whatever the node's name is.
    return case(name, SITE, "lonode", *steps, allocate(request(constraint), "EBUSY"))


CASES = [
    where("an_empty_constraint_admits_every_node", {}, EVERYWHERE),
    where("a_property_admits_the_nodes_that_have_it", {"properties": ["big"]}, (2, 3)),
    where("several_properties_are_all_needed", {"properties": ["big", "zone=a"]}, (2,)),
    where("a_caret_asks_for_absence", {"properties": ["^big"]}, (0, 1, 4, 5)),
    where("presence_and_absence_together", {"properties": ["big", "^zone=a"]}, (3,)),
    where("a_property_is_a_key_its_value_counts_nothing", {"properties": ["arch"]}, (2,)),
    where("key_and_value_are_no_property", {"properties": ["arch=arm"]}, ()),
    where("no_properties_admit_every_node", {"properties": []}, EVERYWHERE),
    where("a_hostlist_admits_by_name", {"hostlist": ["node[1-2],login1"]}, (1, 2, 4)),
    where("hosts_in_several_strings", {"hostlist": ["node3", "login[1,20]"]}, (3, 4, 5)),
    where("zeros_in_a_hostlist_are_part_of_the_name", {"hostlist": ["login[01-20]"]}, (5,)),
    where("an_empty_hostlist_admits_none", {"hostlist": []}, ()),
    where("ranks_admit_by_rank", {"ranks": ["1,3-4"]}, (1, 3, 4)),
    where("ranks_may_be_numbers", {"ranks": [2, 5]}, (2, 5)),
    where("ranks_in_several_strings", {"ranks": ["0", "4-5"]}, (0, 4, 5)),
    where("empty_ranks_admit_none", {"ranks": []}, ()),
    where("and_needs_every_part", {"and": [{"properties": ["zone=a"]}, {"ranks": ["1-3"]}]}, (2,)),
    where("an_empty_and_admits_every_node", {"and": []}, EVERYWHERE),
    where("or_needs_one_part", {"or": [{"properties": ["zone=a"]}, {"hostlist": ["login1"]}]}, (0, 2, 4)),
    where("an_empty_or_admits_none", {"or": []}, ()),
    where("not_denies_a_part", {"not": [{"properties": ["zone=a"]}]}, (1, 3, 4, 5)),
    where(
        "not_denies_its_parts_taken_together",
        {"not": [{"properties": ["big"]}, {"ranks": ["3"]}]},
        (0, 1, 2, 4, 5),
    ),
    where("an_empty_not_admits_none", {"not": []}, ()),
    where("a_denial_of_a_denial", {"not": [{"not": [{"properties": ["small"]}]}]}, (0, 1)),
    where(
        "operators_nest",
        {
            "or": [
                {"and": [{"properties": ["small"]}, {"not": [{"ranks": ["0"]}]}]},
                {"hostlist": ["login20"]},
            ]
        },
        (1, 5),
    ),
    case(
        "more_constrained_nodes_than_there_are_is_never",
        SITE,
        "hinodex",
        allocate_or_say_why(
            spec(slot(2, want("node", 1, cores(1))), constraints={"properties": ["big"]}),
            "node2: core0; .: node2-3; node3: core0",
        ),
        allocate_or_say_why(
            spec(slot(3, want("node", 1, cores(1))), constraints={"properties": ["big"]}), "ENODEV"
        ),
        satisfiable(spec(slot(3, want("node", 1, cores(1))), constraints={"properties": ["big"]}), "ENODEV"),
        satisfiable(spec(slot(2, want("node", 1, cores(1))), constraints={"properties": ["big"]}), "yes"),
    ),
    case(
        "constrained_requests_wait_for_their_nodes",
        SITE,
        "lonode",
        reserve(request({"properties": ["big"]}, 2, duration=10), "node2: core0; node3: core0"),
        reserve(request({"properties": ["big"]}, 1, duration=10), "at 10 node2: core0"),
        try_ever(request({"hostlist": ["node3"]}, 1, duration=10), "at 10 node3: core0"),
        reserve(request({"properties": ["none"]}, 1, duration=10), "ENODEV"),
    ),
    case(
        "a_node_taken_for_good_is_no_longer_counted_for_constrained_nodes",
        SITE,
        "lonode",
        allocate(
            spec(slot(1, want("node", 1, cores(1))), constraints={"ranks": ["2"]}), "node2: core0; .: node2"
        ),
        allocate_or_say_why(spec(slot(1, want("node", 1, cores(1))), constraints={"ranks": ["2"]}), "ENODEV"),
        reserve(spec(slot(1, want("node", 1, cores(1))), constraints={"ranks": ["2"]}), "EBUSY"),
    ),
    case(
        "constraints_count_nodes_that_are_down_for_what_can_ever_be",
        SITE,
        "lonode",
        down("/cluster0/node2"),
        allocate(request({"ranks": ["2"]}), "EBUSY"),
        satisfiable(request({"ranks": ["2"]}), "yes"),
        allocate_or_say_why(request({"ranks": ["2"]}), "EBUSY"),
    ),
    case(
        "constraints_don_t_reach_what_is_not_below_a_node",
        cluster(of("qgateway", 1, of("qpu", 2, properties={"vendor": "x"}))),
        "low",
        allocate(spec(slot(1, want("qpu", 1)), constraints={"properties": ["none"]}), "qgateway0: qpu0"),
    ),
    case(
        "constraints_reach_storage_nodes",
        cluster(
            of("node", 1, of("core", 1)),
            of("storage_node", 2, of("ssd", 1), single={1: {"properties": {"fast": ""}}}),
        ),
        "low",
        allocate(spec(slot(1, want("ssd", 1)), constraints={"properties": ["fast"]}), "storage_node1: ssd0"),
        allocate(spec(slot(1, want("ssd", 1)), constraints={"properties": ["fast"]}), "EBUSY"),
    ),
    *(
        case(
            name, SITE, "low", allocate(request(constraint), "EINVAL"), allocate(request({}), "node0: core0")
        )
        for name, constraint in (
            ("an_unknown_operator_is_refused", {"xor": []}),
            ("two_operators_in_one_place_are_refused", {"and": [], "or": []}),
            ("a_constraint_is_a_mapping", ["big"]),
            ("operands_are_a_list", {"properties": "big"}),
            ("a_property_is_a_string", {"properties": [1]}),
            ("marks_of_the_grammar_are_no_property", {"properties": ["a&b"]}),
            ("a_caret_inside_a_property_is_refused", {"properties": ["a^b"]}),
            ("a_rank_is_a_number", {"ranks": ["a"]}),
            ("ranks_ascend", {"ranks": ["4-2"]}),
            ("a_hostlist_closes_its_brackets", {"hostlist": ["node[1-2"]}),
            ("parts_of_and_are_mappings", {"and": ["big"]}),
        )
    ),
    case(
        "null_is_no_constraint",
        SITE,
        "low",
        allocate(
            spec(slot(1, cores(1)), duration=1) | {"attributes": {"system": {"constraints": None}}}, "EINVAL"
        ),
    ),
]
