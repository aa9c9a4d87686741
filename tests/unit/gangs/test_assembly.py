"""What keeps a pod from being planned."""

from __future__ import annotations

from fluence_extender.gangs.membership.gang import foreign_gates
from fluence_extender.model.names import GATE
from tests.core.values import pod


def test_gates_of_others_are_those_that_are_not_ours() -> None:
    assert foreign_gates(pod(gates=(GATE, "example.com/quota"))) == ("example.com/quota",)
