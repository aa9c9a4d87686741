"""Pools, granules, bandwidth, storage tiers and other heterogeneous graphs."""

from __future__ import annotations

from tests.oracle.conformance.graphs import cluster, of
from tests.oracle.conformance.jobspecs import cores, slot, spec, want
from tests.oracle.conformance.session import allocate, cancel, case, satisfiable, under

GRANULES = cluster(of("node", 2, of("core", 4), of("memory", 4, size=2)))
UNEQUAL = cluster(
    of("node", 1, of("core", 2), of("memory", 3, single={0: {"size": 1}, 1: {"size": 2}, 2: {"size": 4}}))
)
BURST = cluster(
    of("rack", 2, of("node", 2, of("core", 2)), of("ssd", 2, size=100)),
    of("pfs", 1, of("bandwidth", 4, size=10)),
)
TIERED = cluster(
    of("tier1", 2, of("storage", 2, size=512)),
    of(
        "rack",
        2,
        of("tier2", 1, of("storage", 2, size=128)),
        of("node", 2, of("core", 2), of("storage", 1, size=64)),
    ),
)
LOCAL_STORAGE = cluster(of("node", 3, of("core", 2), of("storage", 2, size=32)))

CASES = [
    *under(
        "a_request_takes_as_many_granules_as_it_needs",
        GRANULES,
        {
            "low": (allocate(spec(slot(1, cores(1), want("memory", 3))), "node0: core0 memory0-1=2"),),
            "high": (allocate(spec(slot(1, cores(1), want("memory", 3))), "node0: core3 memory2-3=2"),),
            "lonode": (allocate(spec(slot(1, cores(1), want("memory", 5))), "node0: core0 memory0-2=2"),),
            "first": (allocate(spec(slot(1, cores(1), want("memory", 4))), "node1: core3 memory2-3=2"),),
        },
    ),
    case(
        "what_is_left_of_a_granule_is_lost_to_others",
        GRANULES,
        "lonode",
        allocate(spec(slot(4, cores(1), want("memory", 1))), "node0: core0-3 memory0-3=2"),
        allocate(spec(slot(1, want("memory", 1))), "node1: memory0=2"),
    ),
    case(
        "a_slot_can_not_draw_on_the_granules_of_two_nodes",
        GRANULES,
        "lonode",
        satisfiable(spec(slot(1, want("memory", 8))), "yes"),
        satisfiable(spec(slot(1, want("memory", 9))), "ENODEV"),
        allocate(spec(want("memory", 9, exclusive=True)), "node0: memory0-3=2; node1: memory0=2"),
    ),
    case(
        "slots_wanting_odd_amounts_of_even_granules_waste_the_rest",
        GRANULES,
        "lonode",
        allocate(spec(slot(3, want("memory", 3))), "node0: memory0-3=2; node1: memory0-1=2"),
        allocate(spec(slot(2, want("memory", 3))), "EBUSY"),
    ),
    *under(
        "granules_of_unequal_size_are_taken_in_the_policys_order_not_by_fit",
        UNEQUAL,
        {
            "low": (allocate(spec(slot(1, want("memory", 4))), "node0: memory0 memory1=2 memory2=4"),),
            "high": (allocate(spec(slot(1, want("memory", 4))), "node0: memory2=4"),),
            "hinode": (
                allocate(spec(slot(1, want("memory", 4))), "node0: memory2=4"),
                allocate(spec(slot(1, want("memory", 4))), "EBUSY"),
                allocate(spec(slot(1, want("memory", 3))), "node0: memory0 memory1=2"),
            ),
        },
    ),
    case(
        "a_pool_of_size_zero_never_matches",
        cluster(of("node", 1, of("core", 1), of("memory", 1, size=0))),
        "low",
        allocate(spec(slot(1, cores(1))), "node0: core0"),
        satisfiable(spec(slot(1, want("memory", 1))), "ENODEV"),
    ),
    case(
        "a_node_of_size_two_counts_twice",
        cluster(of("node", 2, of("core", 1), size=2)),
        "lonode",
        allocate(spec(slot(1, want("node", 2, cores(1)))), "node0: core0; .: node0=2"),
    ),
    *under(
        "burst_buffers_come_from_the_rack_of_the_nodes",
        BURST,
        {
            "lonode": (
                allocate(
                    spec(want("rack", 1, slot(1, want("node", 2, cores(2)), want("ssd", 150)))),
                    "rack0/node0: core0-1; rack0: node0-1 ssd0-1=100; rack0/node1: core0-1",
                ),
            ),
            "hinode": (
                allocate(
                    spec(want("rack", 1, slot(1, want("node", 1, cores(1)), want("ssd", 100)))),
                    "rack1/node3: core1; rack1: node3 ssd1=100",
                ),
            ),
        },
    ),
    case(
        "a_rack_without_burst_buffer_left_is_passed_over",
        BURST,
        "low",
        allocate(spec(want("rack", 1, slot(1, want("ssd", 200)))), "rack0: ssd0-1=100"),
        allocate(
            spec(want("rack", 1, slot(1, want("node", 1, cores(1)), want("ssd", 1)))),
            "rack1/node2: core0; rack1: node2 ssd0=100",
        ),
        allocate(spec(want("rack", 1, slot(1, want("ssd", 101)))), "EBUSY"),
    ),
    case(
        "unlike_branches_of_one_request_are_met_side_by_side",
        BURST,
        "lonode",
        allocate(
            spec(
                want("rack", 1, slot(1, want("node", 1, cores(1)))),
                want("pfs", 1, want("bandwidth", 15, exclusive=True)),
            ),
            "rack0/node0: core0; rack0: node0; pfs0: bandwidth0-1=10",
        ),
        allocate(spec(want("pfs", 1, slot(1, want("bandwidth", 30)))), "EBUSY"),
    ),
    case(
        "bandwidth_runs_out_before_cores_do",
        BURST,
        "first",
        allocate(spec(want("pfs", 1, slot(4, want("bandwidth", 10)))), "pfs0: bandwidth0-3=10"),
        allocate(spec(slot(1, cores(1))), "rack1/node3: core1"),
        allocate(
            spec(
                want("rack", 1, slot(1, want("node", 1, cores(1)))),
                want("pfs", 1, want("bandwidth", 1, exclusive=True)),
            ),
            "EBUSY",
        ),
        cancel(1),
        allocate(spec(want("pfs", 1, slot(1, want("bandwidth", 1)))), "pfs0: bandwidth3=10"),
    ),
    *under(
        "storage_of_a_tier_is_asked_for_below_the_tier",
        TIERED,
        {
            "low": (
                allocate(spec(want("tier1", 1, slot(1, want("storage", 600)))), "tier10: storage0-1=512"),
                allocate(spec(want("tier2", 1, slot(1, want("storage", 100)))), "rack0/tier20: storage0=128"),
            ),
            "high": (
                allocate(spec(want("tier1", 1, slot(1, want("storage", 512)))), "tier11: storage1=512"),
                allocate(spec(want("tier2", 1, slot(1, want("storage", 100)))), "rack0/tier20: storage1=128"),
            ),
        },
    ),
    case(
        "storage_of_no_tier_comes_from_wherever_the_policy_looks_first",
        TIERED,
        "lonode",
        allocate(spec(slot(1, want("storage", 1))), "tier10: storage0=512"),
        allocate(spec(slot(1, cores(1), want("storage", 1))), "rack0/node0: core0 storage0=64"),
    ),
    case(
        "two_tiers_and_nodes_in_one_request",
        TIERED,
        "lonode",
        allocate(
            spec(
                want(
                    "rack",
                    1,
                    slot(2, want("node", 1, cores(1), want("storage", 64))),
                    want("tier2", 1, want("storage", 256, exclusive=True)),
                ),
                want("tier1", 1, want("storage", 1, exclusive=True)),
            ),
            "EBUSY",
        ),
        allocate(
            spec(
                want("rack", 1, slot(1, want("tier2", 1, want("storage", 256)), want("node", 2, cores(1)))),
                want("tier1", 1, want("storage", 1, exclusive=True)),
            ),
            "tier10: storage0=512; rack0/tier20: storage0-1=128; rack0: tier20 node0-1; rack0/node0: core0; "
            "rack0/node1: core0",
        ),
    ),
    *under(
        "storage_on_the_node_goes_with_its_cores",
        LOCAL_STORAGE,
        {
            "lonode": (
                allocate(spec(slot(2, cores(1), want("storage", 32))), "node0: core0-1 storage0-1=32"),
                allocate(spec(slot(1, cores(1), want("storage", 40))), "node1: core0 storage0-1=32"),
                allocate(spec(slot(2, cores(1), want("storage", 10))), "node2: core0-1 storage0-1=32"),
                allocate(spec(slot(1, cores(1), want("storage", 1))), "EBUSY"),
            ),
            "high": (
                allocate(
                    spec(slot(2, cores(1), want("storage", 40))),
                    "node0: core1 storage0-1=32; node1: core1 storage0-1=32",
                ),
            ),
        },
    ),
]
