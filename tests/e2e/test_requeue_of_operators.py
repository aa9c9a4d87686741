"""MPIJobs and RayClusters that have to give their places back wait in line again on a real control plane."""

from __future__ import annotations

import pytest

from fluence_extender.model.names import QUEUED_SINCE_ANNOTATION, SUSPENDED_FOR_ANNOTATION
from tests.e2e.harness import Namespace, annotations_of, phase_of, wait_for
from tests.e2e.installation import Installation
from tests.e2e.nodes import NodeFactory
from tests.e2e.played_operators import PlayedOperators
from tests.e2e.service import Fluence
from tests.e2e.test_requeue import URGENT, cores, delete, notes, urgent
from tests.e2e.test_requeue import wait_until_running as wait_until_job_runs
from tests.e2e.test_suspended_operators import (
    OWN,
    Submit,
    gang_of,
    path_of,
    played,
    pods_of,
    ray_job,
    refusal,
    resume_patch,
    suspended,
    wait_until_running,
)

__all__ = ["played", "urgent"]

pytestmark = pytest.mark.usefixtures("operators")


@OWN
def test_preempted_workload_comes_back_in_its_place(
    fluence: Fluence,
    namespace: Namespace,
    own_nodes: NodeFactory,
    played: PlayedOperators,
    installation: Installation,
    submit: Submit,
) -> None:
    own_nodes(1, cpu="4")
    low = submit("low")
    namespace.create(low)
    wait_until_running(namespace, low)
    namespace.create(cores("behind", 4))
    fluence.wait_for_reason(namespace.name, "behind", "busy")
    namespace.create(cores("high", 4, priorityClassName=URGENT))
    wait_until_job_runs(namespace, "high", 4)
    stored = namespace.api.get(path_of(namespace, low))
    assert suspended(stored)
    assert annotations_of(stored)[SUSPENDED_FOR_ANNOTATION] == "placement"
    assert QUEUED_SINCE_ANNOTATION in annotations_of(stored)
    wait_for(lambda: not pods_of(namespace, low), what="its pods to be gone")
    wait_for(lambda: notes(namespace, "low", "Requeued"), what="the Event")
    assert "preempted by" in notes(namespace, "low", "Requeued")[0]

    installation.crash()
    installation.revive()
    fluence.wait_for_reason(namespace.name, gang_of(low), "busy")
    delete(namespace, "high")
    wait_until_running(namespace, low)
    assert not namespace.pods(**{"batch.kubernetes.io/job-name": "behind"})
    assert SUSPENDED_FOR_ANNOTATION not in annotations_of(namespace.api.get(path_of(namespace, low)))


@OWN
def test_its_place_in_line_is_written_by_nobody_else(namespace: Namespace, submit: Submit) -> None:
    forged = submit("forged")
    forged["metadata"]["annotations"] = {QUEUED_SINCE_ANNOTATION: "2020-01-01T00:00:00Z"}
    namespace.create(forged)
    path = path_of(namespace, forged)
    assert QUEUED_SINCE_ANNOTATION not in annotations_of(namespace.api.get(path))
    later = {"metadata": {"annotations": {QUEUED_SINCE_ANNOTATION: "2020-01-01T00:00:00Z"}}}
    assert QUEUED_SINCE_ANNOTATION in refusal(lambda: namespace.api.patch(path, later))


def test_cluster_of_a_ray_job_is_evicted_because_its_job_would_be_lost(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, played: PlayedOperators
) -> None:
    own_nodes(1, cpu="4")
    low = ray_job("low")
    namespace.create(low)
    wait_until_running(namespace, low)
    played.away = True
    namespace.create(cores("high", 4, priorityClassName=URGENT))
    wait_until_job_runs(namespace, "high", 4)
    assert not suspended(namespace.api.get(path_of(namespace, low)))
    assert not [one for one in pods_of(namespace, low) if phase_of(one) == "Running"]


@OWN
def test_what_its_user_has_suspended_since_stays_so(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, played: PlayedOperators, submit: Submit
) -> None:
    own_nodes(1, cpu="4")
    low = submit("low")
    namespace.create(low)
    wait_until_running(namespace, low)
    namespace.create(cores("high", 4, priorityClassName=URGENT))
    wait_until_job_runs(namespace, "high", 4)
    path = path_of(namespace, low)
    namespace.api.patch(path, {"metadata": {"annotations": {SUSPENDED_FOR_ANNOTATION: None}}})
    delete(namespace, "high")
    namespace.create(cores("after", 4))
    wait_until_job_runs(namespace, "after", 4)
    assert suspended(namespace.api.get(path))
    delete(namespace, "after")
    namespace.api.patch(path, resume_patch(low))
    wait_until_running(namespace, low)
