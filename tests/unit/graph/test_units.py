"""From exact amounts to leaves: sums are rounded once, and never in favor of a pod."""

import pytest

from fluence_extender.graph.units import MOST_OFFERED, MOST_REQUESTED, leaf_counts, leaf_type, request_counts
from fluence_extender.model.resources import Resources

GIB = 2**30


def test_offers_of_nodes_round_down_and_requests_of_pods_round_up() -> None:
    amounts = Resources({"cpu": 3500, "memory": 3 * GIB + 1, "nvidia.com/gpu": 2})
    assert leaf_counts(amounts) == {"core": 3, "memory": 3, "gpu": 2}
    assert request_counts(amounts) == {"core": 4, "memory": 4, "gpu": 2}


def test_six_small_daemons_cost_one_core_when_summed_first() -> None:
    daemons = Resources.total([Resources({"cpu": 150})] * 6)
    assert leaf_counts(Resources({"cpu": 4000}) - daemons) == {"core": 3}


def test_amounts_that_round_to_nothing_are_left_out() -> None:
    assert leaf_counts(Resources({"cpu": 999, "memory": -5})) == {}


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
    assert list(leaf_counts(amounts)) == ["core", "memory", "gpu", "x@a.com", "x@b.com"]


def test_no_node_offers_as_much_as_a_jobspec_can_request() -> None:
    endless = Resources({"memory": 2**62})
    assert leaf_counts(endless)["memory"] < request_counts(endless)["memory"] == MOST_REQUESTED


def test_an_absurd_node_has_a_bounded_number_of_leaves() -> None:
    absurd = Resources({"cpu": 2**60, "memory": 2**62, "example.com/fpga": 2**60})
    assert max(leaf_counts(absurd).values()) == MOST_OFFERED < 10**6
