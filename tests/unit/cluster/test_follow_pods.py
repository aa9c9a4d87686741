"""A caller that follows pods puts and drops them as observations show them."""

from __future__ import annotations

import pytest

from fluence_extender.cluster.port import Changed, Deleted, Listed, Observation, follow_pods
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod

A, B, C = (Pod("lab", name, f"uid-{name}") for name in "abc")


@pytest.mark.parametrize(
    ("observation", "left"),
    [
        (Changed(C), {"uid-a", "uid-b", "uid-c"}),
        (Deleted(A), {"uid-b"}),
        (Listed(Pod, (B, C)), {"uid-b", "uid-c"}),
        (Listed(Pod, ()), set()),
        (Deleted(C), {"uid-a", "uid-b"}),
    ],
    ids=["changed", "deleted", "list without one", "empty list", "one of which nothing was kept"],
)
def test_pods_are_put_and_dropped_by_lists_and_changes(observation: Observation, left: set[str]) -> None:
    kept = {A.uid, B.uid}
    assert follow_pods(observation, kept, lambda pod: kept.add(pod.uid), kept.discard)
    assert kept == left


@pytest.mark.parametrize("observation", [Listed(Node, ()), Changed(Node("n"))], ids=["list", "change"])
def test_observations_of_other_kinds_change_no_pods(observation: Observation) -> None:
    kept = {A.uid}
    assert not follow_pods(observation, kept, lambda pod: kept.clear(), lambda uid: kept.clear())
    assert kept
