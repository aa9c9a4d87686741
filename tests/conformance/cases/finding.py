"""Searching, and the formats of R (fluxion reference 2.2, 5.7)."""

from __future__ import annotations

from tests.conformance.graphs import cluster, of
from tests.conformance.jobspecs import cores, slot, spec, want
from tests.conformance.session import Case, Step, allocate, case, down, reserve

SITE = cluster(
    of(
        "node",
        3,
        of("core", 2),
        single={0: {"properties": {"big": ""}}, 2: {"properties": {"big": "", "odd": ""}}},
    )
)
FULL = "node0: core0-1; .: node0-2; node1: core0-1; node2: core0-1; /: cluster0"


def find(criteria: str, answer: str) -> Step:
    """What is found, with all above it, reads like a grant."""
    return Step("find", (criteria, "jgf"), answer)


def found(name: str, criteria: str, answer: str) -> Case:
    """A search on a site with a job on node 0, a reservation after it there, and node 1 down."""
    return case(
        f"find_{name}",
        SITE,
        "lonode",
        down("/cluster0/node1"),
        allocate(spec(slot(2, cores(1)), duration=10), "node0: core0-1"),
        reserve(spec(slot(1, cores(1)), duration=10, constraints={"ranks": ["0"]}), "at 10 node0: core0"),
        find(criteria, answer),
    )


UP = "node0: core0-1; .: node0 node2; node2: core0-1; /: cluster0"
DOWN = "node1: core0-1; .: node1; /: cluster0"

CASES = [
    found("all", "status=up or status=down", FULL),
    found("what_is_up", "status=up", UP),
    found("what_is_down_with_all_below", "status=down", DOWN),
    found("what_is_allocated", "sched-now=allocated", "node0: core0-1; .: node0; /: cluster0"),
    found("what_is_reserved", "sched-future=reserved", "node0: core0; .: node0; /: cluster0"),
    found("what_a_job_holds", "jobid-alloc=1", "node0: core0-1; .: node0; /: cluster0"),
    found("what_a_job_has_reserved", "jobid-reserved=2", "node0: core0; .: node0; /: cluster0"),
    found("nothing_of_a_job_that_is_not_there", "jobid-alloc=7", "done"),
    found("by_name", "names=node[0,2]", ".: node0 node2; /: cluster0"),
    found("by_property", "property=odd", ".: node2; /: cluster0"),
    found("both", "property=big and status=up", ".: node0 node2; /: cluster0"),
    found("a_blank_is_and", "property=big names=node2", ".: node2; /: cluster0"),
    found("from_the_left", "names=node0 or names=node1 and status=down", ".: node1; /: cluster0"),
    found("parentheses_first", "names=node0 or ( names=node1 and status=down )", ".: node0-1; /: cluster0"),
    found("values_in_any_case", "status=DOWN", DOWN),
    *(
        case(f"find_refuses_{name}", SITE, "lonode", find(criteria, "EINVAL"))
        for name, criteria in (
            ("nothing", ""),
            ("a_word", "status"),
            ("an_unknown_key", "colour=red"),
            ("an_unknown_value", "status=broken"),
            ("blanks_around_equals", "status = up"),
            ("operators_in_capitals", "status=up AND property=big"),
            ("not", "not status=up"),
            ("an_open_parenthesis", "( status=up"),
            ("a_job_that_is_no_number", "jobid-alloc=-"),
        )
    ),
    case(
        "simple_indents_by_depth_children_first",
        SITE,
        "lonode",
        allocate(
            spec(slot(1, want("node", 1, cores(1)))),
            "      ---------core0[1:x]\n      ------node0[1:x]\n      ---cluster0[1:s]\n",
        ),
        match_format="simple",
    ),
    case(
        "pretty_simple_spells_out_parents_first",
        SITE,
        "lonode",
        allocate(
            spec(slot(1, cores(1))),
            "      ---cluster0[1:shared]\n      ------node0[1:shared]\n      ---------core0[1:exclusive]\n",
        ),
        match_format="pretty_simple",
    ),
    case(
        "rv1_nosched_lists_cores_by_rank",
        SITE,
        "lonode",
        allocate(
            spec(slot(3, cores(1)), duration=60),
            "{'version': 1, 'execution': {'R_lite': [{'rank': '1', 'children': {'core': '0'}}, "
            "{'rank': '0', 'children': {'core': '0-1'}}], 'nodelist': ['node[0-1]'], "
            "'properties': {'big': '0'}, 'starttime': 0, 'expiration': 60}}",
        ),
        match_format="rv1_nosched",
    ),
    case(
        "rv1_nosched_joins_ranks_with_the_same_cores",
        SITE,
        "lonode",
        allocate(
            spec(slot(6, cores(1)), duration=60),
            "{'version': 1, 'execution': {'R_lite': [{'rank': '0-2', 'children': {'core': '0-1'}}], "
            "'nodelist': ['node[0-2]'], 'properties': {'big': '0,2', 'odd': '2'}, "
            "'starttime': 0, 'expiration': 60}}",
        ),
        match_format="rv1_nosched",
    ),
]
