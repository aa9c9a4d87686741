"""std::sort, compared with what GCC's std::sort did to the same keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.walker.std_sort import std_sorted

VECTORS: list[dict[str, Any]] = json.loads(
    Path(__file__).with_name("std_sort_vectors.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: f"{len(vector['keys'])}-keys")
def test_order_is_that_of_libstdcxx(vector: dict[str, Any]) -> None:
    keys = vector["keys"]
    assert std_sorted(keys, list(range(len(keys)))) == vector["order"]


def test_vectors_tell_a_stable_sort_apart() -> None:
    stable = [sorted(range(len(vector["keys"])), key=vector["keys"].__getitem__) for vector in VECTORS]
    assert any(vector["order"] != order for vector, order in zip(VECTORS, stable, strict=True))


@given(st.lists(st.integers(-3, 3), max_size=300))
def test_result_is_a_sorted_permutation(keys: list[int]) -> None:
    order = std_sorted(keys, list(range(len(keys))))
    assert sorted(order) == list(range(len(keys)))
    assert [keys[index] for index in order] == sorted(keys)
