"""Verdicts of selectors for tests that look at devices without a service."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fluence_extender.devices import selectors
from fluence_extender.devices.evaluation import Evaluations
from fluence_extender.devices.selectors import Verdict, table
from fluence_extender.model.devices import NodeDevice


@pytest.fixture(scope="module")
def evaluated_at_once() -> Iterator[None]:
    """Selectors are evaluated whenever a verdict is looked for, which the service never does."""
    evaluations = Evaluations()

    def verdict(expression: str, device: NodeDevice) -> Verdict:
        answer = evaluations.judge(expression, [device])
        found = answer.fault or answer.verdicts[0]
        return table(expression).worded(found) if isinstance(found, str) else found

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(selectors, "verdict", verdict)
        yield
