"""What is read of ProvisioningRequests and of nodes that are kept, and what templates of pods have."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fluence_extender.cluster.decode.node import decode_node
from fluence_extender.cluster.decode.provisioning import decode_provisioning_request
from fluence_extender.cluster.provisioning import template_of
from fluence_extender.model.names import (
    CREATED_BY_ANNOTATION,
    KEEPING,
    KEPT_ANNOTATION,
    MARK_RESOURCE,
    SERVICE_NAME,
)
from fluence_extender.model.provisioning import ProvisioningRequest

DISABLED, DO_NOT_DISRUPT = KEEPING


def condition(kind: str, status: str, message: str = "", reason: str = "Because") -> dict[str, str]:
    return {"type": kind, "status": status, "message": message, "reason": reason}


def decoded(*conditions: dict[str, str], creator: str = SERVICE_NAME) -> ProvisioningRequest:
    """A request with these conditions, as it is read."""
    body = {
        "metadata": {
            "name": "train-1",
            "namespace": "team",
            "uid": "u",
            "creationTimestamp": "2026-01-01T00:00:10Z",
            "annotations": {CREATED_BY_ANNOTATION: creator},
        },
        "spec": {"podSets": [{"count": 2, "podTemplateRef": {"name": f"train-1-{at}"}} for at in (0, 1)]},
        "status": {"conditions": list(conditions)},
    }
    return decode_provisioning_request(json.dumps(body).encode())


def test_request_is_read_with_its_templates_and_who_has_made_it() -> None:
    found = decoded()
    assert (found.namespace, found.name, found.uid) == ("team", "train-1", "u")
    assert found.templates == ("train-1-0", "train-1-1")
    assert found.created == 1767225610.0
    assert found.ours
    assert not decoded(creator="somebody").ours


@pytest.mark.parametrize(
    ("conditions", "state"),
    [
        ([], (False, "", "")),
        ([condition("Accepted", "True")], (True, "", "")),
        (
            [condition("Accepted", "True"), condition("Provisioned", "False", "no room")],
            (True, "no room", ""),
        ),
        ([condition("Provisioned", "True", "found")], (True, "", "")),
        ([condition("Failed", "False", "x")], (False, "", "")),
        ([condition("Failed", "True", "", "Expired")], (False, "", "Expired")),
        (
            [condition("Provisioned", "True"), condition("CapacityRevoked", "True", "gone")],
            (True, "", "gone"),
        ),
        ([condition("Provisioned", "True"), condition("BookingExpired", "True", "x")], (True, "", "")),
    ],
)
def test_conditions_say_how_far_a_request_is(
    conditions: list[dict[str, str]], state: tuple[Any, ...]
) -> None:
    found = decoded(*conditions)
    assert (found.accepted, found.refusal, found.failure) == state


def test_request_with_fields_of_another_form_is_read_without_them() -> None:
    found = decode_provisioning_request(b'{"metadata": {"name": "x"}, "spec": {"podSets": 7}, "status": []}')
    assert (found.name, found.templates, found.accepted) == ("x", (), False)


@pytest.mark.parametrize(
    ("annotations", "guards", "kept"),
    [
        ({}, (), ()),
        ({DISABLED: "true"}, (DISABLED,), ()),
        ({DO_NOT_DISRUPT: "false", DISABLED: "true", KEPT_ANNOTATION: DISABLED}, KEEPING, (DISABLED,)),
        ({KEPT_ANNOTATION: f"{DISABLED},{DO_NOT_DISRUPT},else"}, (), KEEPING),
    ],
)
def test_node_says_what_keeps_it_and_what_of_that_the_service_has_set(
    annotations: dict[str, str], guards: tuple[str, ...], kept: tuple[str, ...]
) -> None:
    found = decode_node(json.dumps({"metadata": {"name": "n", "annotations": annotations}}).encode())
    assert (found.guards, found.kept) == (guards, kept)


def test_template_has_what_schedulers_read_of_a_pod_and_nothing_else() -> None:
    resources = {
        "requests": {"cpu": "2", MARK_RESOURCE: "1", "fluxion.flux-framework.org/qpu": "1"},
        "limits": {MARK_RESOURCE: "1"},
    }
    main = {"name": "main", "image": "i", "ports": [{"hostPort": 80, "containerPort": 80}]}
    hidden = {"command": ["x"], "env": [{"name": "PASSWORD", "value": "secret"}], "volumeMounts": []}
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    read = {
        "nodeSelector": {"a": "b"},
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"podAntiAffinity": {}},
        "priority": 0,
        "schedulerName": "fluence",
    }
    pod = {
        "metadata": {"name": "p", "labels": {"app": "x"}, "annotations": {"a": "b"}},
        "spec": {
            **read,
            "schedulingGates": [{"name": "g"}],
            "serviceAccountName": "default",
            "containers": [{**main, **hidden, "resources": resources}],
            "initContainers": [{"name": "side", "image": "i", "restartPolicy": "Always"}],
            "volumes": [claim, {"name": "token", "projected": {"sources": []}}],
        },
    }
    assert template_of(pod) == {
        "metadata": {"labels": {"app": "x"}},
        "spec": {
            **read,
            "containers": [{**main, "resources": {"requests": {"cpu": "2"}, "limits": {}}}],
            "initContainers": [{"name": "side", "image": "i", "restartPolicy": "Always", "resources": {}}],
            "volumes": [claim],
        },
    }
