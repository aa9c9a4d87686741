"""A start that takes long says what it waits for."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest
from structlog.testing import capture_logs

from fluence_extender.apps.extender import app
from fluence_extender.cluster.port import Kind
from fluence_extender.cluster.session import ClusterSession
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod


class Listing:
    """A session of which only the nodes are listed at first."""

    def __init__(self) -> None:
        self.listed: set[Kind] = {Node}

    def is_synced(self, kind: Kind) -> bool:
        return kind in self.listed

    def failures(self) -> dict[Kind, str]:
        return {Pod: "403 Forbidden"}

    def staleness(self, *_: Kind) -> float:
        return 0.0


async def test_start_that_takes_long_says_what_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "PROGRESS", 0.01)
    session = Listing()
    with capture_logs() as lines:
        telling = asyncio.create_task(app.tell_progress(cast(ClusterSession, session)))
        await asyncio.sleep(0.3)
        session.listed.update(app.LISTED_FIRST)
        await asyncio.sleep(0.3)
        telling.cancel()
    assert lines[0]["event"] == "starting"
    assert "waiting for the list of pod, job, resources-file (" in lines[0]["now"]
    assert "403 Forbidden" in lines[0]["now"]
    assert lines[-1]["now"] == "taking over what runs"
