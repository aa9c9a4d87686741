"""PodDisruptionBudgets are read on demand; while they can't be read, they are unknown."""

from __future__ import annotations

from fluence_extender.cluster.connection import Connection
from fluence_extender.cluster.reads import BUDGETS, disruption_budgets
from tests.unit.cluster.fake_api_server import FakeApiServer, answer, refuse


async def test_budgets_are_listed_completely(server: FakeApiServer, connection: Connection) -> None:
    keep = {"metadata": {"name": "keep", "namespace": "lab"}, "spec": {"selector": {}}}
    server.scripts["GET", BUDGETS].append(answer({"items": [keep]}))
    budgets = await disruption_budgets(connection)
    assert budgets is not None
    assert [(one.metadata.namespace, one.metadata.name) for one in budgets] == [("lab", "keep")]


async def test_budgets_that_may_not_be_listed_are_unknown(
    server: FakeApiServer, connection: Connection
) -> None:
    server.scripts["GET", BUDGETS].append(refuse(403, "forbidden"))
    assert await disruption_budgets(connection) is None
