"""What producers, consumers and observed pods are given."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fluence_extender.model.coordination import SIDECAR_COMMAND
from fluence_extender.webhook.contract import GroupKind
from fluence_extender.webhook.mutate import mutate
from tests.unit.webhook.pods import (
    ALL,
    CONTEXT,
    QPU,
    REQUEST,
    admitted,
    applied,
    container,
    env,
    gates,
    grouped,
    init_names,
)

ROLE = "fluence.flux-framework.org/coordination-role"


def quantum(**fields: Any) -> dict[str, Any]:
    return container(asks={QPU: "1", "cpu": "1"}, **fields)


def shared(**fields: Any) -> dict[str, Any]:
    return grouped(quantum(), mode="shared", **fields)


def sidecar(body: dict[str, Any]) -> dict[str, Any]:
    containers: list[dict[str, Any]] = body["spec"]["initContainers"]
    (found,) = [one for one in containers if one["name"] == "fluence-sidecar"]
    return found


def test_sidecar_neither_keeps_the_pod_running_nor_fails_it() -> None:
    found = sidecar(admitted(shared(index="0")))
    assert found["restartPolicy"] == "Always"
    assert not {"livenessProbe", "startupProbe", "readinessProbe"} & found.keys()
    assert found["command"] == list(SIDECAR_COMMAND)
    assert found["resources"] == {"requests": {"cpu": "100m", "memory": "256Mi"}}


def test_our_containers_have_limits_if_all_of_the_users_have_them() -> None:
    """A quota may ask for them, and a pod of the class Guaranteed stays one."""
    whole = {"cpu": "1", "memory": "1Gi", QPU: "1"}
    limited = container(resources={"requests": whole, "limits": whole})
    inits = admitted(grouped(limited, mode="shared", index="0"))["spec"]["initContainers"]
    for one in inits:
        assert one["resources"]["limits"].keys() == {"cpu", "memory"}
        assert one["resources"]["requests"] == one["resources"]["limits"]
    memory = container(resources={"requests": whole, "limits": {"memory": "1Gi", QPU: "1"}})
    (stage,) = admitted(grouped(memory))["spec"]["initContainers"]
    assert stage["resources"] == {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "64Mi"}}
    (stage,) = admitted(grouped(limited, container("free")))["spec"]["initContainers"]
    assert "limits" not in stage["resources"]


def test_our_containers_share_pod_level_resources() -> None:
    """The API server refuses containers that request more than their pod."""
    body = shared(index="0", resources={"requests": {"cpu": "100m"}, "limits": {"cpu": "150m"}})
    assert [one["resources"] for one in admitted(body)["spec"]["initContainers"]] == [{}, {}]


def test_our_containers_come_before_the_users_init_containers() -> None:
    body = grouped(quantum(), mode="shared", index="0", initContainers=[container("mine")])
    assert init_names(admitted(body)) == ["fluence-stage", "fluence-sidecar", "mine"]
    assert env(admitted(body), "mine")["PYTHONPATH"] == "/opt/fluence-staged"


def test_sidecar_has_the_credentials_of_the_first_container_and_none_of_its_plain_values() -> None:
    secret = {"valueFrom": {"secretKeyRef": {"name": "aws", "key": "id"}}}
    own = [
        {"name": "AWS_ACCESS_KEY_ID", **secret},
        {"name": "REGION", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "region"}}},
        {"name": "PLAIN", "value": "x"},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "FLUENCE_NAMESPACE", **secret},
    ]
    sources = [{"secretRef": {"name": "ibm"}}, {"configMapRef": {"name": "settings"}}]
    body = grouped(quantum(env=own, envFrom=sources), container("other"), mode="shared", index="0")
    after = admitted(body)
    found = env(after, "fluence-sidecar")
    assert found["AWS_ACCESS_KEY_ID"] == "secretKeyRef"
    assert found["REGION"] == "configMapKeyRef"
    assert found["FLUENCE_NAMESPACE"] == "metadata.namespace"
    assert not {"PLAIN", "NODE"} & found.keys()
    assert sidecar(after)["envFrom"] == sources[:1]
    assert "FLUENCE_NAMESPACE" in env(after)


def test_sidecar_knows_its_pod_its_groups_and_its_backend() -> None:
    found = env(admitted(shared(index="0")), "fluence-sidecar")
    assert found["FLUENCE_POD_UID"] == "metadata.uid"
    assert found["FLUENCE_POD_NAME"] == "metadata.name"
    assert found["FLUENCE_NAMESPACE"] == "metadata.namespace"
    assert found["FLUENCE_GROUP"] == "metadata.labels['fluence.flux-framework.org/group']"
    assert found["FLUENCE_GANG_GROUP"] == "g"
    assert {"FLUXION_BACKEND", "FLUXION_VENDOR", "FLUXION_QRMI_TYPE"} <= found.keys()


def test_sidecar_has_a_token_of_its_own_whatever_the_pod_mounts() -> None:
    after = admitted(grouped(quantum(), mode="shared", index="0", automountServiceAccountToken=False))
    (mount,) = sidecar(after)["volumeMounts"]
    assert mount["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount"
    (volume,) = [one for one in after["spec"]["volumes"] if one["name"] == mount["name"]]
    token, authority, namespace = volume["projected"]["sources"]
    assert token == {"secret": {"name": "fluence-sidecar", "items": [{"key": "token", "path": "token"}]}}
    assert (authority.keys(), namespace.keys()) == ({"configMap"}, {"downwardAPI"})


@pytest.mark.parametrize(
    "fields", [{}, {"initContainers": [container("first", {QPU: "1"})]}], ids=["main", "init container too"]
)
@pytest.mark.parametrize("observed", [False, True])
def test_user_containers_never_see_the_token_of_the_sidecar(fields: dict[str, Any], observed: bool) -> None:
    body = (
        grouped(quantum(), group="", observe="true", **fields)
        if observed
        else grouped(quantum(), mode="shared", index="0", **fields)
    )
    spec = admitted(body)["spec"]
    held = {one["name"] for one in spec["volumes"] if "fluence-sidecar" in str(one)}
    assert held == {"fluence-token"}
    mounting = {
        one["name"]
        for one in [*spec["initContainers"], *spec["containers"]]
        for mount in one.get("volumeMounts") or ()
        if mount["name"] in held
    }
    assert mounting == {"fluence-sidecar"}


@pytest.mark.parametrize("account", [None, "", "default", "mine"])
def test_pod_keeps_its_account_so_its_containers_get_no_rights_of_the_sidecar(account: str | None) -> None:
    body = shared(index="0")
    del body["spec"]["serviceAccountName"]
    if account is not None:
        body["spec"]["serviceAccountName"] = account
    assert admitted(body)["spec"].get("serviceAccountName") == account


def test_consumers_gate_is_added_to_existing_gates() -> None:
    body = grouped(quantum(), mode="shared", index="1", schedulingGates=[{"name": "example.com/quota"}])
    assert gates(admitted(body)) == ["example.com/quota", "quantum.braket/ready"]


def test_consumer_keeps_the_priority_class_that_its_user_names() -> None:
    after = admitted(grouped(quantum(), mode="shared", index="1", priorityClassName="mine"))
    assert (after["spec"]["priorityClassName"], after["spec"]["priority"]) == ("mine", 0)


def test_priority_class_replaces_the_consumers_priority() -> None:
    spec = admitted(shared(index="1"))["spec"]
    assert spec["priorityClassName"] == "fluence-quantum-classical"
    assert not {"priority", "preemptionPolicy"} & spec.keys()


def test_missing_priority_class_gets_a_warning_and_is_not_named() -> None:
    """The API server refuses a pod of a class that isn't there."""
    outcome = mutate(shared(index="1"), REQUEST, ALL, replace(CONTEXT, priority_class=False))
    assert "priorityClassName" not in applied(shared(index="1"), outcome)["spec"]
    assert "there is no PriorityClass fluence-quantum-classical" in outcome.warnings[0]


def test_consumer_has_neither_interceptor_nor_sidecar() -> None:
    after = admitted(shared(index="1"))
    assert init_names(after) == []
    assert "volumes" not in after["spec"]
    assert not {"PYTHONPATH", "FLUENCE_POD_UID"} & env(after).keys()


def test_producer_has_no_variable_for_a_task() -> None:
    assert "FLUENCE_QUANTUM_JOB_ID" not in env(admitted(shared(index="0")))


def test_grouped_independent_quantum_pods_are_a_gang() -> None:
    for index in ("0", "1", None):
        after = admitted(grouped(quantum(), index=index, size="3"))
        assert after["spec"]["schedulingGroup"] == {"podGroupName": "g"}
        assert gates(after) == []
        assert "FLUENCE_COORDINATION_ROLE" not in env(after)


def test_classical_pods_of_a_shared_group_wait_for_its_producer() -> None:
    after = admitted(grouped(container(asks={"cpu": "1"}), mode="shared", index="0"))
    assert gates(after) == ["quantum.braket/ready"]
    assert env(after)["FLUENCE_COORDINATION_ROLE"] == "consumer"


@pytest.mark.parametrize("role", ["producer", "consumer"])
def test_user_may_choose_the_producer(role: str) -> None:
    body = shared()
    body["metadata"]["annotations"][ROLE] = role
    assert env(admitted(body))["FLUENCE_COORDINATION_ROLE"] == role


@pytest.mark.parametrize(
    ("labels", "notes", "role"),
    [
        ({"apps.kubernetes.io/pod-index": "0"}, {}, "producer"),
        ({"apps.kubernetes.io/pod-index": "1"}, {}, "consumer"),
        (
            {"jobset.sigs.k8s.io/job-global-index": "0"},
            {"batch.kubernetes.io/job-completion-index": "0"},
            "producer",
        ),
        (
            {"jobset.sigs.k8s.io/job-global-index": "1"},
            {"batch.kubernetes.io/job-completion-index": "0"},
            "consumer",
        ),
        ({"leaderworkerset.sigs.k8s.io/worker-index": "0"}, {}, "producer"),
        ({"leaderworkerset.sigs.k8s.io/worker-index": "2"}, {}, "consumer"),
    ],
)
def test_first_pod_of_an_indexed_owner_produces(
    labels: dict[str, str], notes: dict[str, str], role: str
) -> None:
    body = shared()
    body["metadata"]["labels"] |= labels
    body["metadata"]["annotations"] |= notes
    assert env(admitted(body))["FLUENCE_COORDINATION_ROLE"] == role


@pytest.mark.parametrize(("leads", "role"), [(True, "producer"), (False, "consumer")])
def test_of_equal_pods_the_recorded_one_is_the_producer(leads: bool, role: str) -> None:
    found = env(admitted(shared(), request=replace(REQUEST, produces=leads)))
    assert found["FLUENCE_COORDINATION_ROLE"] == role


def test_pod_of_an_unknown_producer_is_the_producer_with_a_warning() -> None:
    outcome = mutate(shared(), REQUEST, ALL, CONTEXT)
    assert env(applied(shared(), outcome))["FLUENCE_COORDINATION_ROLE"] == "producer"
    assert "the producer of shared group 'g' couldn't be looked up" in outcome.warnings[0]
    assert mutate(shared(), replace(REQUEST, dry_run=True), ALL, CONTEXT).warnings == ()


def test_producer_created_again_from_its_stored_manifest_stays_the_same() -> None:
    once = admitted(shared(index="0"))
    assert admitted(once) == once
    assert once["metadata"]["labels"]["fluence.flux-framework.org/group"] == "g-producer"


def test_our_containers_meet_the_restricted_pod_security_standard_and_write_to_no_image() -> None:
    for one in admitted(shared(index="0"))["spec"]["initContainers"]:
        assert one["resources"]["requests"].keys() == {"cpu", "memory"}
        security = one["securityContext"]
        assert security["readOnlyRootFilesystem"]
        assert security["runAsNonRoot"]
        assert not security["allowPrivilegeEscalation"]
        assert security["capabilities"] == {"drop": ["ALL"]}
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}


def test_image_is_the_configured_one() -> None:
    context = replace(CONTEXT, sidecar_image="registry.example/fluence:3")
    for one in admitted(shared(index="0"), context)["spec"]["initContainers"]:
        assert (one["image"], one["imagePullPolicy"]) == ("registry.example/fluence:3", "IfNotPresent")


# Which handlers work.


def test_without_its_handler_a_qpu_pod_has_no_init_container() -> None:
    body = shared(index="0")
    after = admitted(body, handlers=("fluxion", "gang"))
    assert init_names(after) == []
    assert after["spec"]["schedulingGroup"] == {"podGroupName": "g"}


def test_without_handlers_nothing_is_done() -> None:
    assert admitted(shared(index="0"), handlers=()) == shared(index="0")


def test_order_of_handlers_changes_only_the_order_of_variables() -> None:
    for index in ("0", "1"):
        one = admitted(shared(index=index), handlers=ALL)
        other = admitted(shared(index=index), handlers=ALL[::-1])
        assert env(one) == env(other)
        for body in (one, other):
            del body["spec"]["containers"][0]["env"]
        assert one == other


@pytest.mark.parametrize("kind", GroupKind)
def test_pods_of_other_schedulers_stay_byte_for_byte(kind: GroupKind) -> None:
    for scheduler in ("default-scheduler", "", "Fluence"):
        body = grouped(quantum(), mode="shared", index="0", scheduler=scheduler, size="no number")
        outcome = mutate(body, REQUEST, ALL, replace(CONTEXT, groups=kind))
        assert (outcome.patch, outcome.warnings) == ((), ())


def test_only_creations_are_patched() -> None:
    assert mutate(shared(index="0"), replace(REQUEST, operation="UPDATE"), ALL, CONTEXT).patch == ()
