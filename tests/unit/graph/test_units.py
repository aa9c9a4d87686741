"""From exact amounts to leaves: sums are rounded once, and never in favor of a pod."""

import pytest

from fluence_extender.graph.units import (
    COARSE,
    FINE,
    LARGEST_BLOCK,
    MOST_LEAVES,
    Units,
    leaf_counts,
    leaf_type,
    request_counts,
    widened,
)
from fluence_extender.model.resources import Resources

GIB = 2**30


def test_offers_of_nodes_round_down_and_requests_of_pods_round_up() -> None:
    amounts = Resources({"cpu": 3500, "memory": 3 * GIB + 1, "nvidia.com/gpu": 2})
    assert leaf_counts(amounts, COARSE) == {"core": 3, "memory": 3, "gpu": 2}
    assert request_counts(amounts, COARSE) == {"core": 4, "memory": 4, "gpu": 2}


def test_six_small_daemons_cost_one_core_when_summed_first() -> None:
    daemons = Resources.total([Resources({"cpu": 150})] * 6)
    assert leaf_counts(Resources({"cpu": 4000}) - daemons, COARSE) == {"core": 3}


def test_amounts_that_round_to_nothing_are_left_out() -> None:
    assert leaf_counts(Resources({"cpu": 999, "memory": -5}), COARSE) == {}


@pytest.mark.parametrize(
    ("resource", "leaf"),
    [
        ("cpu", "core"),
        ("memory", "memory"),
        ("nvidia.com/gpu", "gpu"),
        ("amd.com/gpu", "gpu"),
        ("example.com/fpga", "fpga@example.com"),
        ("pods", None),
        ("ephemeral-storage", None),
        ("hugepages-2Mi", None),
        ("fluxion.flux-framework.org/qpu", None),
    ],
)
def test_each_resource_has_one_leaf_type_everywhere(resource: str, leaf: str | None) -> None:
    assert leaf_type(resource) == leaf


def test_leaf_types_come_in_a_stable_order() -> None:
    amounts = Resources({"b.com/x": 1, "a.com/x": 1, "amd.com/gpu": 1, "memory": GIB, "cpu": 1000})
    assert list(leaf_counts(amounts, COARSE)) == ["core", "memory", "gpu", "x@a.com", "x@b.com"]


def test_no_node_offers_as_much_as_a_jobspec_can_request() -> None:
    endless = Resources({"memory": 2**62})
    assert leaf_counts(endless, FINE)["memory"] < request_counts(endless, FINE)["memory"] == MOST_LEAVES


def test_a_unit_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Units(0, 1)


TIB = 2**40


@pytest.mark.parametrize(
    ("largest", "block"),
    [(0, 1024), (4 * TIB - 2048, 1024), (4 * TIB, 2048), (24 * TIB, 8192), (2**62, 2**16)],
)
def test_blocks_of_memory_grow_with_the_largest_node_and_no_further_than_needed(
    largest: int, block: int
) -> None:
    nodes = [Resources({"memory": GIB}), Resources({"memory": largest})]
    assert widened(FINE, nodes) == Units(1, block)


def test_an_absurd_node_does_not_make_other_nodes_coarse() -> None:
    absurd = Resources({"cpu": 2**60, "memory": 2**62, "example.com/fpga": 2**60})
    units = widened(FINE, [absurd])
    assert units.memory_bytes == LARGEST_BLOCK
    assert max(leaf_counts(absurd, units).values()) < MOST_LEAVES
    assert widened(COARSE, [absurd]) == COARSE
    assert max(leaf_counts(absurd, COARSE).values()) == COARSE.most_leaves < 10**6
