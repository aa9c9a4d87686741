"""The handlers and their order can be chosen."""

from __future__ import annotations

import pytest

from fluence_extender.webhook.handlers import HANDLERS, select


def test_usual_order() -> None:
    assert tuple(HANDLERS) == ("fluxion", "quantum", "gang")
    assert select(()) == (("fluxion", "quantum", "gang"), ())


@pytest.mark.parametrize(
    ("names", "known", "unknown"),
    [
        (["gang", "fluxion"], ("gang", "fluxion"), ()),
        (["gang", "gangs", "fluxion", "x", "gangs"], ("gang", "fluxion"), ("gangs", "x")),
        (["gang", "gang"], ("gang",), ()),
        ([" gang ", ""], ("gang",), ()),
        (["x"], (), ("x",)),
        (["", " "], ("fluxion", "quantum", "gang"), ()),
    ],
)
def test_list_is_selection_and_order_and_unknown_names_are_returned(
    names: list[str], known: tuple[str, ...], unknown: tuple[str, ...]
) -> None:
    assert select(names) == (known, unknown)
