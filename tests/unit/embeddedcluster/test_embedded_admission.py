"""New pods of an embedded cluster get what our webhook gives them."""

from __future__ import annotations

from typing import Any

from fluence_extender.cluster.decode.pod import decode_pod
from fluence_extender.embeddedcluster.admission import admit
from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.model.names import GATE
from fluence_extender.whatif.documents import as_json


def test_pod_of_ours_gets_its_gate_and_its_mark() -> None:
    resources = parse_resources("resources: [{type: qpu, name: fez, count: 1}]")
    requests = {"cpu": "1", "fluxion.flux-framework.org/qpu": "1"}
    pod: dict[str, Any] = {
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {
            "schedulerName": "fluence",
            "containers": [{"name": "main", "resources": {"requests": requests}}],
        },
    }
    admitted = admit(pod, resources)
    assert admitted.gates == (GATE,)
    assert admitted.marked
    assert "schedulingGates" not in pod["spec"]


def test_pod_of_another_scheduler_stays_as_it_is() -> None:
    pod = {"metadata": {"name": "p", "namespace": "default"}, "spec": {"containers": [{"name": "main"}]}}
    assert admit(pod, parse_resources("")) == decode_pod(as_json(pod))
