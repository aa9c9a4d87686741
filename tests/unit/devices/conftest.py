"""Each test begins without verdicts."""

from __future__ import annotations

from weakref import WeakValueDictionary

import pytest

from fluence_extender.devices import selectors


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selectors, "_tables", WeakValueDictionary())
