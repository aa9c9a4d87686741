"""Omitted prefixes, racks, exclusivity at each level, siblings."""

from __future__ import annotations

from tests.oracle.conformance.graphs import cluster, of
from tests.oracle.conformance.jobspecs import cores, slot, spec, want
from tests.oracle.conformance.session import allocate, cancel, case, satisfiable, under

RACKS = cluster(of("rack", 2, of("node", 2, of("socket", 2, of("core", 2), of("memory", 1, size=4)))))

CORE = spec(slot(1, cores(1)))
SOCKET = slot(1, want("socket", 1, cores(2)))
FROM_ROOT = spec(want("cluster", 1, want("rack", 1, want("node", 1, SOCKET))))
IN_A_RACK = spec(want("rack", 1, want("node", 1, SOCKET)))
NODE_PER_RACK = spec(want("rack", 2, slot(1, want("node", 1, want("socket", 1, cores(1))))))
TWO_NODES_OF_A_RACK = spec(want("rack", 1, slot(2, want("node", 1, want("socket", 1, cores(1))))))
FIRST_SOCKET = "rack0/node0/socket0: core0-1; rack0/node0: socket0"
LAST_SOCKET = "rack1/node3/socket1: core0-1; rack1/node3: socket1"


def exclusive(kind: str, *below: dict[str, object]) -> dict[str, object]:
    return want(kind, 1, *below, exclusive=True)


def sockets(rack: int, node: int) -> list[str]:
    """Return what is granted below a whole node."""
    place = f"rack{rack}/node{node}"
    return [
        f"{place}/socket0: core0-1 memory0=4",
        f"{place}: socket0-1",
        f"{place}/socket1: core0-1 memory0=4",
    ]


def all_of_node(rack: int, node: int) -> str:
    return "; ".join([*sockets(rack, node), f"rack{rack}: node{node}"])


def all_of_both_nodes(rack: int) -> str:
    first, second = 2 * rack, 2 * rack + 1
    return "; ".join([*sockets(rack, first), f"rack{rack}: node{first}-{second}", *sockets(rack, second)])


def all_of_rack(rack: int) -> str:
    return f"{all_of_both_nodes(rack)}; .: rack{rack}"


CASES = [
    *under(
        "levels_above_the_slot_may_be_left_out",
        RACKS,
        {
            policy: tuple(
                allocate(request, answer)
                for request, answer in (
                    (FROM_ROOT, one),
                    (IN_A_RACK, other),
                )
            )
            for policy, one, other in (
                ("lonode", FIRST_SOCKET, FIRST_SOCKET.replace("socket0", "socket1")),
                ("hinode", LAST_SOCKET, LAST_SOCKET.replace("socket1", "socket0")),
                ("first", LAST_SOCKET, "rack0/node1/socket1: core0-1; rack0/node1: socket1"),
            )
        },
    ),
    *under(
        "a_slot_of_sockets_is_found_at_any_depth",
        RACKS,
        {
            "low": (allocate(spec(SOCKET), FIRST_SOCKET),),
            "lonode": (allocate(spec(SOCKET), FIRST_SOCKET),),
            "hinode": (allocate(spec(SOCKET), LAST_SOCKET),),
            "high": (allocate(spec(SOCKET), "rack0/node0/socket1: core0-1; rack0/node0: socket1"),),
            "first": (allocate(spec(SOCKET), LAST_SOCKET),),
            "lonodex": (allocate(spec(SOCKET), all_of_node(0, 0)),),
        },
    ),
    case(
        "slots_of_cores_are_made_inside_each_parent_of_cores",
        RACKS,
        "lonode",
        allocate(
            spec(slot(3, cores(2))),
            "rack0/node0/socket0: core0-1; rack0/node0/socket1: core0-1; rack0/node1/socket0: core0-1",
        ),
        satisfiable(spec(slot(1, cores(3))), "ENODEV"),
    ),
    *under(
        "one_node_of_each_rack",
        RACKS,
        {
            "low": (
                allocate(
                    NODE_PER_RACK,
                    "rack0/node0/socket0: core0; rack0/node0: socket0; rack0: node0; "
                    "rack1/node2/socket0: core0; rack1/node2: socket0; rack1: node2",
                ),
            ),
            "hinode": (
                allocate(
                    NODE_PER_RACK,
                    "rack0/node1/socket1: core1; rack0/node1: socket1; rack0: node1; "
                    "rack1/node3/socket1: core1; rack1/node3: socket1; rack1: node3",
                ),
            ),
        },
    ),
    *under(
        "two_nodes_of_one_rack",
        RACKS,
        {
            "lonode": (
                allocate(CORE, "rack0/node0/socket0: core0"),
                allocate(
                    TWO_NODES_OF_A_RACK,
                    "rack1/node2/socket0: core0; rack1/node2: socket0; rack1: node2-3; "
                    "rack1/node3/socket0: core0; rack1/node3: socket0",
                ),
                allocate(TWO_NODES_OF_A_RACK, "EBUSY"),
            ),
            "first": (
                allocate(CORE, "rack1/node3/socket1: core1"),
                allocate(
                    TWO_NODES_OF_A_RACK,
                    "rack0/node0/socket1: core1; rack0/node0: socket1; rack0: node0-1; "
                    "rack0/node1/socket1: core1; rack0/node1: socket1",
                ),
                allocate(TWO_NODES_OF_A_RACK, "EBUSY"),
            ),
        },
    ),
    case(
        "three_nodes_of_a_rack_of_two_never_match",
        RACKS,
        "low",
        satisfiable(spec(want("rack", 1, slot(3, want("node", 1, want("socket", 1, cores(1)))))), "ENODEV"),
        satisfiable(spec(slot(3, want("node", 1, want("socket", 1, cores(1))))), "yes"),
    ),
    case(
        "more_racks_than_there_are_never_match",
        RACKS,
        "high",
        satisfiable(spec(want("rack", 3, SOCKET)), "ENODEV"),
    ),
    case(
        "an_exclusive_node_is_taken_with_all_below",
        RACKS,
        "lonode",
        allocate(spec(exclusive("node", want("socket", 1, cores(1)))), all_of_node(0, 0)),
        allocate(CORE, "rack0/node1/socket0: core0"),
    ),
    case(
        "an_exclusive_rack_is_taken_with_all_below",
        RACKS,
        "lonode",
        allocate(spec(exclusive("rack", want("node", 1, want("socket", 1, cores(1))))), all_of_rack(0)),
        allocate(CORE, "rack1/node2/socket0: core0"),
        allocate(spec(exclusive("rack", want("node", 1))), "EBUSY"),
    ),
    case(
        "an_exclusive_rack_needs_one_that_nobody_uses",
        RACKS,
        "lonode",
        allocate(CORE, "rack0/node0/socket0: core0"),
        allocate(
            spec(exclusive("rack", want("node", 1))),
            all_of_rack(1),
        ),
        allocate(spec(exclusive("rack", want("node", 1))), "EBUSY"),
        cancel(1),
        allocate(spec(exclusive("rack", want("node", 1))), all_of_rack(0)),
    ),
    case(
        "an_exclusive_root_excludes_everybody_else",
        cluster(of("rack", 2, of("node", 1, of("core", 1)))),
        "low",
        allocate(CORE, "rack0/node0: core0"),
        allocate(spec(exclusive("cluster", want("rack", 1))), "EBUSY"),
        cancel(1),
        allocate(
            spec(exclusive("cluster", want("rack", 1))),
            "rack0/node0: core0; rack0: node0; .: rack0-1; rack1/node1: core0; rack1: node1; /: cluster0",
        ),
        allocate(CORE, "EBUSY"),
    ),
    case(
        "an_exclusive_socket_is_taken_with_all_below",
        RACKS,
        "lonode",
        allocate(
            spec(want("node", 1, exclusive("socket", cores(1)))),
            "rack0/node0/socket0: core0-1 memory0=4; rack0/node0: socket0",
        ),
        allocate(CORE, "rack0/node0/socket1: core0"),
    ),
    case(
        "exclusive_cores_below_shared_levels",
        RACKS,
        "lonode",
        allocate(
            spec(want("node", 1, want("socket", 1, want("core", 1, exclusive=True)))),
            "rack0/node0/socket0: core0",
        ),
        allocate(
            spec(want("node", 1, want("socket", 1, want("core", 1, exclusive=True)))),
            "rack0/node0/socket0: core1",
        ),
    ),
    case(
        "shared_cores_are_held_by_nobody",
        cluster(of("node", 1, of("socket", 1, of("core", 2)))),
        "lonode",
        allocate(spec(want("node", 1, want("socket", 1, want("core", 1, exclusive=False)))), "nothing"),
    ),
    case(
        "a_shared_companion_of_what_is_exclusive_drops_out",
        RACKS,
        "lonode",
        allocate(
            spec(want("socket", 1, want("core", 1, exclusive=True), want("memory", 1))),
            "rack0/node0/socket0: core0",
        ),
    ),
    case(
        "nothing_below_a_slot_may_be_shared",
        RACKS,
        "lonode",
        allocate(spec(slot(1, want("core", 1, exclusive=False))), "EBUSY"),
        satisfiable(spec(slot(1, want("core", 1, exclusive=False))), "ENODEV"),
    ),
    case(
        "a_slot_that_holds_a_socket_shuts_out_its_other_cores",
        RACKS,
        "lonode",
        allocate(
            spec(slot(1, want("socket", 1, cores(1)))), "rack0/node0/socket0: core0; rack0/node0: socket0"
        ),
        allocate(CORE, "rack0/node0/socket1: core0"),
    ),
    case(
        "a_node_with_a_shared_job_can_not_be_taken_exclusively",
        RACKS,
        "hinode",
        allocate(CORE, "rack1/node3/socket0: core1"),
        allocate(
            spec(slot(1, want("node", 1, want("socket", 1, cores(1))))),
            "rack1/node2/socket1: core1; rack1/node2: socket1; rack1: node2",
        ),
    ),
    *under(
        "node_exclusive_policies_never_share_a_node",
        RACKS,
        {
            "lonodex": (
                allocate(CORE, all_of_node(0, 0)),
                allocate(CORE, all_of_node(0, 1)),
            ),
            "hinodex": (
                allocate(CORE, all_of_node(1, 3)),
                allocate(CORE, all_of_node(1, 2)),
            ),
            "firstnodex": (
                allocate(CORE, all_of_node(1, 3)),
                allocate(CORE, all_of_node(0, 1)),
            ),
            "policy=high node_exclusive=true": (allocate(CORE, all_of_node(0, 0)),),
        },
    ),
    case(
        "node_exclusive_policies_grant_as_many_nodes_as_the_slots_need",
        RACKS,
        "lonodex",
        allocate(
            spec(slot(3, cores(2))),
            all_of_both_nodes(0),
        ),
    ),
]
