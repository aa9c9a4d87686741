"""What `simulate` says that the API server refuses is what a real one refuses, and the other way round."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

from fluence_extender.apiserver.faults import object_fault
from fluence_extender.cluster.errors import ClusterError
from fluence_extender.embeddedcluster.cluster import EmbeddedCluster
from fluence_extender.embeddedcluster.session import EmbeddedSession
from fluence_extender.whatif.documents import as_json, read_manifests
from fluence_extender.whatif.manifests import _named
from tests.e2e.harness import Manifest, Namespace
from tests.localcluster import ApiError

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "tried", "labels": {"app": "tried"}, "annotations": {}},
    "spec": {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "none"}],
        "volumes": [{"name": "data", "emptyDir": {}}],
    },
}

CONTAINERS: dict[str, Any] = {
    "no name": {"name": None},
    "name in capitals": {"name": "Main"},
    "no image": {"image": None},
    "misspelt field": {"resorces": {}},
    "command as text": {"command": "sleep 1"},
    "number as variable": {"env": [{"name": "A", "value": 1}]},
    "unknown volume": {"volumeMounts": [{"name": "dat", "mountPath": "/data"}]},
    "volume": {"volumeMounts": [{"name": "data", "mountPath": "/data"}]},
    "mount without path": {"volumeMounts": [{"name": "data"}]},
    "mounts at one path": {"volumeMounts": [{"name": "data", "mountPath": "/a"}] * 2},
    "port": {"ports": [{"containerPort": 80}]},
    "port 0": {"ports": [{"containerPort": 0}]},
    "port 70000": {"ports": [{"containerPort": 70000}]},
    "host port twice": {
        "ports": [{"containerPort": 1, "hostPort": 80}, {"containerPort": 2, "hostPort": 80}]
    },
    "host port of two protocols": {
        "ports": [
            {"containerPort": 1, "hostPort": 80},
            {"containerPort": 1, "hostPort": 80, "protocol": "UDP"},
        ]
    },
    "unknown protocol": {"ports": [{"containerPort": 1, "protocol": "tcp"}]},
    "claim that the pod lacks": {"resources": {"claims": [{"name": "gpu"}]}},
}

RESOURCES: dict[str, Any] = {
    "cores as number": {"limits": {"cpu": 2}},
    "cores as text": {"limits": {"cpu": "two"}},
    "negative cores": {"requests": {"cpu": "-1"}},
    "tiny": {"requests": {"cpu": "1e-30"}},
    "huge": {"requests": {"cpu": "9223372036854775807"}},
    "more than its limit": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}},
    "device without limit": {"requests": {"example.com/npu": "1"}},
    "half a device": {"limits": {"example.com/npu": "500m"}},
    "device": {"limits": {"example.com/npu": "1"}},
    "other request of a device": {"requests": {"example.com/npu": "1"}, "limits": {"example.com/npu": "2"}},
    "device without domain": {"limits": {"npu": "1"}},
    "device of a bad domain": {"limits": {"Example.com/npu": "1"}},
    "huge pages alone": {"limits": {"hugepages-2Mi": "2Mi"}},
    "huge pages": {"limits": {"hugepages-2Mi": "2Mi", "cpu": "1"}},
    "huge pages overcommitted": {
        "requests": {"hugepages-2Mi": "2Mi", "cpu": "1"},
        "limits": {"hugepages-2Mi": "4Mi"},
    },
    "storage": {"limits": {"ephemeral-storage": "1Gi"}},
    "volume as resource": {"limits": {"storage": "1Gi"}},
    "list of amounts": {"limits": [{"cpu": "1"}]},
}

PODS: dict[str, Any] = {
    "no containers": {"containers": []},
    "two of one name": {"containers": [{"name": "a", "image": "x"}] * 2},
    "init container of one name": {"initContainers": [{"name": "main", "image": "x"}]},
    "two volumes of one name": {"volumes": [{"name": "data", "emptyDir": {}}] * 2},
    "unknown policy": {"restartPolicy": "Sometimes"},
    "policy in lower case": {"restartPolicy": "never"},
    "priority without a class": {"priority": 5},
    "priority of no class": {"priority": 0, "preemptionPolicy": "PreemptLowerPriority"},
    "policy of no class": {"preemptionPolicy": "Never"},
    "built-in class": {"priorityClassName": "system-node-critical"},
    "priority of a built-in class": {"priorityClassName": "system-node-critical", "priority": 2000001000},
    "other priority than that of its class": {"priorityClassName": "system-node-critical", "priority": 1},
    "missing class": {"priorityClassName": "none-such"},
    "unknown operating system": {"os": {"name": "Linux"}},
    "operating system without a name": {"os": {}},
    "deadline of 0": {"activeDeadlineSeconds": 0},
    "deadline": {"activeDeadlineSeconds": 60},
    "deadline as text": {"activeDeadlineSeconds": "1h"},
    "port of the host": {
        "hostNetwork": True,
        "containers": [{"name": "a", "image": "x", "ports": [{"containerPort": 80}]}],
    },
    "other port of the host": {
        "hostNetwork": True,
        "containers": [{"name": "a", "image": "x", "ports": [{"containerPort": 80, "hostPort": 81}]}],
    },
    "selector with a number": {"nodeSelector": {"a": 5}},
    "selector with blanks": {"nodeSelector": {"a": "b c"}},
    "selector with a bad key": {"nodeSelector": {"a/b/c": "d"}},
    "toleration of all": {"tolerations": [{"operator": "Exists"}]},
    "toleration without key": {"tolerations": [{"value": "x"}]},
    "toleration of Equals": {"tolerations": [{"key": "a", "operator": "Equals", "value": "b"}]},
    "toleration with a value too many": {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
    "toleration of an unknown effect": {
        "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExec"}]
    },
    "seconds without NoExecute": {
        "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 3}]
    },
    "limit of the pod": {"resources": {"limits": {"cpu": "1"}}},
    "limit of the pod below its containers' requests": {
        "resources": {"limits": {"cpu": "1"}},
        "containers": [{"name": "a", "image": "x", "resources": {"requests": {"cpu": "2"}}}],
    },
    "limit of the pod below a container's limit": {
        "resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "2"}},
        "containers": [
            {"name": "a", "image": "x", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "3"}}}
        ],
    },
    "request of the pod below its containers'": {
        "resources": {"requests": {"cpu": "1"}},
        "containers": [{"name": "a", "image": "x", "resources": {"requests": {"cpu": "2"}}}],
    },
    "device of the pod": {"resources": {"limits": {"example.com/npu": "1"}}},
    "spread": {
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
        ]
    },
    "spread without skew": {
        "topologySpreadConstraints": [
            {"maxSkew": 0, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
        ]
    },
    "spread of an unknown action": {
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "Never"}]
    },
    "spread without key": {
        "topologySpreadConstraints": [{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]
    },
    "affinity without terms": {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}}},
    "affinity among pods without key": {
        "affinity": {"podAntiAffinity": {REQUIRED: [{"labelSelector": {"matchLabels": {"a": "b"}}}]}}
    },
    "misspelt affinity": {"affinity": {"nodeAfinity": {}}},
    "unknown field": {"nodeselector": {"a": "b"}},
}

EXPRESSIONS: dict[str, Any] = {
    "operator in lower case": {"key": "a", "operator": "in", "values": ["b"]},
    "In without values": {"key": "a", "operator": "In"},
    "Exists with values": {"key": "a", "operator": "Exists", "values": ["b"]},
    "Gt of two": {"key": "a", "operator": "Gt", "values": ["1", "2"]},
    "Gt of a word": {"key": "a", "operator": "Gt", "values": ["many"]},
    "Gt": {"key": "a", "operator": "Gt", "values": ["1"]},
    "without key": {"operator": "Exists"},
    "value as number": {"key": "a", "operator": "In", "values": [1]},
}

METADATA: dict[str, Any] = {
    "name in capitals": {"name": "Tried"},
    "name with underscore": {"name": "a_b"},
    "label with a blank": {"labels": {"a": "b c"}},
    "label with a bad key": {"labels": {"a b": "c"}},
    "long label": {"labels": {"a": "b" * 64}},
    "number as label": {"labels": {"a": 1}},
    "truth as annotation": {"annotations": {"a": True}},
    "annotation with a bad key": {"annotations": {"a/b/c": ""}},
    "annotation in capitals": {"annotations": {"Example.com/A": ""}},
    "label that is null": {"labels": {"app": "tried", "a": None}},
    "annotations that are null": {"annotations": None},
}


def claiming(*claims: Any, named: tuple[str, ...] = ()) -> Any:
    """Fields of a pod with these claims, of which a container names some."""
    resources = {"claims": [{"name": name} for name in named]}
    containers = [{"name": "a", "image": "x", "resources": resources}]
    return {"resourceClaims": list(claims), "containers": containers}


def starting(**fields: Any) -> Any:
    """Fields of a pod with an init container."""
    return {"initContainers": [{"name": "init", "image": "x", **fields}]}


def spread(**fields: Any) -> Any:
    """Fields of a pod with a constraint of its spread."""
    usual = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [{**usual, **fields}]}


def apart(**fields: Any) -> Any:
    """Fields of a pod with a required and with a preferred distance from others."""
    term = {"topologyKey": "zone", **fields}
    return {"affinity": {"podAntiAffinity": {REQUIRED: [term], PREFERRED: [weighted(term)]}}}


def weighted(term: Any, weight: int = 1) -> Any:
    return {"weight": weight, "podAffinityTerm": term}


def near(weight: int, **expression: Any) -> Any:
    """Fields of a pod with a preference for nodes."""
    preferred = {"weight": weight, "preference": {"matchExpressions": [{"key": "a", **expression}]}}
    return {"affinity": {"nodeAffinity": {PREFERRED: [preferred]}}}


def on_node(**fields: Any) -> Any:
    """Fields of a pod that requires a node by its name."""
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"], **fields}]}]
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}


PROBE = {"exec": {"command": ["true"]}}
CLAIM = {"name": "gpu", "resourceClaimTemplateName": "one"}
PLACED: dict[str, Any] = {
    "sidecar": starting(restartPolicy="Always", readinessProbe=PROBE, lifecycle={"preStop": PROBE}),
    "sidecar in lower case": starting(restartPolicy="always"),
    "init container that ends": starting(restartPolicy="Never"),
    "init container with a probe": starting(readinessProbe=PROBE),
    "init container with a hook": starting(restartPolicy="OnFailure", lifecycle={"postStart": PROBE}),
    "claim": claiming(CLAIM, named=("gpu",)),
    "claim named twice": claiming(CLAIM, named=("gpu", "gpu")),
    "claims of one name": claiming(CLAIM, CLAIM),
    "claim of nothing": claiming({"name": "gpu"}),
    "claim of both": claiming({**CLAIM, "resourceClaimName": "b"}),
    "claim in capitals": claiming({**CLAIM, "name": "GPU"}),
    "claim of a bad name": claiming({"name": "gpu", "resourceClaimName": "a_b"}),
    "spread over domains": spread(minDomains=2, nodeTaintsPolicy="Honor"),
    "spread over no domains": spread(minDomains=0),
    "spread over domains where possible": spread(minDomains=2, whenUnsatisfiable="ScheduleAnyway"),
    "spread of an unknown policy": spread(nodeAffinityPolicy="Honour"),
    "spread by keys": spread(matchLabelKeys=["app"], labelSelector={"matchLabels": {"a": "b"}}),
    "spread by keys alone": spread(matchLabelKeys=["app"]),
    "spread of bad labels": spread(labelSelector={"matchLabels": {"a": "b c"}}),
    "spread twice": {"topologySpreadConstraints": spread()["topologySpreadConstraints"] * 2},
    "apart": apart(labelSelector={"matchExpressions": [{"key": "a", "operator": "Exists"}]}),
    "apart by an unknown operator": apart(
        labelSelector={"matchExpressions": [{"key": "a", "operator": "Exist"}]}
    ),
    "apart without values": apart(labelSelector={"matchExpressions": [{"key": "a", "operator": "In"}]}),
    "apart in a bad namespace": apart(namespaces=["Default"]),
    "apart by a bad key": apart(topologyKey="a b"),
    "apart without key": apart(topologyKey=""),
    "too heavy": {"affinity": {"podAffinity": {PREFERRED: [weighted({"topologyKey": "zone"}, 101)]}}},
    "flat": {"affinity": {"podAffinity": {PREFERRED: [{"weight": 1, "topologyKey": "zone"}]}}},
    "near": near(100, operator="Exists"),
    "near without weight": near(0, operator="Exists"),
    "near by an unknown operator": near(1, operator="exists"),
    "on a node": on_node(),
    "on two nodes": on_node(values=["n1", "n2"]),
    "on a node that exists": on_node(operator="Exists", values=[]),
    "on a node by another field": on_node(key="metadata.label"),
}


def variants() -> Iterator[tuple[str, Manifest]]:
    """Yield pods, most of which have one fault."""

    changes: list[tuple[str, tuple[str | int, ...], Any]] = [
        *((name, ("spec", "containers", 0), fields) for name, fields in CONTAINERS.items()),
        *((name, ("spec", "containers", 0), {"resources": fields}) for name, fields in RESOURCES.items()),
        *((name, ("spec",), fields) for name, fields in {**PODS, **PLACED}.items()),
        *((f"null {name}", ("spec",), fields) for name, fields in NULLS.items()),
        *((name, ("spec",), {"affinity": of_nodes(fields)}) for name, fields in EXPRESSIONS.items()),
        *((name, ("metadata",), fields) for name, fields in METADATA.items()),
    ]
    for name, path, fields in changes:
        pod = copy.deepcopy(POD)
        target: Any = pod
        for step in path:
            target = target[step]
        target.update(fields)
        yield name, pod


def of_nodes(expression: Any) -> Any:
    """A required affinity to nodes."""
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}


NULLS: dict[str, Any] = {
    **{
        field: {field: None}
        for field in (
            "restartPolicy",
            "os",
            "activeDeadlineSeconds",
            "volumes",
            "tolerations",
            "affinity",
            "nodeSelector",
            "priorityClassName",
            "topologySpreadConstraints",
            "resources",
            "initContainers",
            "schedulingGates",
            "containers",
            "resourceClaims",
            "overhead",
            "hostNetwork",
            "runtimeClassName",
            "securityContext",
        )
    },
    "toleration": {"tolerations": [None]},
    "toleration's fields": {
        "tolerations": [{"key": None, "operator": "Exists", "value": None, "effect": None}]
    },
    "effect of a toleration with seconds": {
        "tolerations": [{"key": "a", "operator": "Exists", "effect": None, "tolerationSeconds": None}]
    },
    "container": {"containers": [None]},
    "volume": {"volumes": [None]},
    "volume's name": {"volumes": [{"name": None, "emptyDir": {}}]},
    "volume's source": {"volumes": [{"name": "data", "emptyDir": None}]},
    "selector's value": {"nodeSelector": {"a": None}},
    "protocol": {
        "containers": [
            {"name": "a", "image": "x", "ports": [{"containerPort": 80, "protocol": None, "hostPort": None}]}
        ]
    },
    "protocol of a host port": {
        "containers": [
            {"name": "a", "image": "x", "ports": [{"containerPort": 80, "protocol": None, "hostPort": 80}]}
        ]
    },
    "fields of a container": {
        "containers": [
            {"name": "a", "image": "x", "args": None, "env": None, "resources": None, "ports": None}
        ]
    },
    "argument": {"containers": [{"name": "a", "image": "x", "args": [None, "b"]}]},
    "port": {"containers": [{"name": "a", "image": "x", "ports": [None]}]},
    "amounts": {"containers": [{"name": "a", "image": "x", "resources": {"limits": None, "requests": None}}]},
    "limit": {"containers": [{"name": "a", "image": "x", "resources": {"limits": {"cpu": None}}}]},
    "request beside a limit": {
        "containers": [
            {"name": "a", "image": "x", "resources": {"requests": {"cpu": None}, "limits": {"cpu": "1"}}}
        ]
    },
    "affinity's parts": {"affinity": {"nodeAffinity": None, "podAffinity": {REQUIRED: None}}},
    "term": {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [None]}}}},
    "values of Exists": {"affinity": of_nodes({"key": "a", "operator": "Exists", "values": None})},
    "value of In": {"affinity": of_nodes({"key": "a", "operator": "In", "values": [None]})},
    "part of a second": {"terminationGracePeriodSeconds": 3.5},
}

JOBS: dict[str, Any] = {
    "indexed without a number": {"completionMode": "Indexed", "completions": None, "parallelism": None},
    "indexed with completions alone": {"completionMode": "Indexed", "parallelism": None},
    "mode that is null": {"completionMode": None},
    "numbers that are null": {
        "completions": None,
        "parallelism": None,
        "backoffLimit": None,
        "suspend": None,
    },
    "selector that is null": {"selector": None, "manualSelector": None, "podFailurePolicy": None},
    "limit of each index that is null": {"backoffLimitPerIndex": None},
    "template that is null": {"template": None},
    "part of a pod": {"parallelism": 1.5},
    "usual": {},
    "misspelt parallelism": {"paralelism": 4},
    "parallelism as text": {"parallelism": "4"},
    "negative parallelism": {"parallelism": -1},
    "negative completions": {"completions": -1},
    "no pods": {"parallelism": 0},
    "indexed without completions": {"completionMode": "Indexed", "completions": None},
    "indexed": {"completionMode": "Indexed", "completions": 2},
    "limit of each index": {"backoffLimitPerIndex": 1},
    "deadline as duration": {"activeDeadlineSeconds": "1h"},
    "negative deadline": {"activeDeadlineSeconds": -5},
    "suspended": {"suspend": True},
    "suspend as text": {"suspend": "true"},
    "failure policy": {
        "podFailurePolicy": {
            "rules": [
                {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
            ]
        }
    },
}
SETS: dict[str, Any] = {
    "usual": {},
    "no selector": {"selector": None},
    "empty selector": {"selector": {}},
    "selector of others": {"selector": {"matchLabels": {"app": "other"}}},
    "selector without matchLabels": {"selector": {"app": "tried"}},
    "replicas as text": {"replicas": "3"},
    "negative replicas": {"replicas": -3},
    "unknown field": {"parallelism": 3},
    "replicas that are null": {"replicas": None},
    "expressions that are null": {"selector": {"matchLabels": {"app": "tried"}, "matchExpressions": None}},
}
COLLECTIONS = {
    "Job": "apis/batch/v1/{}/jobs",
    "CronJob": "apis/batch/v1/{}/cronjobs",
    "Deployment": "apis/apps/v1/{}/deployments",
    "ReplicaSet": "apis/apps/v1/{}/replicasets",
    "StatefulSet": "apis/apps/v1/{}/statefulsets",
    "ReplicationController": "api/v1/{}/replicationcontrollers",
}


def template(policy: str | None) -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": [{"name": "main", "image": "none"}]}
    return {
        "metadata": {"labels": {"app": "tried"}},
        "spec": spec if policy is None else {**spec, "restartPolicy": policy},
    }


SELECTED = {"selector": {"matchLabels": {"app": "tried"}}}


def null_policy() -> dict[str, Any]:
    """A template whose restartPolicy is null."""
    made = template(None)
    return {**made, "spec": {**made["spec"], "restartPolicy": None}}


def read(manifest: Manifest) -> Manifest:
    """The manifest as a question's text is read."""
    return next(iter(_named(read_manifests(as_json(manifest)), "default", [])))


def selecting(job: Any, cron: Any, made: Callable[..., Manifest]) -> Iterator[tuple[str, Manifest]]:
    """Yield Jobs and CronJobs with selectors of their own, and with long names."""
    manual = {**job, "manualSelector": True, "selector": {"matchLabels": {"app": "tried"}}}
    for size in (63, 64):
        yield f"Job with its own selector and a name of {size}", made("Job", manual, name="n" * size)
    for size in (52, 53):
        yield f"CronJob with a name of {size}", made("CronJob", cron, name="n" * size)
    variants: dict[str, dict[str, Any]] = {
        "own selector": {"manualSelector": True, "selector": {"matchLabels": {"app": "tried"}}},
        "selector alone": {"selector": {"matchLabels": {"app": "tried"}}},
        "manualSelector": {"manualSelector": True},
        "no manualSelector": {"manualSelector": False},
    }
    for name, fields in variants.items():
        spec = {**cron, "jobTemplate": {"spec": {**job, **fields}}}
        yield f"CronJob with {name}", made("CronJob", spec)
    yield "Job with a selector of others", made("Job", {**manual, "selector": {"matchLabels": {"a": "b"}}})
    yield "Job with its own selector and no word of it", made("Job", {**manual, "manualSelector": None})
    yield "Job with manualSelector alone", made("Job", {**job, "manualSelector": True})


def owners() -> Iterator[tuple[str, Manifest]]:
    """Yield objects that make pods, most of which have one fault."""

    def made(kind: str, spec: Any, **meta: Any) -> Manifest:
        version = {"ReplicationController": "v1", "Job": "batch/v1", "CronJob": "batch/v1"}.get(
            kind, "apps/v1"
        )
        return {"apiVersion": version, "kind": kind, "metadata": {"name": "tried", **meta}, "spec": spec}

    job = {"completions": 2, "parallelism": 2, "template": template("Never")}
    cron = {"schedule": "0 3 * * *", "jobTemplate": {"spec": job}}
    for name, fields in JOBS.items():
        yield f"Job {name}", made("Job", {**job, **fields})
        yield f"CronJob {name}", made("CronJob", {**cron, "jobTemplate": {"spec": {**job, **fields}}})
    for policy in (None, "Always", "OnFailure"):
        yield f"Job {policy}", made("Job", {**job, "template": template(policy)})
    onces = {**job, "template": template("OnFailure"), **JOBS["failure policy"]}
    yield "Job OnFailure with a failure policy", made("Job", onces)
    for size in (63, 64):
        yield f"Job with a name of {size}", made("Job", job, name="n" * size)
    yield from selecting(job, cron, made)
    yield "Job with a null policy", made("Job", {**job, "template": null_policy()})
    yield "Deployment with a null policy", made("Deployment", {**SELECTED, "template": null_policy()})
    yield "CronJob without schedule", made("CronJob", {"jobTemplate": {"spec": job}})
    for kind in ("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController"):
        usual = {"selector": {"matchLabels": {"app": "tried"}}, "template": template(None)}
        for name, fields in SETS.items():
            spec = {**usual, **fields}
            if kind == "ReplicationController":
                spec["selector"] = (spec.get("selector") or {}).get("matchLabels")
            yield f"{kind} {name}", made(kind, spec)
        yield f"{kind} Never", made(kind, {**usual, "template": template("Never")})
    for name, fields in METADATA.items():
        yield f"Job {name}", made("Job", job, **fields)
    for size in (58, 70, 250):
        prefix = f"{'n' * size}-"
        yield f"Job generated from {size}", made("Job", job, name=None, generateName=prefix)
    yield "Job generated from capitals", made("Job", job, name=None, generateName="Tried-")


def refusal(namespace: Namespace, manifest: Manifest) -> str:
    """Why the API server refuses the object, "" if it doesn't."""
    collection = {**COLLECTIONS, "Pod": "api/v1/{}/pods"}[manifest["kind"]]
    path = f"/{collection.format(f'namespaces/{namespace.name}')}"
    try:
        namespace.api.request("POST", path, manifest, query={"dryRun": "All", "fieldValidation": "Strict"})
    except ApiError as error:
        return error.message
    return ""


async def embedded_refusal(pod: Manifest) -> str:
    """Why the embedded cluster refuses the pod, "" if it doesn't."""
    try:
        await EmbeddedSession(EmbeddedCluster()).try_pod(read(pod), "try it")
    except ClusterError as error:
        return error.words
    return ""


async def test_embedded_cluster_refuses_the_pods_that_the_api_server_refuses(namespace: Namespace) -> None:
    disagreements = {}
    for name, pod in variants():
        pod["metadata"]["namespace"] = namespace.name
        real, embedded = refusal(namespace, pod), await embedded_refusal(pod)
        if bool(real) is not bool(embedded):
            disagreements[name] = real, embedded
    assert disagreements == {}, disagreements


def test_objects_are_called_faulty_that_the_api_server_refuses(namespace: Namespace) -> None:
    disagreements = {}
    for name, manifest in owners():
        real, said = refusal(namespace, manifest), object_fault(read(manifest))
        if bool(real) is not bool(said):
            disagreements[name] = real, said
    assert disagreements == {}, disagreements
