"""The ranks and topology constraints of pods, as users and their controllers write them."""

from __future__ import annotations

import pytest

from fluence_extender.model.names import (
    COMPLETION_INDEX,
    TOPOLOGY_PREFERRED_ANNOTATION,
    TOPOLOGY_REQUIRED_ANNOTATION,
)
from fluence_extender.placement.ranks import rank_key
from fluence_extender.placement.topology_constraints import (
    PODSET_PREFERRED,
    PODSET_REQUIRED,
    SLICE_REQUIRED,
    SLICE_SIZE,
    TopologyConstraint,
    topology_constraints,
)
from tests.core.values import pod


@pytest.mark.parametrize(
    "label",
    [
        "leaderworkerset.sigs.k8s.io/worker-index",
        "apps.kubernetes.io/pod-index",
        "kueue.x-k8s.io/pod-group-pod-index",
        "training.kubeflow.org/replica-index",
        COMPLETION_INDEX,
    ],
)
def test_numbered_pods_are_in_the_order_of_their_numbers(label: str) -> None:
    pods = [pod(f"x-{40 - number}", labels={label: str(number)}) for number in (10, 2, 0, 1)]
    assert [one.labels[label] for one in sorted(pods, key=rank_key)] == ["0", "1", "2", "10"]


def test_jobs_of_a_job_set_are_ordered_by_role_and_then_by_job() -> None:
    wanted = [("driver", 0, 0), ("workers", 0, 0), ("workers", 0, 1), ("workers", 1, 0)]
    made = [
        pod(
            f"{role}-{job}-{index}",
            labels={"jobset.sigs.k8s.io/replicatedjob-name": role, "jobset.sigs.k8s.io/job-index": str(job)},
            annotations={COMPLETION_INDEX: str(index)},
        )
        for role, job, index in reversed(wanted)
    ]
    assert [one.name for one in sorted(made, key=rank_key)] == [
        f"{role}-{job}-{index}" for role, job, index in wanted
    ]


@pytest.mark.parametrize("nonsense", ["", "-1", "x", "1.5", "99999999999999", "\u0661"])
def test_pods_without_a_readable_number_are_in_the_order_of_their_names(nonsense: str) -> None:
    pods = [pod(f"w-{number}", annotations={COMPLETION_INDEX: nonsense}) for number in (10, 9, 1)]
    assert [one.name for one in sorted(pods, key=rank_key)] == ["w-1", "w-9", "w-10"]


def test_constraints_are_ordered_from_the_outermost_to_the_innermost() -> None:
    notes = {
        TOPOLOGY_REQUIRED_ANNOTATION: "zone",
        TOPOLOGY_PREFERRED_ANNOTATION: "block",
        PODSET_REQUIRED: "example.com/rack",
        SLICE_REQUIRED: "host",
        SLICE_SIZE: "4",
        COMPLETION_INDEX: "9",
    }
    one = pod(annotations=notes, labels={"batch.kubernetes.io/job-name": "j"})
    assert topology_constraints(one, ("example.com/room",)) == (
        TopologyConstraint("gang", "zone", "block"),
        TopologyConstraint("podgroup", "example.com/room"),
        TopologyConstraint("podset j", "example.com/rack"),
        TopologyConstraint("podset j slice -1.2", "host"),
    )
    assert (
        topology_constraints(pod(annotations={"kueue.x-k8s.io/podset-unconstrained-topology": "true"})) == ()
    )
    assert topology_constraints(pod(annotations={PODSET_PREFERRED: "r"})) == (
        TopologyConstraint("podset ", "", "r"),
    )
