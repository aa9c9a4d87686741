"""What decides between vertices that fit: filters, weights, early stop, classes."""

from __future__ import annotations

from tests.oracle.conformance.graphs import cluster, of
from tests.oracle.conformance.jobspecs import between, cores, slot, spec, want
from tests.oracle.conformance.session import (
    Step,
    allocate,
    allocate_or_say_why,
    cancel,
    case,
    reserve,
    satisfiable,
    under,
)

FLAT = cluster(of("node", 3, of("core", 4), of("gpu", 1)))
RACKS = cluster(of("rack", 2, of("node", 2, of("core", 2), of("memory", 1, size=4))))
LAST_WITH_GPU = cluster(
    of("rack", 1, of("node", 2, of("core", 2))), of("island", 1, of("node", 2, of("core", 2), of("gpu", 1)))
)
CLASSES = cluster(
    of(
        "node",
        4,
        of("core", 2),
        single={
            number: {"properties": {"perf_class": text}} for number, text in enumerate(("3", "1", "2", "1"))
        },
    )
)
ONE = spec(slot(1, cores(1)))
FILTERS = (
    "ALL:core",
    "ALL:core,ALL:node",
    "ALL:core,ALL:gpu",
    "cluster:core,node:core",
    "node:core",
    "cluster:node",
    "",
)


def node_of(count: int) -> dict[str, object]:
    return spec(slot(count, want("node", 1, cores(1))))


def filtered(*steps: Step) -> list[tuple[str, tuple[Step, ...]]]:
    return [(filters, steps) for filters in FILTERS]


CASES = [
    *(
        case(f"filters_don_t_change_what_fits_{number}", FLAT, "lonode", *steps, prune=filters)
        for number, (filters, steps) in enumerate(
            filtered(
                allocate(spec(slot(5, cores(1))), "node0: core0-3; node1: core0"),
                allocate(spec(slot(2, cores(3), want("gpu", 1))), "node1: core1-3 gpu0; node2: core0-2 gpu0"),
                allocate(spec(slot(1, cores(2))), "EBUSY"),
                allocate_or_say_why(spec(slot(4, want("gpu", 1))), "ENODEV"),
                satisfiable(spec(slot(12, cores(1))), "yes"),
                satisfiable(spec(slot(13, cores(1))), "ENODEV"),
                cancel(1),
                allocate(spec(slot(5, cores(1))), "node0: core0-3; node1: core0"),
            )
        )
    ),
    *(
        case(f"filters_don_t_change_when_{number}", FLAT, "lonode", *steps, prune=filters)
        for number, (filters, steps) in enumerate(
            filtered(
                allocate(
                    spec(slot(3, want("node", 1, cores(4))), duration=10),
                    "node0: core0-3; .: node0-2; node1: core0-3; node2: core0-3",
                ),
                reserve(spec(slot(1, cores(2)), duration=10), "at 10 node0: core0-1"),
            )
        )
    ),
    case(
        "the_last_filter_decides_which_node_is_the_least_used",
        RACKS,
        "first",
        allocate(spec(slot(1, want("memory", 4))), "rack1/node3: memory0=4"),
        allocate(ONE, "rack0/node1: core1"),
        allocate(ONE, "rack0/node0: core1"),
        allocate(ONE, "rack0/node1: core0"),
        prune="ALL:core,ALL:memory",
    ),
    case(
        "without_a_filter_for_memory_only_cores_weigh",
        RACKS,
        "first",
        allocate(spec(slot(1, want("memory", 4))), "rack1/node3: memory0=4"),
        allocate(ONE, "rack0/node1: core1"),
        prune="ALL:core",
    ),
    *under(
        "the_walk_stops_when_there_is_enough",
        LAST_WITH_GPU,
        {
            "first": (
                allocate(ONE, "island0/node3: core1"),
                allocate(spec(slot(1, want("gpu", 1))), "island0/node2: gpu0"),
                allocate(spec(slot(2, cores(1))), "rack0/node1: core0-1"),
            ),
            "firstnodex": (
                allocate(ONE, "island0/node3: core0-1 gpu0; island0: node3"),
                allocate(ONE, "rack0/node1: core0-1; rack0: node1"),
            ),
            "high": (allocate(ONE, "rack0/node0: core1"),),
            "hinodex": (allocate(ONE, "island0/node3: core0-1 gpu0; island0: node3"),),
        },
    ),
    case(
        "first_goes_on_past_what_does_not_fit",
        LAST_WITH_GPU,
        "first",
        allocate(
            spec(slot(2, cores(2), want("gpu", 1))),
            "island0/node2: core0-1 gpu0; island0/node3: core0-1 gpu0",
        ),
        allocate(spec(slot(1, cores(2))), "rack0/node1: core0-1"),
        allocate(spec(slot(1, want("gpu", 1))), "EBUSY"),
    ),
    case(
        "weights_are_not_given_back_on_cancel",
        FLAT,
        "first",
        allocate(ONE, "node2: core3"),
        cancel(1),
        allocate(ONE, "node1: core3"),
        cancel(2),
        allocate(ONE, "node0: core3"),
    ),
    case(
        "the_least_used_node_comes_first_once_all_were_used",
        FLAT,
        "first",
        allocate(spec(slot(1, cores(2))), "node2: core2-3"),
        allocate(spec(slot(1, cores(3))), "node1: core1-3"),
        allocate(spec(slot(1, cores(1))), "node0: core3"),
        allocate(ONE, "node0: core2"),
        allocate(ONE, "node2: core1"),
    ),
    *under(
        "node_centric_policies_fill_a_node_before_the_next",
        FLAT,
        {
            "lonode": (
                allocate(spec(slot(3, cores(1))), "node0: core0-2"),
                allocate(spec(slot(2, cores(1))), "node0: core3; node1: core0"),
            ),
            "hinode": (
                allocate(spec(slot(3, cores(1))), "node2: core1-3"),
                allocate(spec(slot(2, cores(1))), "node1: core3; node2: core0"),
            ),
            "policy=high node_centric=true stop_on_1_matches=false": (
                allocate(spec(slot(3, cores(1))), "node2: core1-3"),
            ),
        },
    ),
    *under(
        "jobs_of_several_nodes_take_neighbours",
        FLAT,
        {
            "lonodex": (
                allocate(node_of(2), "node0: core0-3 gpu0; .: node0-1; node1: core0-3 gpu0"),
                allocate(node_of(2), "EBUSY"),
                allocate(node_of(1), "node2: core0-3 gpu0; .: node2"),
            ),
            "hinodex": (allocate(node_of(2), "node1: core0-3 gpu0; .: node1-2; node2: core0-3 gpu0"),),
            "locality": (allocate(node_of(2), "node1: core3; .: node1-2; node2: core3"),),
        },
    ),
    case(
        "locality_prefers_the_interval_of_the_highest_numbers",
        cluster(of("node", 6, of("core", 1))),
        "locality",
        allocate(spec(want("node", 1, slot(1, cores(1)))), "node0: core0"),
    ),
    case(
        "nodes_of_the_best_class_come_first",
        CLASSES,
        "variation",
        allocate(node_of(1), "node1: core0; .: node1"),
        allocate(node_of(1), "node3: core0; .: node3"),
        allocate(node_of(1), "node2: core0; .: node2"),
        allocate(node_of(1), "node0: core0; .: node0"),
    ),
    case(
        "a_job_of_several_nodes_keeps_to_the_best_classes",
        CLASSES,
        "variation",
        allocate(node_of(3), "node1: core0; .: node1-3; node2: core0; node3: core0"),
    ),
    case(
        "nodes_without_a_class_come_last",
        cluster(
            of(
                "node",
                3,
                of("core", 1),
                single={1: {"properties": {"perf_class": "x"}}, 2: {"properties": {"perf_class": "9"}}},
            )
        ),
        "variation",
        allocate(node_of(1), "node2: core0; .: node2"),
        allocate(node_of(1), "node0: core0; .: node0"),
    ),
    *under(
        "several_jobs_in_a_row",
        FLAT,
        {
            "high": (
                allocate(spec(slot(2, cores(2))), "node0: core2-3; node1: core2-3"),
                allocate(spec(slot(1, cores(1), want("gpu", 1))), "node2: core3 gpu0"),
                allocate(
                    spec(slot(between(1, 9), cores(2))), "node0: core0-1; node1: core0-1; node2: core1-2"
                ),
                allocate(spec(slot(1, cores(2))), "EBUSY"),
                allocate(ONE, "node2: core0"),
                allocate(ONE, "EBUSY"),
            ),
        },
    ),
    case(
        "ties_of_more_than_sixteen_are_broken_as_the_librarys_sort_breaks_them",
        cluster(of("node", 20, of("core", 1))),
        "low",
        allocate(spec(slot(2, cores(1))), "node10: core0; node19: core0"),
    ),
]
