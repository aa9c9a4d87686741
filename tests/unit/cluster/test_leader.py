"""The label by which the Service finds the replica that leads, and how it is kept."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from fluence_extender.cluster.connection import Connection
from fluence_extender.cluster.errors import ClusterError, NotLeading
from fluence_extender.cluster.leader import mark_leader
from fluence_extender.gangs.leadership import election
from fluence_extender.gangs.leadership.election import keep_marked
from fluence_extender.model.names import LEADS_LABEL
from tests.unit.cluster.fake_api_server import FakeApiServer, answer, refuse

PODS = "/api/v1/namespaces/fluence-system/pods"


def labeled(*names: str) -> Any:
    items = [{"metadata": {"name": name}} for name in names]
    return answer({"metadata": {"resourceVersion": "90"}, "items": items})


def patch(name: str) -> tuple[str, str]:
    return "PATCH", f"{PODS}/{name}"


async def test_new_leader_gets_the_label_before_the_former_one_loses_it(
    server: FakeApiServer, connection: Connection
) -> None:
    server.scripts["GET", PODS].append(labeled("old"))
    for name in ("new", "old"):
        server.scripts[patch(name)].append(answer({}))
    await mark_leader(connection, "fluence-system", "new")
    assert [one[:2] for one in server.requests] == [("list", PODS), patch("new"), patch("old")]
    given, taken = [one for one in server.bodies if one]
    assert given == {"metadata": {"labels": {LEADS_LABEL: "true"}}}
    assert taken == {"metadata": {"labels": {LEADS_LABEL: None}}}


async def test_labeled_leader_is_only_looked_at(server: FakeApiServer, connection: Connection) -> None:
    server.scripts["GET", PODS].append(labeled("new"))
    await mark_leader(connection, "fluence-system", "new")
    assert [one[:2] for one in server.requests] == [("list", PODS)]


async def test_former_leader_keeps_the_label_where_the_new_one_has_no_pod(
    server: FakeApiServer, connection: Connection
) -> None:
    server.scripts["GET", PODS].append(labeled("old"))
    server.scripts[patch("laptop")].append(refuse(404, "pods not found"))
    await mark_leader(connection, "fluence-system", "laptop")
    assert server.count(*patch("old")) == 0


class Marks:
    """A replica that leads or doesn't, and the marks that it makes."""

    def __init__(self, *failures: Exception) -> None:
        self.leading = False
        self.count = 0
        self.time = 0.0
        self._failures = list(failures)

    async def mark(self) -> None:
        self.count += 1
        if self._failures:
            raise self._failures.pop(0)

    async def after(self, seconds: float) -> int:
        """How many marks there have been so many seconds later."""
        self.time += seconds
        for _ in range(5):
            await asyncio.sleep(0)
        return self.count


@contextlib.asynccontextmanager
async def kept(marks: Marks, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    monkeypatch.setattr(election, "RETRY", 0)
    task = asyncio.create_task(keep_marked(lambda: marks.leading, marks.mark, lambda: marks.time))
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_each_lead_is_marked_at_once_and_then_from_time_to_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    marks = Marks()
    async with kept(marks, monkeypatch):
        assert await marks.after(1.0) == 0
        marks.leading = True
        assert await marks.after(1.0) == 1
        assert await marks.after(1.0) == 1
        assert await marks.after(election.MARK_EVERY) == 2
        marks.leading = False
        assert await marks.after(election.MARK_EVERY) == 2
        marks.leading = True
        assert await marks.after(0.0) == 3


@pytest.mark.parametrize(
    "failure", [ClusterError("busy"), NotLeading("the lease is held by another")], ids=str
)
async def test_mark_that_fails_is_tried_again(monkeypatch: pytest.MonkeyPatch, failure: Exception) -> None:
    marks = Marks(failure)
    marks.leading = True
    async with kept(marks, monkeypatch):
        assert await marks.after(0.0) == 1
        assert await marks.after(1.0) == 1
        assert await marks.after(election.MARK_RETRY) == 2
        assert await marks.after(election.MARK_RETRY) == 2
