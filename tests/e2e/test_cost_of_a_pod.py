"""What it takes to place a pod, counted: writes to the API server and calls of kube-scheduler."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.harness import Manifest, Namespace, node_of
from tests.e2e.installation import gates_of
from tests.e2e.nodes import NodeFactory
from tests.e2e.service import Fluence
from tests.e2e.workloads import gang
from tests.localcluster import ControlPlane

MEMBERS = 24


def answers(fluence: Fluence, verb: str) -> Counter[str]:
    """Answers of one verb by outcome."""
    return Counter(
        {
            sample.labels["outcome"]: int(sample.value)
            for family in text_string_to_metric_families(fluence.text("/metrics"))
            for sample in family.samples
            if sample.name == "fluence_extender_answers_total" and sample.labels["verb"] == verb
        }
    )


def steps(states: Sequence[Manifest]) -> list[str]:
    """What each write did to a pod.

    While its gang isn't whole yet a pod may be told so, more often where pods are created slowly; that is no step.
    """
    found: list[str] = []
    for before, after in pairwise(states):
        changes = {
            "nominated": _nominated(before) != _nominated(after) and not node_of(after),
            "ungated": gates_of(before) != gates_of(after),
            "bound": node_of(before) != node_of(after),
        }
        named = [name for name, happened in changes.items() if happened]
        told = not named and not (node_of(after) or _nominated(after))
        found += [] if told else [" and ".join(named) or "something else"]
    return found


def _nominated(pod: Manifest) -> str:
    return str(pod["status"].get("nominatedNodeName", ""))


@pytest.mark.parametrize("filtered", [False, True], ids=["direct", "filtered"])
def test_direct_pod_costs_one_write_and_a_filtered_one_three_with_one_filter_call_and_one_bind_call(
    fluence: Fluence,
    namespace: Namespace,
    own_nodes: NodeFactory,
    control_plane: ControlPlane,
    filtered: bool,
) -> None:
    own_nodes(4, cpu="8")
    before = {verb: answers(fluence, verb) for verb in ("filter", "prioritize", "bind")}
    path = f"/api/v1/namespaces/{namespace.name}/pods"
    watch = control_plane.api.watch(path, control_plane.api.get(path)["metadata"]["resourceVersion"])
    namespace.create(*gang("counted", MEMBERS, cpu="1", filtered=filtered))
    states: dict[str, list[Manifest]] = {}
    for event in watch:
        pod = event["object"]
        seen = states.setdefault(pod["metadata"].get("name", ""), [])
        # Whatever comes after the Binding is the kubelet's.
        if not seen or not node_of(seen[-1]):
            seen.append(pod)
        if sum(bool(node_of(some[-1])) for some in states.values()) == MEMBERS:
            break
    watch.close()
    assert len(states) == MEMBERS
    for some in states.values():
        assert steps(some) == (["nominated", "ungated", "bound"] if filtered else ["bound"])
    told = {verb: answers(fluence, verb) - seen for verb, seen in before.items()}
    assert told == {
        "filter": Counter(placed=MEMBERS) if filtered else Counter(),
        "prioritize": Counter(),
        "bind": Counter(bound=MEMBERS) if filtered else Counter(),
    }
