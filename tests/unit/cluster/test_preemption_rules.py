"""PriorityClasses and PodDisruptionBudgets are read on demand; those that can't be read are unknown."""

from __future__ import annotations

from fluence_extender.cluster.connection import Connection
from fluence_extender.cluster.reads import BUDGETS, CLASSES, preemption_rules
from tests.unit.cluster.fake_api_server import FakeApiServer, answer, refuse


async def test_priority_classes_and_budgets_are_listed_completely(
    server: FakeApiServer, connection: Connection
) -> None:
    high = {"metadata": {"name": "high"}, "value": 5}
    server.scripts["GET", CLASSES].append(answer({"items": [high]}))
    keep = {"metadata": {"name": "keep", "namespace": "lab"}, "spec": {"selector": {}}}
    server.scripts["GET", BUDGETS].append(answer({"items": [keep]}))
    found = await preemption_rules(connection)
    assert found.classes == [{**high, "kind": "PriorityClass"}]
    assert found.budgets is not None
    assert [(one.metadata.namespace, one.metadata.name) for one in found.budgets] == [("lab", "keep")]


async def test_objects_that_may_not_be_listed_are_unknown(
    server: FakeApiServer, connection: Connection
) -> None:
    server.scripts["GET", CLASSES].append(refuse(403, "forbidden"))
    server.scripts["GET", BUDGETS].append(answer({"items": []}))
    found = await preemption_rules(connection)
    assert found.classes is None
    assert found.budgets == ()
