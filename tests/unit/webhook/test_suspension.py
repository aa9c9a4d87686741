"""Workloads that wait without pods, on a cluster where the webhook suspends them; new Jobs: test_embedded_admission."""

from __future__ import annotations

import copy
from typing import Any

import jsonpatch
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluence_extender.model.names import (
    KUEUE_QUEUE_LABEL,
    NEVER_SUSPEND,
    QUEUE_LABEL,
    QUEUED_SINCE_ANNOTATION,
    SUSPEND_LABEL,
    SUSPENDED_FOR_ANNOTATION,
)
from fluence_extender.webhook.draft import Draft
from fluence_extender.webhook.suspension import SUSPENDED, admit_workload

Json = dict[str, Any]

HELD = {SUSPENDED_FOR_ANNOTATION: "placement"}
OURS = {"spec": {"schedulerName": "fluence", "containers": [{"name": "main"}]}}
JOB_SET = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "s", "controller": True}
SOFT, HARD = {"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists", "effect": "NoExecute"}


def admitted(kind: str, body: Json, old: Json | None = None) -> Json:
    """Return the object after its patch, by another implementation of RFC 6902 than ours."""
    draft, before = Draft(body), copy.deepcopy(body)
    admit_workload(draft, kind, old)
    assert body == before
    patched: Json = jsonpatch.apply_patch(body, msgspec.json.encode(draft.operations).decode())
    assert draft.object == patched
    return patched


def ray(labels: Json | None = None, **spec: Any) -> Json:
    groups = {"headGroupSpec": {"template": OURS}, "workerGroupSpecs": [{"template": OURS}]}
    return {
        "kind": "RayCluster",
        "metadata": {"name": "w", "labels": labels or {}},
        "spec": {**groups, **spec},
    }


def mpi(labels: Json | None = None, **policy: Any) -> Json:
    replicas = {"Launcher": {"template": OURS}, "Worker": {"template": OURS}}
    spec = {"mpiReplicaSpecs": replicas, **({"runPolicy": policy} if policy else {})}
    return {"kind": "MPIJob", "metadata": {"name": "w", "labels": labels or {}}, "spec": spec}


def suspended(stored: Json) -> bool:
    spec = stored["spec"]
    return bool((spec.get("runPolicy") or spec).get("suspend"))


def held(stored: Json) -> bool:
    return suspended(stored) and (stored["metadata"].get("annotations") or {}) == HELD


QUEUED = {QUEUE_LABEL: "physics"}
BOTH = pytest.mark.parametrize(("kind", "make"), [("RayCluster", ray), ("MPIJob", mpi)], ids=["Ray", "MPI"])


@BOTH
def test_workload_of_a_queue_waits(kind: str, make: Any) -> None:
    assert held(admitted(kind, make(QUEUED)))
    assert held(
        admitted(kind, make(QUEUED, managedBy=dict(RayCluster="ray.io/kuberay-operator").get(kind, "")))
    )


@BOTH
def test_workload_is_left_alone_if_others_may_resume_it_or_its_user_holds_it(kind: str, make: Any) -> None:
    for body in (
        make(),
        make({**QUEUED, SUSPEND_LABEL: NEVER_SUSPEND}),
        make({**QUEUED, KUEUE_QUEUE_LABEL: "q"}),
        make(QUEUED, managedBy="kueue.x-k8s.io/multikueue"),
        make(QUEUED, suspend=True),
    ):
        assert admitted(kind, body) == body


@BOTH
def test_copies_of_our_records_are_taken_off_what_its_user_suspends(kind: str, make: Any) -> None:
    body = make(QUEUED, suspend=True)
    body["metadata"]["annotations"] = {**HELD, QUEUED_SINCE_ANNOTATION: "t/1", "theirs": "stays"}
    stored = admitted(kind, body)
    assert suspended(stored)
    assert stored["metadata"]["annotations"] == {"theirs": "stays"}


@BOTH
def test_record_goes_when_someone_resumes_what_waits(kind: str, make: Any) -> None:
    before = admitted(kind, make(QUEUED))
    after = copy.deepcopy(before)
    assert admitted(kind, after, before) == after
    (after["spec"].get("runPolicy") or after["spec"])["suspend"] = False
    stored = admitted(kind, after, before)
    assert not suspended(stored)
    assert SUSPENDED_FOR_ANNOTATION not in stored["metadata"]["annotations"]


def job_of_a_job_set(tolerations: list[Json], suspend: bool = True) -> Json:
    template = {"spec": {**OURS["spec"], "tolerations": tolerations}}
    return {
        "metadata": {"name": "j", "annotations": dict(HELD), "ownerReferences": [JOB_SET]},
        "spec": {"suspend": suspend, "template": template},
    }


def test_job_that_its_job_set_resumes_stays_suspended_and_as_it_was() -> None:
    before = job_of_a_job_set([SOFT, HARD])
    assert admitted("Job", job_of_a_job_set([HARD, SOFT], suspend=False), before) == before
    other = admitted("Job", job_of_a_job_set([HARD], suspend=False), before)
    assert other == job_of_a_job_set([HARD])


def test_job_of_a_job_set_that_opts_out_is_resumed() -> None:
    after = job_of_a_job_set([], suspend=False)
    after["metadata"]["labels"] = {SUSPEND_LABEL: NEVER_SUSPEND}
    stored = admitted("Job", after, job_of_a_job_set([]))
    assert not suspended(stored)
    assert stored["metadata"]["annotations"] == {}


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["spec", "template", "metadata", "labels", QUEUE_LABEL, "suspend", "Worker", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
PARTS = (
    *("headGroupSpec", "workerGroupSpecs", "mpiReplicaSpecs", "managedBy", "suspend"),
    *("template", "parallelism", "completions"),
)


@given(
    st.sampled_from(list(SUSPENDED)),
    st.dictionaries(st.sampled_from(PARTS), ANYTHING, max_size=6),
    st.sampled_from([{}, QUEUED]),
)
def test_object_of_any_shape_is_left_as_it_is_or_suspended(kind: str, spec: Json, labels: Json) -> None:
    """Operators' objects reach the webhook before the API server compares them with their schema."""
    body = {"metadata": {"name": "w", "labels": labels}, "spec": spec}
    stored = admitted(kind, body)
    assert stored == body or held(stored)
