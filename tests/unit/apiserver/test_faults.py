"""Why the API server refuses objects that make pods."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fluence_extender.apiserver.faults import object_fault
from fluence_extender.kinds.pod_sets import BadManifest
from fluence_extender.whatif.documents import read_manifests
from fluence_extender.whatif.manifests import read_question

SPEC = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}
JOB = {"parallelism": 2, "completions": 2, "template": {"spec": SPEC}}
API = "jobset.x-k8s.io/v1alpha2"


def job_set(name: Any = "tried", **fields: Any) -> dict[str, Any]:
    replicated = [{"name": "ranks", "template": {"spec": {**JOB, **fields}}}]
    return {
        "apiVersion": API,
        "kind": "JobSet",
        "metadata": {"name": name},
        "spec": {"replicatedJobs": replicated},
    }


@pytest.mark.parametrize(
    "fields",
    [
        {"backoffLimitPerIndex": 1, "maxFailedIndexes": 1},
        {"successPolicy": {"rules": [{"succeededIndexes": "0-1", "succeededCount": 1}]}},
        {"successPolicy": {"rules": [{"succeededIndexes": "0"}]}},
    ],
)
def test_jobs_of_a_job_set_are_indexed(fields: dict[str, Any]) -> None:
    assert object_fault(job_set(**fields)) == ""
    assert "ndexed" in object_fault(job_set(completionMode="NonIndexed", **fields))


@pytest.mark.parametrize("name", [True, False, 5, 1.5, 0, [], ["a"], {}])
@pytest.mark.parametrize(
    "kind",
    ["JobSet", "Pod", "Job", "CronJob", "PodGroup", "MPIJob", "RayJob", "LeaderWorkerSet", "ConfigMap"],
)
def test_name_that_is_no_text_is_refused_whatever_the_kind(kind: str, name: Any) -> None:
    given = {**job_set(name), "kind": kind, "apiVersion": "v1"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "other"}, "spec": SPEC}
    with pytest.raises(BadManifest, match=r"metadata\.name: Invalid value: .*must be a string"):
        read_question(read_manifests(msgspec.json.encode([pod, given])))


def test_misspelt_metadata_of_a_custom_resource_is_refused() -> None:
    given = job_set()
    given["metadata"] |= {"label": {"a": "b"}}
    assert object_fault(given) == 'unknown field "metadata.label"'


@pytest.mark.parametrize(("size", "refused"), [(47, False), (48, True), (51, True)])
def test_name_is_generated_as_long_as_in_a_cluster(size: int, refused: bool) -> None:
    spec = {"schedule": "@daily", "jobTemplate": {"spec": JOB}}
    meta = {"generateName": "n" * size}
    given = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": meta, "spec": spec}
    (template,) = read_question([given]).templates
    assert ("no more than 52 characters" in template.fault) is refused
