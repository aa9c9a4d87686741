"""One claim of a user that would take minutes to evaluate: nothing of it is evaluated where gangs are placed."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from fluence_extender.cluster.port import Changed, Kind
from fluence_extender.devices import cel
from fluence_extender.devices.allocator import work
from fluence_extender.devices.evaluation import Evaluations
from fluence_extender.devices.judge import MOST_COSTLY, Judge
from fluence_extender.embeddedcluster.cluster import EmbeddedCluster
from fluence_extender.embeddedcluster.session import EmbeddedSession
from fluence_extender.gangs.controller import Controller, Ports
from fluence_extender.model.claims import Choice, ClaimSpec, DeviceRequest
from fluence_extender.model.devices import NodeDevice
from fluence_extender.model.names import GATE
from fluence_extender.model.node import Node
from fluence_extender.model.pod import ClaimRef, Pod
from fluence_extender.objects.devices import DeviceClass, ResourceClaimTemplate, ResourceSlice
from fluence_extender.room.claims import WORK_AT_ONCE
from fluence_extender.whatif import simulator
from fluence_extender.whatif.simulator import Simulator
from tests.core.engine import EMBEDDED
from tests.core.values import asks, node

DRIVER = "gpu.example.com"
ATTRIBUTES = f'device.attributes["{DRIVER}"]'
TEN = "[0,1,2,3,4,5,6,7,8,9]"


def costly(number: int) -> str:
    """Return an expression within the limit of one evaluation, which reads what is different on all devices."""
    return f'{TEN}.all(x,{TEN}.all(y,x+y>=0||{ATTRIBUTES}.uuid=="{number}"))&&{ATTRIBUTES}.uuid!="{number}"'


def claim(requests: int, selectors: int) -> ClaimSpec:
    numbers = iter(range(requests * selectors))
    return ClaimSpec(
        tuple(
            DeviceRequest(f"r{at}", (Choice("gpus", tuple(costly(next(numbers)) for _ in range(selectors))),))
            for at in range(requests)
        )
    )


SLICE = ResourceSlice(
    "s",
    DRIVER,
    "n0",
    node="n0",
    devices=tuple(NodeDevice(DRIVER, "n0", f"gpu-{at}", {f"{DRIVER}/uuid": f"u{at}"}) for at in range(32)),
)


class Scene:
    """A controller with one node of 32 different devices, and what evaluates for it when a test says so."""

    def __init__(self) -> None:
        self.judge = Judge()
        self.controller = Controller(EMBEDDED.ledger(), ports=Ports(judge=self.judge))
        self.evaluations = Evaluations()
        self.put(Node, node("n0"))
        self.put(DeviceClass, DeviceClass("gpus", (f'device.driver == "{DRIVER}"',)))
        self.put(ResourceSlice, SLICE)
        self.evaluate()
        self.controller.take_decided()
        self.controller.start()

    def put(self, kind: Kind, thing: Any) -> None:
        self.controller.observe(Changed(thing))

    def pod(self, name: str, namespace: str, template: str = "") -> None:
        refs = (ClaimRef("c", template=template),) if template else ()
        made = Pod(namespace, name, name, requests=asks(100, 1), gates=(GATE,), claim_refs=refs)
        self.put(Pod, replace(made, interdependent=bool(refs)))

    def step(self) -> None:
        self.controller.step()
        while self.controller.restless:
            self.controller.step()

    def evaluate(self) -> int:
        """Evaluate all that may be now; return the steps that it took beyond the first of each evaluation."""
        taken = 0
        while (piece := self.judge.next(0.0)) is not None:
            devices = [one.device for one in piece.values]
            answer = self.evaluations.judge(piece.table.expression, devices)
            self.judge.take(piece, answer, 0.0)
            taken += answer.costly
        return taken

    def reason(self, name: str) -> tuple[str, str]:
        gangs = self.controller.registry.gangs.values()
        reason = next(gang.reason for gang in gangs if name in gang.members)
        return ("", "") if reason is None else (reason.code, reason.text)

    def is_placed(self, name: str) -> bool:
        return name in self.controller.ledger.holdings


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The expressions that this process has evaluated or compiled."""
    done: list[str] = []
    selects, compiled = cel.Program.selects, cel.Program.__init__

    def watched(self: cel.Program, device: NodeDevice, read: cel.Read) -> bool:
        done.append(device.name)
        return selects(self, device, read)

    def watched_compile(self: cel.Program, expression: str) -> None:
        done.append(expression)
        compiled(self, expression)

    monkeypatch.setattr(cel.Program, "selects", watched)
    monkeypatch.setattr(cel.Program, "__init__", watched_compile)
    return done


def test_nothing_is_evaluated_on_the_way_to_a_decision_and_others_are_placed(evaluated: list[str]) -> None:
    scene = Scene()
    evaluated.clear()
    scene.put(ResourceClaimTemplate, ResourceClaimTemplate("hostile", "t", claim(4, 30)))
    scene.put(ResourceClaimTemplate, ResourceClaimTemplate("physics", "t", claim(1, 0)))
    scene.pod("h", "hostile", "t")
    scene.pod("p", "physics", "t")
    scene.pod("plain", "physics")
    scene.step()
    assert evaluated == []
    assert scene.reason("h") == (
        "SelectingDevices",
        "pod h: the CEL selectors of its claims are being evaluated",
    )
    assert scene.is_placed("p")
    assert scene.is_placed("plain")


def test_claim_beyond_its_budget_says_so_and_takes_no_more_than_it() -> None:
    scene = Scene()
    scene.put(ResourceClaimTemplate, ResourceClaimTemplate("hostile", "t", claim(4, 30)))
    scene.pod("h", "hostile", "t")
    scene.step()
    assert scene.evaluate() < MOST_COSTLY * 1.2
    scene.step()
    code, text = scene.reason("h")
    assert code == "InvalidRequest"
    assert "take more than 500,000 steps for all devices together" in text
    assert scene.judge.idle


def test_pod_is_placed_once_the_verdicts_are_there() -> None:
    scene = Scene()
    scene.put(ResourceClaimTemplate, ResourceClaimTemplate("physics", "t", claim(1, 1)))
    scene.pod("p", "physics", "t")
    scene.step()
    assert not scene.is_placed("p")
    scene.evaluate()
    scene.step()
    assert scene.is_placed("p")


def test_devices_that_have_changed_count_once_their_classes_are_known() -> None:
    scene = Scene()
    device = replace(SLICE.devices[0], attributes={f"{DRIVER}/uuid": "new"})
    scene.put(ResourceSlice, structs.replace(SLICE, devices=(device,)))
    counted = "deviceclass.resource.kubernetes.io/gpus"
    assert scene.controller.eligibility.nodes["n0"].allocatable[counted] == 32
    scene.evaluate()
    scene.step()
    assert scene.controller.eligibility.nodes["n0"].allocatable[counted] == 1


def test_pods_of_a_template_that_comes_and_goes_are_taken_in_a_few_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene()
    template = ResourceClaimTemplate("hostile", "t", claim(1, 0))
    scene.put(ResourceClaimTemplate, template)
    for number in range(500):
        scene.pod(f"h{number}", "hostile", "t")
    taken: list[str] = []
    pod_now = scene.controller.devices.pod_now

    def counted(uid: str) -> Pod | None:
        taken.append(uid)
        return pod_now(uid)

    monkeypatch.setattr(scene.controller.devices, "pod_now", counted)
    for _ in range(3):
        scene.controller.observe(Changed(structs.replace(template, spec=ClaimSpec())))
        scene.controller.observe(Changed(template))
    assert len(taken) <= 6 * 64
    while scene.controller.restless:
        before = len(taken)
        scene.controller.step()
        assert len(taken) - before <= 64
    assert len(set(taken)) == 500


def test_claims_are_compared_with_many_devices_a_little_at_a_time() -> None:
    scene = Scene()
    for number in range(1, 60):
        name = f"n{number}"
        devices = tuple(replace(one, pool=name) for one in SLICE.devices)
        scene.put(Node, node(name))
        scene.put(ResourceSlice, structs.replace(SLICE, name=name, pool=name, node=name, devices=devices))
    scene.evaluate()
    requests = tuple(DeviceRequest(f"r{at}", (Choice("gpus", (f"{at} >= 0",)),)) for at in range(25))
    scene.put(ResourceClaimTemplate, ResourceClaimTemplate("hostile", "t", ClaimSpec(requests)))
    scene.put(ResourceClaimTemplate, ResourceClaimTemplate("physics", "t", claim(1, 0)))
    scene.pod("h", "hostile", "t")
    scene.step()
    scene.evaluate()
    steps = 0
    while True:
        before = work.done
        scene.controller.step()
        steps += 1
        if scene.reason("h")[0] != "SelectingDevices":
            break
        assert work.done - before < 3 * WORK_AT_ONCE
        if steps == 3:
            scene.pod("p", "physics", "t")
    assert steps > 5
    assert scene.is_placed("p")
    assert scene.is_placed("h")


def question(expression: str) -> bytes:
    """Return a what-if question: would a pod with such a claim fit?"""
    exactly = {"deviceClassName": "gpus", "selectors": [{"cel": {"expression": expression}}]}
    spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "t"},
        "spec": {"spec": spec},
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {
            "schedulerName": "fluence",
            "containers": [{"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}],
            "resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t"}],
        },
    }
    return json.dumps([template, pod]).encode()


def _simulator(scene: Scene) -> Simulator:
    session = EmbeddedSession(EmbeddedCluster())
    return Simulator(scene.controller, session.try_pod, session.disruption_budgets)


async def test_question_waits_for_the_verdicts_on_its_claims() -> None:
    scene = Scene()
    answers = []
    for expression in (f'{ATTRIBUTES}.uuid == "u7"', f'{ATTRIBUTES}.uuid == "none"'):
        asking = asyncio.create_task(_simulator(scene).answer(question(expression), client="user a"))
        while not asking.done():
            scene.evaluate()
            await asyncio.sleep(0.01)
        answers.append((await asking)["fits"])
    assert answers == [True, False]
    assert scene.judge.idle


async def test_question_says_so_if_its_verdicts_dont_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulator, "LONGEST_EVALUATION", 0.05)
    scene = Scene()
    answer = await _simulator(scene).answer(question(f'{ATTRIBUTES}.uuid == "u8"'))
    assert (answer["fits"], answer["gangs"][0]["why"]) == (False, "SelectingDevices")
    assert scene.judge.next(0.0) is None
