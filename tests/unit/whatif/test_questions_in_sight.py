"""A question tells nothing of namespaces that its client may not see: it is refused before anything is looked up."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from fluence_extender.gangs.membership.workloads import WorkloadIndex
from fluence_extender.http.listeners.gate import ReviewingGate
from fluence_extender.http.metrics import Metrics
from fluence_extender.http.state.app import api_app
from fluence_extender.kinds.podgroups import PodGroup
from fluence_extender.model.access import Caller, new_pods_in, pods_in, question
from fluence_extender.model.names import AFTER_ANNOTATION, GROUP_LABEL, GROUP_SIZE_ANNOTATION
from fluence_extender.whatif.manifests import MOST_NAMESPACES
from tests.core.values import node
from tests.core.world import World
from tests.unit.gangs.conftest import gang
from tests.unit.http.callers import KnownCallers
from tests.unit.whatif.conftest import job

SIMULATES = question("POST", "/v1/simulate")


@pytest.fixture
def world() -> Iterator[World]:
    """A namespace with a gang, a PodGroup and a ResourceClaimTemplate that others may not know."""
    made = World(node("n0"))
    gang(made, "secret", 1000)
    made.controller.registry.put_workload(PodGroup("default", "hidden", "", min_count=7))
    made.advance(1)
    yield made
    made.close()


async def asked(world: World, *objects: Any, namespace: str = "lab") -> httpx.Response:
    """Ask as bert, who may list the pods of lab."""
    callers = KnownCallers({"b": Caller("bert")}, {"bert": {SIMULATES, pods_in("lab"), new_pods_in("lab")}})
    transport = httpx.ASGITransport(api_app(world.state, Metrics(), gate=ReviewingGate(callers)))
    async with httpx.AsyncClient(transport=transport, base_url="http://fluence") as client:
        return await client.post(
            f"/v1/simulate?namespace={namespace}",
            content=json.dumps(objects),
            headers={"Authorization": "Bearer b"},
        )


def of(namespace: str | None, **metadata: Any) -> dict[str, Any]:
    made = job("mine", 1, "1")
    made["metadata"].update(metadata)
    made["metadata"].pop("namespace", None)
    if namespace is not None:
        made["metadata"]["namespace"] = namespace
    return made


HIDDEN_QUESTIONS: dict[str, tuple[Any, str]] = {
    "object": (of("default"), "lab"),
    "parameter": (of(None), "default"),
    "list": ({"kind": "List", "items": [{"kind": "JobList", "items": [of("default")]}]}, "lab"),
    "after a gang": (of("default", annotations={AFTER_ANNOTATION: "gang/secret"}), "lab"),
    "beside one in sight": ({"kind": "List", "items": [of("lab"), of("default")]}, "lab"),
    "claim": (
        {
            "kind": "List",
            "items": [
                of("lab"),
                {
                    "apiVersion": "resource.k8s.io/v1",
                    "kind": "ResourceClaim",
                    "metadata": {"name": "c", "namespace": "default"},
                    "spec": {},
                },
            ],
        },
        "lab",
    ),
}


@pytest.mark.parametrize("name", HIDDEN_QUESTIONS)
async def test_question_about_another_namespace_is_refused_before_anything_is_looked_up(
    name: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects, namespace = HIDDEN_QUESTIONS[name]

    def looked_up(*_: object) -> None:
        raise AssertionError("it was looked up")

    monkeypatch.setattr(WorkloadIndex, "find", looked_up)
    monkeypatch.setattr(world.controller.devices, "asking", looked_up)
    answer = await asked(world, objects, namespace=namespace)
    assert answer.status_code == 403
    assert "may not list pods in namespace default" in answer.text
    assert "secret" not in answer.text


async def test_answer_is_the_same_whether_the_other_namespace_has_something_or_not(world: World) -> None:
    names = ("gang/secret", "gang/none")
    answers = [
        await asked(world, of("default", annotations={AFTER_ANNOTATION: name}), namespace="lab")
        for name in names
    ]
    assert len({(one.status_code, one.text) for one in answers}) == 1


async def test_group_of_the_same_name_elsewhere_says_nothing(world: World) -> None:
    made = of("lab")
    made["spec"]["template"]["metadata"] = {
        "labels": {GROUP_LABEL: "secret"},
        "annotations": {GROUP_SIZE_ANNOTATION: "1"},
    }
    answer = await asked(world, made)
    assert answer.status_code == 200
    assert answer.json()["fits"]


@pytest.mark.parametrize("namespace", [5, ["default"], {"a": "b"}])
async def test_namespace_that_is_no_name_is_refused(namespace: Any, world: World) -> None:
    made = of("lab")
    made["metadata"]["namespace"] = namespace
    assert (await asked(world, made)).status_code == 400


async def test_namespaces_of_a_question_are_bounded(world: World) -> None:
    answer = await asked(world, *(of(f"n{number}") for number in range(MOST_NAMESPACES + 1)))
    assert answer.status_code == 400
    assert "namespaces" in answer.text
