"""Pods, nodes and the ConfigMap of resources.yaml are decoded into the model's values."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fluence_extender.cluster.decode.node import decode_node, decode_resources_file
from fluence_extender.cluster.decode.pod import decode_pod
from fluence_extender.cluster.port import ResourcesFile
from fluence_extender.model.names import KEEPING, KEPT_ANNOTATION
from fluence_extender.model.pod import HostPort, NodeTerm, Owner, PodTerm, Requirement
from fluence_extender.model.resources import NOTHING, Resources
from fluence_extender.model.taints import Taint, Toleration
from fluence_extender.room.holdings import ports_clash

DISABLED, DO_NOT_DISRUPT = KEEPING
META = {"name": "p", "namespace": "ns", "uid": "u1", "resourceVersion": "7"}


def raw(body: dict[str, Any]) -> bytes:
    return json.dumps(body).encode()


def pod_body(spec: dict[str, Any], status: dict[str, Any] | None = None, **meta: Any) -> bytes:
    return raw({"metadata": META | meta, "spec": spec, "status": status or {}})


def test_pod_is_read_in_full() -> None:
    required = {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]},
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]},
        ]
    }
    pod = decode_pod(
        pod_body(
            {
                "schedulerName": "fluence",
                "nodeName": "n1",
                "priority": 5,
                "schedulingGates": [{"name": "a"}, {"name": "b"}],
                "schedulingGroup": {"podGroupName": "g"},
                "tolerations": [
                    {"key": "k", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 3}
                ],
                "nodeSelector": {"disk": "ssd"},
                "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
                "containers": [
                    {
                        "name": "c",
                        "image": "i",
                        "ports": [
                            {"containerPort": 80, "hostPort": 8080, "protocol": "UDP"},
                            {"containerPort": 81},
                        ],
                        "resources": {"requests": {"cpu": "1500m", "fluxion.flux-framework.org/qpu": "1"}},
                    }
                ],
                "initContainers": [
                    {
                        "name": "side",
                        "restartPolicy": "Always",
                        "ports": [{"hostPort": 9, "hostIP": "10.0.0.1"}],
                    },
                    {"name": "once", "ports": [{"hostPort": 10}]},
                ],
            },
            {"phase": "Running", "nominatedNodeName": "n2"},
            labels={"l": "v"},
            annotations={"a": "w"},
            creationTimestamp="1970-01-01T00:01:00Z",
            deletionTimestamp="1970-01-01T00:02:00Z",
            ownerReferences=[
                {"kind": "Thing", "name": "t", "uid": "tu"},
                {"kind": "Job", "name": "j", "uid": "ju", "controller": True},
            ],
        )
    )
    assert (pod.key, pod.uid, pod.resource_version) == ("ns/p", "u1", "7")
    assert (pod.labels, pod.annotations) == ({"l": "v"}, {"a": "w"})
    assert pod.ours
    assert (pod.node, pod.nominated, pod.phase, pod.deleting) == ("n1", "n2", "Running", True)
    assert (pod.gates, pod.group, pod.owner) == (("a", "b"), "g", Owner("Job", "j", "ju"))
    assert pod.requests == Resources({"cpu": 1500, "pods": 1})
    assert pod.devices == {"qpu": 1}
    assert pod.tolerations == (Toleration("k", "Exists", "", "NoSchedule"),)
    assert pod.node_selector == {"disk": "ssd"}
    assert pod.affinity == (
        NodeTerm((Requirement("zone", "In", ("a", "b")),), ()),
        NodeTerm((), (Requirement("metadata.name", "In", ("n1",)),)),
    )
    assert pod.host_ports == (HostPort(8080, "UDP", "0.0.0.0"), HostPort(9, "TCP", "10.0.0.1"))
    assert (pod.priority, pod.created, pod.problem) == (5, 60.0, "")


def test_pod_without_a_scheduler_name_belongs_to_the_default_scheduler() -> None:
    pod = decode_pod(raw({"metadata": META, "spec": {"containers": None, "tolerations": None}}))
    assert not pod.ours
    assert pod.scheduler == "default-scheduler"
    assert pod.phase == "Pending"
    assert pod.affinity is None
    assert pod.requests == Resources({"pods": 1})


OS = "kubernetes.io/os"


@pytest.mark.parametrize(
    ("spec", "selector"),
    [
        ({"os": {"name": "windows"}}, {OS: "windows"}),
        ({"os": {"name": "linux"}, "nodeSelector": {"disk": "ssd"}}, {"disk": "ssd", OS: "linux"}),
        ({"os": {"name": "linux"}, "nodeSelector": {OS: "linux"}}, {OS: "linux"}),
        ({"os": None, "nodeSelector": {OS: "linux"}}, {OS: "linux"}),
        ({"os": {}}, {}),
    ],
)
def test_operating_system_of_a_pod_is_a_label_of_its_node(
    spec: dict[str, Any], selector: dict[str, str]
) -> None:
    pod = decode_pod(pod_body(spec))
    assert pod.node_selector == selector
    assert not pod.problem


def test_operating_system_that_the_node_selector_rules_out_is_a_problem() -> None:
    pod = decode_pod(pod_body({"os": {"name": "windows"}, "nodeSelector": {OS: "linux"}}))
    assert pod.problem == (
        "its spec.os.name is windows, but its nodeSelector asks for kubernetes.io/os=linux: remove one of them"
    )


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize(
    ("term", "sought"),
    [
        ({"labelSelector": {"matchLabels": {"app": "x"}}}, ((Requirement("app", "In", ("x",)),),)),
        (
            {"labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}},
            ((Requirement("app", "Exists"),),),
        ),
        ({"labelSelector": {}}, ((),)),
        ({"labelSelector": None}, ()),
        ({"labelSelector": {}, "namespaces": ["other"]}, ()),
        ({"labelSelector": {}, "namespaces": ["ns"]}, ((),)),
        ({"labelSelector": {}, "namespaces": ["other"], "namespaceSelector": {}}, ((),)),
    ],
)
def test_required_pod_affinity_is_read_as_selectors(term: dict[str, Any], sought: tuple[Any, ...]) -> None:
    term = {"topologyKey": "host", **term}
    assert decode_pod(pod_body({"affinity": {"podAffinity": {REQUIRED: [term]}}})).pod_affinity == sought
    assert decode_pod(pod_body({"affinity": {"podAntiAffinity": {REQUIRED: [term]}}})).pod_affinity == ()


@pytest.mark.parametrize(
    ("term", "read"),
    [
        ({}, ()),
        ({"labelSelector": {}}, (PodTerm("host", (), ("ns",)),)),
        ({"labelSelector": {}, "namespaces": []}, (PodTerm("host", (), ("ns",)),)),
        ({"labelSelector": {}, "namespaces": ["b", "a"]}, (PodTerm("host", (), ("b", "a")),)),
        ({"labelSelector": {}, "namespaceSelector": {}}, (PodTerm("host", (), (), ()),)),
        (
            {
                "labelSelector": {
                    "matchLabels": {"app": "a"},
                    "matchExpressions": [{"key": "version", "operator": "NotIn", "values": ["1"]}],
                },
                "namespaceSelector": {"matchLabels": {"team": "red"}},
                "namespaces": ["other"],
                "matchLabelKeys": ["app"],
                "mismatchLabelKeys": ["version"],
            },
            (
                PodTerm(
                    "host",
                    (Requirement("app", "In", ("a",)), Requirement("version", "NotIn", ("1",))),
                    ("other",),
                    (Requirement("team", "In", ("red",)),),
                ),
            ),
        ),
    ],
)
def test_required_anti_affinity_is_read(term: dict[str, Any], read: tuple[PodTerm, ...]) -> None:
    term = {"topologyKey": "host", **term}
    assert decode_pod(pod_body({"affinity": {"podAntiAffinity": {REQUIRED: [term]}}})).apart == read
    assert decode_pod(pod_body({"affinity": {"podAffinity": {REQUIRED: [term]}}})).apart == ()


@pytest.mark.parametrize(
    ("spec", "features"),
    [
        ({}, ()),
        (
            {"containers": [{"name": "a", "restartPolicyRules": [{"action": "RestartAllContainers"}]}]},
            ("RestartAllContainersOnContainerExits",),
        ),
        (
            {"initContainers": [{"name": "a", "restartPolicyRules": [{"action": "RestartAllContainers"}]}]},
            ("RestartAllContainersOnContainerExits",),
        ),
        ({"containers": [{"name": "a", "restartPolicyRules": [{"action": "Restart"}]}]}, ()),
        ({"hostNetwork": True, "hostUsers": False}, ("UserNamespacesHostNetworkSupport",)),
        ({"hostNetwork": True, "hostUsers": True}, ()),
        ({"hostNetwork": True}, ()),
        ({"hostUsers": False}, ()),
    ],
)
def test_features_that_a_node_must_declare_follow_from_the_pod(
    spec: dict[str, Any], features: tuple[str, ...]
) -> None:
    assert decode_pod(pod_body(spec)).features == features


@pytest.mark.parametrize(
    ("spec", "interdependent"),
    [
        ({}, False),
        ({"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": "host"}]}}}, False),
        ({"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": "host"}]}}}, False),
        ({"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{}]}}}, False),
        ({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}}}, False),
        ({"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]}, False),
        ({"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}]}, False),
        ({"volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "projected": {}}]}, False),
        ({"volumes": [{"name": "a", "persistentVolumeClaim": {"claimName": "c"}}]}, True),
        ({"volumes": [{"name": "a", "ephemeral": {}}]}, True),
        ({"volumes": [{"name": "a", "csi": {"driver": "d"}}]}, True),
        ({"volumes": [{"name": "a", "iscsi": {}}]}, True),
        ({"resourceClaims": [{"name": "gpu"}]}, True),
    ],
)
def test_pod_is_interdependent_if_filters_read_volumes_or_claims(
    spec: dict[str, Any], interdependent: bool
) -> None:
    raw = {"metadata": {"name": "p"}, "spec": {"containers": [], **spec}}
    assert decode_pod(json.dumps(raw).encode()).interdependent is interdependent


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": [{"name": "c", "resources": {"requests": {"cpu": "lots"}}}]},
        {"containers": [{"name": "c", "resources": {"requests": {"cpu": None}}}]},
        {"containers": [{"name": "c", "resources": "none"}]},
        {"containers": "none"},
        {"containers": [], "overhead": {"memory": "1Q"}},
    ],
)
def test_pod_whose_requests_cannot_be_read_keeps_its_identity(spec: dict[str, Any]) -> None:
    pod = decode_pod(pod_body(spec))
    assert pod.problem
    assert (pod.key, pod.uid, pod.resource_version) == ("ns/p", "u1", "7")
    assert pod.requests == Resources({"pods": 1})
    assert pod.devices == {}


def test_unreadable_bound_pod_still_holds_its_node() -> None:
    pod = decode_pod(
        pod_body(
            {"schedulerName": "fluence", "nodeName": "n1", "containers": "none"},
            {"phase": "Running", "nominatedNodeName": 5},
        )
    )
    assert pod.problem
    assert (pod.node, pod.phase, pod.ours) == ("n1", "Running", True)


def test_pod_with_a_hundred_containers_sums_them() -> None:
    containers = [{"name": f"c{n}", "resources": {"requests": {"cpu": "1m"}}} for n in range(100)]
    assert decode_pod(pod_body({"containers": containers})).requests["cpu"] == 100


def test_resize_under_way_counts_the_larger_amount() -> None:
    status = {"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]}
    pod = decode_pod(
        pod_body({"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}, status)
    )
    assert pod.requests["cpu"] == 3000


def node_body(status: dict[str, Any], spec: dict[str, Any] | None = None, **meta: Any) -> bytes:
    return raw({"metadata": {"name": "n1", "uid": "nu", **meta}, "spec": spec or {}, "status": status})


def test_node_is_read_in_full() -> None:
    node = decode_node(
        node_body(
            {
                "allocatable": {"cpu": "3920m", "memory": "1Gi", "pods": "110", "nvidia.com/gpu": "4"},
                "conditions": [
                    {"type": "MemoryPressure", "status": "False"},
                    {"type": "Ready", "status": "True"},
                ],
            },
            {"unschedulable": True, "taints": [{"key": "k", "effect": "NoSchedule", "timeAdded": None}]},
            labels={f"l{n}": "v" for n in range(10_000)},
        )
    )
    assert (node.name, node.uid, node.unschedulable, node.ready) == ("n1", "nu", True, True)
    assert node.allocatable == Resources({"cpu": 3920, "memory": 2**30, "pods": 110, "nvidia.com/gpu": 4})
    assert node.taints == (Taint("k", "NoSchedule", ""),)
    assert len(node.labels) == 10_000


@pytest.mark.parametrize(
    "conditions",
    [None, [], [{"type": "Ready", "status": "Unknown"}], [{"type": "Ready", "status": "False"}], [{}]],
)
def test_node_without_a_true_ready_condition_is_not_ready(conditions: Any) -> None:
    assert not decode_node(node_body({"conditions": conditions})).ready


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
    found = decode_node(raw({"metadata": {"name": "n", "annotations": annotations}}))
    assert (found.guards, found.kept) == (guards, kept)


@pytest.mark.parametrize("allocatable", [None, {}, {"cpu": "lots"}, {"cpu": None}, {"cpu": [1]}])
def test_node_with_unreadable_allocatable_has_nothing_to_allocate(allocatable: Any) -> None:
    assert decode_node(node_body({"allocatable": allocatable})).allocatable == NOTHING


def test_negative_allocatable_counts_as_zero() -> None:
    node = decode_node(node_body({"allocatable": {"cpu": "-1", "memory": "1Ki"}}))
    assert node.allocatable == Resources({"memory": 1024})


def test_node_without_spec_and_status_is_read() -> None:
    node = decode_node(raw({"metadata": {"name": "n1"}}))
    assert (node.allocatable, node.ready, node.unschedulable) == (NOTHING, False, False)


def test_resources_file_is_the_text_of_its_key() -> None:
    meta = {"name": "fluence-resources", "namespace": "ns"}
    source = "ConfigMap ns/fluence-resources"
    body = {"metadata": meta, "data": {"resources.yaml": "types: {}", "other": "x"}}
    assert decode_resources_file(raw(body)) == ResourcesFile(source, "types: {}")
    missing = decode_resources_file(raw({"metadata": meta, "data": {"resource.yaml": "x"}}))
    assert missing.text is None
    assert "no key resources.yaml" in missing.source


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        (
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no PVC"},
            "no PVC",
        ),
        ({"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": "gates"}, ""),
        ({"type": "PodScheduled", "status": "True"}, ""),
        ({"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}, ""),
    ],
)
def test_refusal_is_the_last_message_of_kube_scheduler(condition: dict[str, str], message: str) -> None:
    assert decode_pod(pod_body({}, {"conditions": [condition]})).refusal == message


@pytest.mark.parametrize(
    ("reason", "refusal", "failure"),
    [("SchedulerError", "", "no"), ("Unschedulable", "no", ""), ("SchedulingGated", "", "")],
)
def test_failure_is_the_message_of_a_failed_scheduling_attempt(
    reason: str, refusal: str, failure: str
) -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": "no"}
    decoded = decode_pod(pod_body({}, {"conditions": [condition]}))
    assert (decoded.refusal, decoded.failure) == (refusal, failure)


@pytest.mark.parametrize(
    ("conditions", "ready"),
    [
        ([{"type": "Initialized", "status": "True"}, {"type": "Ready", "status": "True"}], True),
        ([{"type": "Ready", "status": "False"}, {"type": "ContainersReady", "status": "True"}], False),
        ([], False),
        (None, False),
    ],
)
def test_pod_is_ready_by_its_condition(conditions: list[dict[str, str]] | None, ready: bool) -> None:
    status = {"phase": "Running", "conditions": conditions}
    assert decode_pod(pod_body({"containers": []}, status)).ready is ready


@pytest.mark.parametrize(
    ("phase", "reason", "message", "rejection"),
    [
        ("Failed", "OutOfcpu", "Pod was rejected: Not enough", "OutOfcpu: Not enough"),
        ("Failed", "OutOfcpu", None, "OutOfcpu: no message"),
        ("Failed", "NodeAffinity", "Pod was rejected: Predicate failed", "NodeAffinity: Predicate failed"),
        ("Failed", "UnexpectedAdmissionError", "Pod Allocate", "UnexpectedAdmissionError: Pod Allocate"),
        ("Failed", None, "Pod was rejected: by a plugin", "by a plugin"),
        ("Failed", "OutOfcpu", "x" * 1000, "OutOfcpu: " + "x" * 390),
        ("Failed", "Evicted", "The node was low on resource: memory.", ""),
        ("Failed", None, None, ""),
        ("Running", None, None, ""),
        ("Running", "OutOfcpu", "Pod was rejected: Not enough", ""),
    ],
)
def test_pod_that_its_kubelet_did_not_admit_is_rejected(
    phase: str, reason: str | None, message: str | None, rejection: str
) -> None:
    status = {"phase": phase, "reason": reason, "message": message}
    pod = decode_pod(pod_body({"containers": []}, status))
    assert (pod.rejection, pod.rejected) == (rejection, bool(rejection))


def apart(namespace: str = "default", app: str = "a", **term: object) -> tuple[HostPort, ...]:
    """What a pod can't share a node with, for a term of required anti-affinity."""
    rule = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "kubernetes.io/hostname", **term}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}}
    meta = {"namespace": namespace, "name": "p", "uid": "u", "labels": {"app": app}}
    return decode_pod(json.dumps({"metadata": meta, "spec": {"affinity": affinity}}).encode()).host_ports


def test_pods_of_one_rule_that_selects_them_share_no_node() -> None:
    expressions = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["a"]}]}
    assert ports_clash(apart(), apart())
    assert ports_clash(apart(), apart(labelSelector=expressions))
    assert ports_clash(apart(), apart(matchLabelKeys=["label-that-it-lacks"]))
    assert not ports_clash(apart(), apart(namespace="other"))
    assert not ports_clash(apart(), apart(labelSelector={}))
    assert not ports_clash(apart(), (HostPort(8080),))


@pytest.mark.parametrize(
    "term",
    [
        {"topologyKey": "topology.kubernetes.io/zone"},
        {"namespaces": ["other"]},
        {"namespaceSelector": {}},
        {"labelSelector": None},
        {"labelSelector": {"matchLabels": {"app": "b"}}},
    ],
)
def test_rules_that_keep_other_pods_away_are_left_to_kube_scheduler(term: dict[str, Any]) -> None:
    assert apart(**term) == ()
