"""Lists within sentences."""

from __future__ import annotations

import pytest

from fluence_extender.model.listing import first_few


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, ""), (1, "n0"), (2, "n0, n1"), (3, "n0, n1 and 1 more"), (5000, "n0, n1 and 4998 more")],
)
def test_list_names_the_first_and_says_how_many_more_there_are(count: int, text: str) -> None:
    assert first_few([f"n{number}" for number in range(count)], 2) == text
