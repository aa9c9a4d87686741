"""An owner reference with the uid of another namespace's object reaches nothing of that object."""

from __future__ import annotations

from msgspec import structs

from fluence_extender.devices.book import DeviceBook
from fluence_extender.devices.evaluation import Evaluations
from fluence_extender.devices.judge import Judge
from fluence_extender.model.claims import Choice, ClaimSpec, DeviceRequest
from fluence_extender.model.names import COMPLETION_INDEX, GATE
from fluence_extender.model.pod import Owner, Pod
from fluence_extender.model.resources import Resources
from fluence_extender.objects.devices import Allocated, DeviceClass, ResourceClaim
from tests.core.values import asks, node
from tests.unit.gangs.conftest import MakeWorld


def test_pod_takes_over_no_place_of_another_namespaces_job(world: MakeWorld) -> None:
    w = world(node("n0"))
    w.jobs.quota = 0
    job = w.jobs.submit("a", 4)
    w.advance(1)
    expected = {pod.uid for pod in w.controller.pods.values() if pod.expected}
    assert len(expected) == 4
    forged = w.pod(
        "forged-0",
        namespace="hostile",
        owner=Owner("Job", job.name, job.uid, "batch/v1"),
        annotations={COMPLETION_INDEX: "0"},
        requests=asks(1000, 1),
        gates=(GATE,),
    )
    w.advance(0.2)
    assert {pod.uid for pod in w.controller.pods.values() if pod.expected} == expected
    assert not w.member(forged.uid).assignment
    registry = w.controller.registry
    assert {key.namespace for key in registry.gangs_of(job.namespace, job.uid)} == {job.namespace}
    w.change(forged, phase="Failed")
    w.jobs.quota = None
    w.advance(3)
    assert w.jobs.nodes(job) == ["n0"] * 4


def test_claim_of_another_namespace_isnt_that_of_a_pods_extended_resources() -> None:
    book = DeviceBook(Judge(Evaluations().judge))
    book.put(DeviceClass("gpus", ("true",), extended_resource="nvidia.com/gpu"))
    pod = book.pod(Pod("ns", "p", "uid-p", requests=Resources({"pods": 1, "nvidia.com/gpu": 1})))
    assert pod.claims
    spec = ClaimSpec((DeviceRequest("r", (Choice("gpus"),)),))
    devices = (Allocated("r", ("d", "pool", "gpu")),)
    forged = ResourceClaim("hostile", "c", "uid-c", spec, devices, extended_for="uid-p")
    assert book.put(forged).pods == set()
    found = book.pod_now("uid-p")
    assert found is not None
    assert found.claims == pod.claims
    assert book.claimed_by("uid-p") == ()
    assert book.put(structs.replace(forged, namespace="ns")).pods == {"uid-p"}
    assert book.claimed_by("uid-p") == ("d/pool/gpu",)
