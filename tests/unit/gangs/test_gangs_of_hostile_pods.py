"""Whatever users write into the fields, labels and annotations of their pods, other pods get their places."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fluence_extender.cluster.decode.pod import decode_pod
from fluence_extender.cluster.port import Changed, Listed
from fluence_extender.gangs.controller import Controller
from fluence_extender.model import names
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import ReasonCode
from fluence_extender.placement import topology_constraints
from tests.core.engine import EMBEDDED
from tests.core.values import node

KEYS = sorted(
    {
        text
        for module in (names, topology_constraints)
        for text in vars(module).values()
        if isinstance(text, str) and ("/" in text or text == names.FLUX_SIZE)
    }
)
"""The labels, annotations and resources that mean something to us."""

LONGEST_ANNOTATION = 2**18
"""Characters that the API server accepts in the annotations of an object."""

TEXTS = (
    "",
    " ",
    "NaN",
    "-1",
    "1e999",
    "9" * 5000,
    "999999999d",
    "\u00b2",
    "\u0663",
    "\x00\n\u202e",
    "/",
    "a/b/c",
    "[" * 5000,
    '{"a": ' * 5000,
    "[null]",
    '[{"path": 5, "type": [], "amount": 1e400}]',
    '[{"path": "/", "type": "qpu", "amount": 99999999999999999999}]',
    "x" * LONGEST_ANNOTATION,
)

AMOUNTS = ("NaN", "-1", "1e999", "9" * 250, 10**300, 1.5, "9Ei", "", None)


LONGEST_REASON = 1000
"""Characters: the reason becomes an Event, which may not have more than 1,024."""


def pod_of(name: str, meta: dict[str, Any], spec: dict[str, Any], **status: Any) -> Pod:
    body = {
        "metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": "7", **meta},
        "spec": {"schedulerName": "fluence", "containers": [], **spec},
        "status": status,
    }
    return decode_pod(json.dumps(body).encode())


def hostile() -> list[Pod]:
    """Return pods that each have one hostile text or amount; some of them are bound."""
    found: list[Pod] = []
    for key in KEYS:
        for text in TEXTS:
            found.append(pod_of(f"p{len(found)}", {"labels": {key: text[: names.LONGEST_LABEL]}}, {}))
            found.append(pod_of(f"p{len(found)}", {"annotations": {key: text}}, {}))
            bound = {"nodeName": "n1"}
            found.append(pod_of(f"p{len(found)}", {"annotations": {key: text}}, bound, phase="Running"))
        for amount in AMOUNTS:
            containers = [{"name": "c", "resources": {"requests": {key: amount}}}]
            found.append(pod_of(f"p{len(found)}", {}, {"containers": containers}))
    for kind in ("Job", "ReplicaSet", "StatefulSet", "Workflow", ""):
        for text in TEXTS:
            owner = {"kind": kind, "name": text, "uid": text, "controller": True, "apiVersion": text}
            found.append(pod_of(f"p{len(found)}", {"ownerReferences": [owner]}, {}))
    return found


def test_hostile_pods_leave_the_others_their_places() -> None:
    clock = [0.0]
    ledger = EMBEDDED.ledger()
    controller = Controller(ledger, clock=lambda: clock[0], calendar=lambda: clock[0])
    controller.observe(Listed(Node, (node("n0", 64_000, 64, pods=5000), node("n1", 64_000, 64, pods=5000))))
    controller.start()
    for one in hostile():
        controller.observe(Changed(one))
    requests = [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]
    controller.observe(Changed(pod_of("good", {}, {"containers": requests})))
    for _ in range(10):
        controller.step()
        clock[0] += 1.0
    found = controller.member("good")
    assert found is not None
    assert found[1].assignment is not None
    reasons = [gang.reason for gang in controller.registry.gangs.values() if gang.reason is not None]
    assert [one.text for one in reasons if one.code is ReasonCode.PLANNING_FAILED] == []
    assert [one.text[:LONGEST_REASON] for one in reasons if len(one.text) > LONGEST_REASON] == []


@pytest.mark.parametrize("version", ["", "7", "\u00b2", "9" * 5000, "x"])
def test_version_of_a_pod_may_be_any_text(version: str) -> None:
    ledger = EMBEDDED.ledger()
    controller = Controller(ledger)
    controller.observe(Listed(Node, (node("n0"),)))
    controller.start()
    for uid in ("a", "b"):
        controller.observe(Changed(pod_of(uid, {"resourceVersion": version}, {})))
    assert controller.member("b") is not None
