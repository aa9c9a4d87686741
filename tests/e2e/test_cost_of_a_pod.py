"""What it takes to place a pod, counted: writes to the API server and calls of kube-scheduler."""

from __future__ import annotations

from collections import Counter

from prometheus_client.parser import text_string_to_metric_families

from fluence_extender.localcluster import ControlPlane
from tests.e2e.harness import Namespace, node_of
from tests.e2e.nodes import NodeFactory
from tests.e2e.service import Fluence
from tests.e2e.workloads import gang

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


def test_member_of_a_gang_costs_three_writes_one_filter_call_and_one_bind_call(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, control_plane: ControlPlane
) -> None:
    own_nodes(4, cpu="8")
    before = {verb: answers(fluence, verb) for verb in ("filter", "prioritize", "bind")}
    path = f"/api/v1/namespaces/{namespace.name}/pods"
    watch = control_plane.api.watch(path, control_plane.api.get(path)["metadata"]["resourceVersion"])
    namespace.create(*gang("counted", MEMBERS, cpu="1"))
    writes: Counter[str] = Counter()
    bound: set[str] = set()
    for event in watch:
        pod = event["object"]
        name = pod["metadata"].get("name", "")
        if event["type"] == "MODIFIED" and name not in bound:
            writes[name] += 1
            if node_of(pod):
                bound.add(name)
        if len(bound) == MEMBERS:
            break
    watch.close()
    # The nomination, the gate's removal, the Binding; whatever comes after that is the kubelet's.
    assert writes == Counter({f"counted-{number}": 3 for number in range(MEMBERS)})
    told = {verb: answers(fluence, verb) - seen for verb, seen in before.items()}
    assert told == {
        "filter": Counter(placed=MEMBERS),
        "prioritize": Counter(),
        "bind": Counter(bound=MEMBERS),
    }
