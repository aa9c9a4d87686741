"""Idsets are written as RFC 22 says."""

import pytest

from fluence_extender.model.idset import encode_idset


@pytest.mark.parametrize(
    ("ids", "text"),
    [([], ""), ([3], "3"), ([3, 4], "3-4"), ([7, 0, 1, 2, 3, 1], "0-3,7"), ([0, 2, 4], "0,2,4")],
)
def test_runs_are_joined_in_order(ids: list[int], text: str) -> None:
    assert encode_idset(ids) == text


def test_a_negative_id_is_refused() -> None:
    with pytest.raises(ValueError, match="-1"):
        encode_idset([0, -1])
