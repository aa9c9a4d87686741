"""Which pods fit on a node that may come, by the nodes that are there or are stated."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluence_extender.gangs.lifecycle.growth import fit_known_nodes
from fluence_extender.model.resources import NOTHING, Resources
from fluence_extender.room.capacity import CapacityTable, NodeCapacity

SIZES = st.lists(st.tuples(*[st.integers(0, 3)] * 2), max_size=5)


def table(*sizes: Resources) -> CapacityTable:
    """The capacity of nodes of these sizes."""
    return CapacityTable.of({f"n{number}": NodeCapacity(size) for number, size in enumerate(sizes)})


CPU, GPU = Resources({"cpu": 64, "pods": 100}), Resources({"cpu": 8, "gpu": 4, "pods": 100})


@pytest.mark.parametrize(
    ("asked", "possible"),
    [
        ({"cpu": 64}, True),
        ({"cpu": 65}, False),
        ({"cpu": 8, "gpu": 4}, True),
        ({"cpu": 64, "gpu": 4}, False),
        ({"cpu": 64, "tpu": 8}, True),
        ({"cpu": 65, "tpu": 8}, False),
    ],
)
def test_pod_has_to_fit_on_one_node_but_for_resources_that_no_node_has(
    asked: dict[str, int], possible: bool
) -> None:
    assert fit_known_nodes([Resources(asked)], NOTHING, table(CPU, GPU)) is possible
    assert fit_known_nodes([Resources(asked)], NOTHING, table())


def test_stated_node_has_as_much_as_any_other_of_what_it_does_not_name() -> None:
    stated = Resources({"cpu": 96})
    assert fit_known_nodes([Resources({"cpu": 96, "pods": 1, "gpu": 4})], stated, table(CPU, GPU))
    assert not fit_known_nodes([Resources({"cpu": 96, "gpu": 5})], stated, table(CPU, GPU))
    assert not fit_known_nodes([Resources({"cpu": 97})], stated, table(CPU, GPU))
    assert not fit_known_nodes([Resources({"cpu": 97})], stated, table())


@given(SIZES)
def test_what_fits_on_a_node_that_is_there_may_come_again(there: list[tuple[int, int]]) -> None:
    now = table(*(Resources({"cpu": cpu, "gpu": gpu}) for cpu, gpu in there))
    most = [max((one[at] for one in there), default=0) for at in (0, 1)]
    for asked in product(range(5), repeat=2):
        counted = [amount if most[at] else 0 for at, amount in enumerate(asked)]
        fits = not any(counted) or any(
            all(a <= b for a, b in zip(counted, one, strict=True)) for one in there
        )
        assert fit_known_nodes([Resources({"cpu": asked[0], "gpu": asked[1]})], NOTHING, now) is fits
