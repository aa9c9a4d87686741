"""Pods that can't be patched are admitted as they are, and a warning says what to correct."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fluence_extender.model.pod_keys import UNSIZED
from fluence_extender.webhook.contract import GroupKind
from fluence_extender.webhook.mutate import mutate
from tests.unit.webhook.pods import (
    ALL,
    CONTEXT,
    QPU,
    QUBIT,
    REQUEST,
    admitted,
    applied,
    container,
    env,
    grouped,
    pod,
    warned,
)

GROUP = "fluence.flux-framework.org/group"


@pytest.mark.parametrize("size", ["three", "0", "-1", "2.5", "", "1e3", "\uff19", "9999999999"])
def test_size_that_is_no_number(size: str) -> None:
    (warning,) = warned(grouped(size=size))
    assert "annotation fluence.flux-framework.org/group-size is" in warning
    assert "write a whole number from 1 to 1000000" in warning


@pytest.mark.parametrize(
    ("labels", "notes", "spec"),
    [
        ({"scheduling.x-k8s.io/pod-group": "other"}, {}, {}),
        ({"pod-group.scheduling.sigs.k8s.io/name": "other"}, {}, {}),
        ({"kueue.x-k8s.io/pod-group-name": "other"}, {}, {}),
        ({}, {"kueue.x-k8s.io/pod-group-name": "other"}, {}),
        ({}, {}, {"schedulingGroup": {"podGroupName": "other"}}),
    ],
)
def test_labels_that_name_two_groups(
    labels: dict[str, str], notes: dict[str, str], spec: dict[str, Any]
) -> None:
    (warning,) = warned(pod(labels={GROUP: "g", **labels}, annotations=notes, **spec))
    assert f"label {GROUP} names group 'g'" in warning
    assert "names 'other': remove one of them" in warning


def test_labels_that_both_name_one_group_are_no_conflict() -> None:
    after = admitted(pod(labels={GROUP: "g", "scheduling.x-k8s.io/pod-group": "g"}))
    assert after["spec"]["schedulingGroup"] == {"podGroupName": "g"}


def test_unknown_role() -> None:
    (warning,) = warned(
        pod(labels={GROUP: "g"}, annotations={"fluence.flux-framework.org/coordination-role": "boss"})
    )
    assert "write 'producer' or 'consumer'" in warning


def test_shared_group_whose_producer_group_has_no_valid_name() -> None:
    (warning,) = warned(grouped(container(asks={QPU: "1"}), group="g" * 55, mode="shared", index="0"))
    assert "at most 54 characters" in warning
    assert admitted(grouped(container(asks={QPU: "1"}), group="g" * 54, mode="shared", index="0"))


def test_unknown_mode_is_warned_of_and_gets_no_roles() -> None:
    body = grouped(container(asks={QPU: "1"}), mode="Shared", index="1")
    outcome = mutate(body, REQUEST, ALL, CONTEXT)
    assert (
        "isn't a mode: write 'shared' or 'independent'; until then the pod isn't placed"
        in outcome.warnings[-1]
    )
    assert "schedulingGates" not in applied(body, outcome)["spec"]


def test_shared_pod_without_a_group_gets_a_warning() -> None:
    outcome = mutate(grouped(container(asks={QPU: "1"}), group="", mode="shared"), REQUEST, ALL, CONTEXT)
    assert "add the label fluence.flux-framework.org/group" in outcome.warnings[0]
    assert outcome.patch


def test_observe_that_is_neither_true_nor_false_gets_a_warning() -> None:
    body = grouped(container(asks={QPU: "1"}), observe="yes")
    outcome = mutate(body, REQUEST, ALL, CONTEXT)
    assert 'write "true" to observe' in outcome.warnings[0]


@pytest.mark.parametrize("kind", [GroupKind.NATIVE, GroupKind.COSCHEDULING])
def test_group_without_a_valid_podgroup_name_is_a_gang_by_its_label(kind: GroupKind) -> None:
    body = grouped(group="My_Group", size="2")
    outcome = mutate(body, REQUEST, ALL, replace(CONTEXT, groups=kind))
    assert outcome.patch == ()
    assert "so the gang has its label only: use lower case letters" in outcome.warnings[-1]


def test_consumer_with_a_node_can_not_wait() -> None:
    (warning,) = warned(grouped(container(asks={QPU: "1"}), mode="shared", index="1", nodeName="n1"))
    assert "remove spec.nodeName" in warning


def test_pod_for_windows_can_not_have_our_containers() -> None:
    (warning,) = warned(grouped(container(asks={QPU: "1"}), os={"name": "windows"}))
    assert "quantum pods run on Linux" in warning
    assert admitted(grouped(os={"name": "windows"}, size="2"))["spec"]["schedulingGroup"]
    assert admitted(grouped(container(asks={QPU: "1"}), os={"name": "linux"}))["spec"]["initContainers"]


def test_users_mount_at_the_interceptors_path_is_kept() -> None:
    mount = {"name": "mine", "mountPath": "/opt/fluence-staged"}
    body = grouped(
        container(asks={QPU: "1"}, volumeMounts=[mount]), volumes=[{"name": "mine", "emptyDir": {}}]
    )
    outcome = mutate(body, REQUEST, ALL, CONTEXT)
    assert applied(body, outcome)["spec"]["containers"][0]["volumeMounts"] == [mount]
    assert "mount that volume elsewhere" in outcome.warnings[-1]


@pytest.mark.parametrize(
    "value", [{"value": "mine"}, {"valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
)
def test_pod_uid_variable_of_the_user_is_kept_with_a_warning(value: dict[str, Any]) -> None:
    own = {"name": "FLUENCE_POD_UID", **value}
    body = grouped(container(asks={QPU: "1"}, env=[own]))
    outcome = mutate(body, REQUEST, ALL, CONTEXT)
    assert own in applied(body, outcome)["spec"]["containers"][0]["env"]
    assert outcome.warnings[-1].startswith("container app sets FLUENCE_POD_UID itself")
    same = {"name": "FLUENCE_POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}
    assert UNSIZED in mutate(grouped(container(asks={QPU: "1"}, env=[same])), REQUEST, ALL, CONTEXT).warnings


def test_settings_for_quantum_jobs_get_a_warning_on_other_pods() -> None:
    body = grouped(container(asks={QPU: "1"}))
    body["metadata"]["annotations"] = {"fluence.flux-framework.org/coordination-role": "producer"}
    warning, _ = mutate(body, REQUEST, ALL, CONTEXT).warnings
    assert "add the annotation fluence.flux-framework.org/coordination=shared" in warning
    (warning,) = mutate(grouped(observe="true", size="2"), REQUEST, ALL, CONTEXT).warnings
    assert "has no effect, because the pod requests no fluxion.flux-framework.org/qpu" in warning
    assert mutate(grouped(observe="true", mode="shared"), REQUEST, ALL, CONTEXT).warnings == ()


def test_users_container_with_our_name_is_not_duplicated() -> None:
    for field in ("containers", "initContainers"):
        for name in ("fluence-stage", "fluence-sidecar"):
            body = grouped(container(asks={QPU: "1"}), observe="true")
            body["spec"][field] = [*body["spec"].get(field, ()), container(name)]
            (warning,) = warned(body)
            assert f"container '{name}' exists twice: admission adds one of that name" in warning


@pytest.mark.parametrize("name", ["fluence-pkg", "fluence-token"])
def test_users_volume_with_our_name_is_not_written_to(name: str) -> None:
    claim = {"name": name, "persistentVolumeClaim": {"claimName": "mine"}}
    (warning,) = warned(grouped(container(asks={QPU: "1"}), observe="true", volumes=[claim]))
    assert f"volume '{name}' exists twice" in warning


def test_annotations_that_leave_no_room_for_ours() -> None:
    body = grouped(container(asks={QPU: "1"}), mode="shared", index="1")
    body["metadata"]["annotations"]["example.com/notes"] = "x" * (256 * 1024 - 200)
    (warning,) = warned(body)
    assert "annotations take more than 262144 bytes" in warning


def test_users_container_with_our_name_is_an_ordinary_container() -> None:
    body = grouped(container("fluence-stage", asks={QUBIT: "1"}))
    assert env(admitted(body), "fluence-stage")["FLUXION_BACKEND"]


def test_users_mount_of_another_volume() -> None:
    """Wrong before and after: that isn't our patch's fault, and the API server says it."""
    body = grouped(container(asks={QPU: "1"}, volumeMounts=[{"name": "none", "mountPath": "/x"}]))
    assert mutate(body, REQUEST, ALL, CONTEXT).patch


@pytest.mark.parametrize(
    "broken",
    [
        {"metadata": None},
        {"metadata": {"labels": []}},
        {"metadata": {"labels": {GROUP: 5}}},
        {"metadata": {"annotations": "x"}},
        {"metadata": {"annotations": {"a": None}}},
        {"metadata": {"ownerReferences": {}}},
        {"spec": {"schedulerName": "fluence"}},
        {"spec": {"schedulerName": "fluence", "containers": []}},
        {"spec": {"schedulerName": "fluence", "containers": "x"}},
        {"spec": {"schedulerName": "fluence", "containers": [5]}},
        {"spec": {"schedulerName": "fluence", "containers": [{"name": "a", "env": {}}]}},
        {"spec": {"schedulerName": "fluence", "containers": [{"name": "a", "env": ["A=b"]}]}},
        {"spec": {"schedulerName": "fluence", "containers": [{"env": [{"name": "PYTHONPATH", "value": 5}]}]}},
        {"spec": {"schedulerName": "fluence", "containers": [{"resources": []}]}},
        {"spec": {"schedulerName": "fluence", "containers": [{"resources": {"limits": "x"}}]}},
        {"spec": {"schedulerName": "fluence", "containers": [{"resources": {"requests": {"cpu": "x"}}}]}},
        {"spec": {"schedulerName": "fluence", "containers": [{}], "schedulingGates": "x"}},
        {"spec": {"schedulerName": "fluence", "containers": [{}], "schedulingGroup": "x"}},
        {"spec": {"schedulerName": "fluence", "containers": [{}], "initContainers": [None]}},
        {"spec": {"schedulerName": "fluence", "containers": [{}], "volumes": {"a": 1}}},
        {"spec": {"schedulerName": "fluence", "containers": [{"env": [{"name": []}]}]}},
        {"spec": {"schedulerName": "fluence", "containers": [{"name": {}}]}},
        {"spec": {"schedulerName": "fluence", "containers": [{}], "schedulingGroup": {"podGroupName": 5}}},
    ],
)
def test_objects_that_are_no_pods(broken: dict[str, Any]) -> None:
    (warning,) = warned({**grouped(container(asks={QPU: "1"}), mode="shared"), **broken})
    assert warning.startswith("fluence left the pod as it is: ")


@pytest.mark.parametrize("broken", [{}, {"spec": None}, {"spec": []}, {"spec": {"schedulerName": 5}}])
def test_pod_without_a_scheduler_is_not_ours(broken: dict[str, Any]) -> None:
    assert mutate(broken, REQUEST, ALL, CONTEXT).warnings == ()


def test_null_fields_count_as_missing() -> None:
    body = grouped(container(asks={QPU: "1"}, env=None, volumeMounts=None), mode="shared", index="0")
    body["spec"] |= {
        "initContainers": None,
        "volumes": None,
        "schedulingGates": None,
        "schedulingGroup": None,
    }
    body["metadata"]["ownerReferences"] = None
    assert admitted(body)["spec"]["schedulingGroup"] == {"podGroupName": "g-producer"}


@pytest.mark.parametrize(
    ("labels", "notes", "advice"),
    [
        ({}, {"groupsize": "3"}, "did you mean the annotation fluence.flux-framework.org/group-size?"),
        ({}, {"group": "g"}, "write it under metadata.labels"),
        ({"group-size": "3"}, {}, "write it under metadata.annotations"),
        ({}, {"duration": "soon"}, "it must be a time of more than 0"),
        ({}, {"schedule-timeout": "never"}, "it must be a time of more than 0"),
    ],
)
def test_keys_without_effect_get_a_warning_and_the_pod_its_patch(
    labels: dict[str, str], notes: dict[str, str], advice: str
) -> None:
    domain = GROUP.removesuffix("group")
    body = pod(
        labels={GROUP: "g", **{domain + key: text for key, text in labels.items()}},
        annotations={domain + key: text for key, text in notes.items()},
    )
    outcome = mutate(body, REQUEST, ALL, CONTEXT)
    (warning,) = [one for one in outcome.warnings if one != UNSIZED]
    assert advice in warning
    assert applied(body, outcome)["spec"]["schedulingGroup"] == {"podGroupName": "g"}


def test_group_without_a_size_gets_a_warning_where_no_controller_states_it() -> None:
    assert mutate(pod(labels={GROUP: "g"}), REQUEST, ALL, CONTEXT).warnings == (UNSIZED,)
    for other in (
        pod(labels={GROUP: "g"}, annotations={"fluence.flux-framework.org/group-size": "1"}),
        pod(labels={GROUP: "g"}, owner=("Job", "train")),
        grouped(container(asks={QPU: "1"}), mode="shared", index="0"),
    ):
        assert UNSIZED not in mutate(other, REQUEST, ALL, CONTEXT).warnings


def test_size_without_a_group_gets_a_warning() -> None:
    notes = {"fluence.flux-framework.org/group-size": "3"}
    (warning,) = warned(pod(annotations=notes))
    assert "names no group: add the label fluence.flux-framework.org/group" in warning
    for other in (
        pod(annotations=notes, owner=("ReplicaSet", "web")),
        pod(annotations=notes, labels={"scheduling.x-k8s.io/pod-group": "g"}),
        pod(annotations=notes, schedulingGroup={"podGroupName": "g"}),
        pod(annotations={"fluence.flux-framework.org/group-size": "1"}),
    ):
        assert warned(other) == ()
