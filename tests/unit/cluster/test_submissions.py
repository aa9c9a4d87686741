"""What objects say about their place in the queue, and how Jobs have ended, as it is read of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from fluence_extender.kinds.job import decode_job
from fluence_extender.kinds.jobset import decode_job_set
from fluence_extender.kinds.leaderworkerset import decode_leader_worker_set
from fluence_extender.kinds.mpijob import decode_mpi_job
from fluence_extender.kinds.podgroups import decode_coscheduling_group, decode_pod_group
from fluence_extender.kinds.ray import decode_ray_cluster
from fluence_extender.kinds.replicas import decode_replica_set, decode_stateful_set
from fluence_extender.kinds.workload import Workload
from fluence_extender.model.dependency import Ending
from fluence_extender.model.names import (
    AFTER_ANNOTATION,
    HOLD_ANNOTATION,
    KUEUE_QUEUE_LABEL,
    QUEUE_LABEL,
    USER_ANNOTATION,
)
from fluence_extender.model.submission import NOTHING_SAID, Submission

SAID = {HOLD_ANNOTATION: "true", AFTER_ANNOTATION: "ok:job/prep", USER_ANNOTATION: "ada"}
LABELS = {QUEUE_LABEL: "physics", KUEUE_QUEUE_LABEL: "lq", "app": "x"}


def raw(annotations: dict[str, str], labels: dict[str, str] | None = None, **fields: Any) -> bytes:
    metadata = {
        "namespace": "ns",
        "name": "x",
        "uid": "u",
        "annotations": annotations,
        "labels": labels or {},
    }
    return json.dumps({"metadata": metadata, **fields}).encode()


@pytest.mark.parametrize(
    "decode",
    [
        *(decode_job, decode_job_set, decode_leader_worker_set, decode_mpi_job, decode_ray_cluster),
        *(decode_pod_group, decode_coscheduling_group, decode_replica_set, decode_stateful_set),
    ],
    ids=lambda decode: decode.__name__,
)
def test_workload_says_what_its_annotations_and_labels_do(decode: Callable[[bytes], Workload]) -> None:
    queues = ((QUEUE_LABEL, "physics"), (KUEUE_QUEUE_LABEL, "lq"))
    assert decode(raw(SAID, LABELS)).submission == Submission("true", "ok:job/prep", "ada", queues)
    assert decode(raw({"other": "x"}, {"app": "x"})).submission is NOTHING_SAID


def test_template_of_a_job_says_what_the_job_does_not() -> None:
    template = {"metadata": {"annotations": {**SAID, AFTER_ANNOTATION: "any:job/a"}}}
    found = decode_job(raw({HOLD_ANNOTATION: "false"}, spec={"template": template})).submission
    # A template names no user: its Job does.
    assert found == Submission("false", "any:job/a", None)


@pytest.mark.parametrize(
    ("condition", "status", "outcome"),
    [
        ("Complete", "True", Ending.SUCCEEDED),
        ("Failed", "True", Ending.FAILED),
        ("Complete", "False", None),
        ("SuccessCriteriaMet", "True", None),
        ("FailureTarget", "True", None),
    ],
)
def test_job_has_ended_once_a_condition_says_so(condition: str, status: str, outcome: Ending | None) -> None:
    told = {"conditions": [{"type": condition, "status": status}]}
    assert decode_job(raw({}, status=told)).outcome is outcome
