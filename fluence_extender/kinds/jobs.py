"""The pods of Jobs, and of what makes Jobs: CronJobs, JobSets and MiniClusters.

Sources: Kubernetes pkg/controller/job (manageJob) and pkg/controller/cronjob; JobSet pkg/controllers; Flux Operator
pkg/flux (job.go, affinity.go).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from fluence_extender.kinds.pod_sets import (
    Json,
    PodSet,
    SetMember,
    count_of,
    reference_to,
    template_of,
    with_claims,
)
from fluence_extender.model.names import (
    COMPLETION_INDEX,
    HOSTNAME,
    JOB_INDEX,
    JOB_NAME,
    JOB_SET_NAME,
    JOB_TRACKING,
    NODES_ANNOTATION,
    REPLICATED_JOB,
    REPLICATED_JOB_REPLICAS,
)

COMPLETION_INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
EARLIER_JOB_NAME = "job-name"
"""The label of a Job's name before it had a domain. Both are on each pod."""


def job_pods(job: Json) -> Iterator[PodSet]:
    """Yield the pods that a Job has at once, without nodes."""
    yield _of_job(job["spec"], job["metadata"]["name"], reference_to(job))


def job_set_pods(job_set: Json) -> Iterator[PodSet]:
    """Yield the pods of each replicated Job; all its Jobs have the same template."""
    name, spec = job_set["metadata"]["name"], job_set["spec"]
    claims = [
        claim for policy in spec.get("volumeClaimPolicies") or () for claim in policy.get("templates") or ()
    ]
    for replicated in spec.get("replicatedJobs") or ():
        replicas, job = count_of(replicated.get("replicas"), 1), replicated["template"]["spec"]
        pods = _replicated(name, replicated["name"], replicas, job)
        mounted = [one for one in claims if one["metadata"]["name"] in _mounts(pods.template["spec"])]
        yield replace(pods, template=with_claims(pods.template, mounted, name))


def _mounts(spec: Mapping[str, Any]) -> set[Any]:
    """Return the names of the volumes that containers mount."""
    containers = [one for kind in ("initContainers", "containers") for one in spec.get(kind) or ()]
    return {mount.get("name") for one in containers for mount in one.get("volumeMounts") or ()}


def one_run(cron_job: Mapping[str, Any]) -> Json:
    """Return the Job that a CronJob makes for one run."""
    template, meta = cron_job["spec"]["jobTemplate"], cron_job["metadata"]
    own = template.get("metadata") or {}
    metadata = {
        "name": f"{meta['name']}-1",
        "namespace": meta["namespace"],
        "labels": own.get("labels") or {},
        "annotations": own.get("annotations") or {},
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": template["spec"]}


def job_of_mini_cluster(cluster: Mapping[str, Any]) -> Json:
    """Return the Job that the Flux Operator makes of a MiniCluster."""
    meta, spec = cluster["metadata"], cluster.get("spec") or {}
    pod, size = spec.get("pod") or {}, count_of(spec.get("size"), 1)
    containers = [
        {"name": one.get("name") or f"container-{number}", "image": one.get("image") or "broker"}
        | {"resources": one.get("resources") or {}}
        for number, one in enumerate(spec.get("containers") or ())
    ]
    view = (spec.get("flux") or {}).get("container") or {}
    added = {"name": "flux-view", "image": view.get("image") or "flux-view"}
    keys = ("schedulerName", "nodeSelector", "tolerations", "runtimeClassName", "serviceAccountName")
    pod_spec: Json = {
        "restartPolicy": "OnFailure",
        "initContainers": [added | {"resources": view.get("resources") or {}}],
        "containers": containers,
        **{key: pod[key] for key in keys if key in pod},
    }
    if not (spec.get("network") or {}).get("disableAffinity"):
        pod_spec["affinity"] = _one_broker_a_node(meta["name"])
    template = {
        "metadata": {"labels": pod.get("labels") or {}, "annotations": pod.get("annotations") or {}},
        "spec": pod_spec,
    }
    job = {"completionMode": "Indexed", "parallelism": size, "completions": size, "template": template}
    return {**cluster, "apiVersion": "batch/v1", "kind": "Job", "spec": job}


def _one_broker_a_node(name: str) -> Json:
    others = {"matchExpressions": [{"key": EARLIER_JOB_NAME, "operator": "In", "values": [name]}]}
    apart = {"labelSelector": others, "topologyKey": HOSTNAME}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}


def _of_job(spec: Mapping[str, Any], name: str, owner: Json) -> PodSet:
    count, indexed = _width(spec), spec.get("completionMode") == "Indexed"

    def members() -> Iterator[SetMember]:
        for number in range(max(count, 1)):
            yield _pod_of_job(name, number, indexed, {}, owner)

    return PodSet(_job_template(spec, name, indexed), count, members)


def _replicated(job_set: str, name: str, replicas: int, spec: Mapping[str, Any]) -> PodSet:
    """Return the pods of ``replicas`` Jobs. Jobs without pods aren't counted, however many there are."""
    width, indexed = _width(spec), spec.get("completionMode", "Indexed") == "Indexed"

    def members() -> Iterator[SetMember]:
        for number in range(max(replicas, 1)):
            job = f"{job_set}-{name}-{number}"
            labels = {
                JOB_SET_NAME: job_set,
                REPLICATED_JOB: name,
                REPLICATED_JOB_REPLICAS: str(replicas),
                JOB_INDEX: str(number),
            }
            owner = reference_to(
                {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": job, "uid": f"job-{job}"}}
            )
            for index in range(max(width, 1)):
                yield _pod_of_job(job, index, indexed, labels, owner)

    return PodSet(_job_template(spec, f"{job_set}-{name}-0", indexed), width and width * replicas, members)


def _pod_of_job(name: str, number: int, indexed: bool, labels: Mapping[str, str], owner: Json) -> SetMember:
    index = {COMPLETION_INDEX: str(number)} if indexed else {}
    both = {JOB_NAME: name, EARLIER_JOB_NAME: name, **labels, **index}
    return SetMember(f"{name}-{number}", both, index, owner)


def _job_template(spec: Mapping[str, Any], name: str, indexed: bool) -> Json:
    source = spec["template"]
    template = template_of(source, {**source["spec"], **_numbered(name, source["spec"])} if indexed else None)
    notes = template["metadata"].get("annotations") or {}
    kept = {key: text for key, text in notes.items() if key != NODES_ANNOTATION}
    template["metadata"] |= {"finalizers": [JOB_TRACKING], "annotations": kept}
    return template


def _numbered(name: str, spec: Mapping[str, Any]) -> Json:
    """Return the fields by which the processes of index 0 learn it."""
    kinds = ("initContainers", "containers")
    return {
        "hostname": f"{name}-0",
        **{kind: [_with_index(one) for one in spec[kind]] for kind in kinds if spec.get(kind)},
    }


def _with_index(container: Mapping[str, Any]) -> Json:
    """Return the container with the variable from which its process learns the completion index."""
    given = container.get("env") or []
    if any(one.get("name") == COMPLETION_INDEX_VARIABLE for one in given):
        return dict(container)
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{COMPLETION_INDEX}']"}}
    return {**container, "env": [*given, {"name": COMPLETION_INDEX_VARIABLE, "valueFrom": source}]}


def _width(spec: Mapping[str, Any]) -> int:
    """Return how many pods a Job has at once."""
    parallelism = count_of(spec.get("parallelism"), 1)
    return min(parallelism, count_of(spec.get("completions"), parallelism))


def more_runs(spec: Mapping[str, Any]) -> int:
    """Return how many pods of a Job come later, each when one of the first has succeeded. Raise `BadManifest`."""
    width = _width(spec)
    return count_of(spec.get("completions"), width) - width
