"""Amounts, times, bars, and the sums behind ``why``."""

from __future__ import annotations

import pytest

from fluence_extender.apps.kubectl import figures
from fluence_extender.apps.kubectl.fits import fitting, largest_that_fits, times
from tests.unit.apps.kubectl.test_questions import GIB, NODES


def test_amounts_and_ages_are_written_as_kubectl_does() -> None:
    assert [figures.amount("cpu", value) for value in (1.5, 2, 0.25)] == ["1500m", "2", "250m"]
    assert [figures.amount("memory", value) for value in (GIB, 1.5 * GIB, 512)] == ["1Gi", "1.5Gi", "512"]
    assert [figures.span(seconds) for seconds in (-3, 5, 119, 120, 7200, 200_000)] == [
        "0s",
        "5s",
        "119s",
        "2m",
        "2h",
        "2d",
    ]
    assert figures.bar(10, 0.01, 0.01, 10) == "[#+........]"
    assert figures.bar(10, 20, 5, 10) == "[##########]"
    assert figures.bar(0, 0, 0, 4) == "[    ]"


def test_fits_are_counted_on_open_nodes_only() -> None:
    assert fitting(NODES, {"cpu": 1, "pods": 1}) == {"n1": 1, "n2": 7}
    assert times({"cpu": 0.3}, {"cpu": 0.1}) == 3
    assert times({"cpu": -1}, {"cpu": 1}) == 0
    assert times({}, {"nvidia.com/gpu": 1}) == 0
    assert largest_that_fits(NODES, {"cpu": 3}, 100, "cpu") == pytest.approx(0.079)
    assert largest_that_fits(NODES, {"cpu": 3, "nvidia.com/gpu": 1}, 1, "cpu") is None
