"""What `simulate` says of random manifests is what then happens to them on the real control plane.

Each manifest is asked about, created, watched and deleted. ``SIMULATED`` is how many are tried (``make predictions``).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from random import Random

import pytest

from fluence_extender.model.coordination import COORDINATION_ANNOTATION, SHARED
from tests.e2e.admitted import wait_for_contract
from tests.e2e.harness import Cluster, Manifest, Namespace, job
from tests.e2e.installation import Installation
from tests.e2e.job_sets import job_set, replicated
from tests.e2e.nodes import NodeFactory
from tests.e2e.predicted import asked, bound_at_first, bound_in_the_end, created, deleted
from tests.e2e.service import Fluence
from tests.e2e.workloads import QPU, RESOURCES, deployment, gang, labelled, ours
from tests.localcluster.stack import Webhook

pytestmark = pytest.mark.usefixtures("job_set_controller")

TRIED = int(os.environ.get("SIMULATED", "24"))
DISTINCT = 4
"""Each seed makes its manifests, in turn: a fourth of all with each."""

RUNTIME = "simulated-runtime"


@pytest.fixture
def admitted(cluster: Cluster, namespace: Namespace) -> Iterator[None]:
    """A LimitRange in the namespace, and a RuntimeClass with an overhead."""
    runtime = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": RUNTIME},
        "handler": "runc",
        "overhead": {"podFixed": {"cpu": "750m"}},
    }
    limits = {"type": "Container", "defaultRequest": {"cpu": "1500m"}}
    cluster.apply(runtime)
    namespace.create(
        {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": {"name": "usual"},
            "spec": {"limits": [limits]},
        }
    )
    yield
    cluster.api.delete(f"/apis/node.k8s.io/v1/runtimeclasses/{RUNTIME}")


def pod_of(dice: Random, name: str) -> Manifest:
    """A pod with requests, limits alone or neither, perhaps with an overhead, a port of its node or a missing class."""
    pod = ours(name)
    cpu = dice.choice(("500m", "1", "1500m", "2", "3", "4", "4500m"))
    kind = dice.choice(("requests", "limits", "whole", "none"))
    container = pod["spec"]["containers"][0]
    container["resources"] = {kind: {"cpu": cpu}} if kind in ("requests", "limits") else {}
    if kind == "whole":
        pod["spec"]["resources"] = {"limits": {"cpu": cpu}}
    if dice.random() < 0.2:
        pod["spec"]["runtimeClassName"] = dice.choice((RUNTIME, RUNTIME, RUNTIME, "missing"))
    if dice.random() < 0.2:
        pod["spec"]["hostNetwork"] = True
        container["ports"] = [{"containerPort": 9000}]
    if dice.random() < 0.1:
        pod["spec"]["priorityClassName"] = dice.choice(("missing", "system-node-critical"))
    if dice.random() < 0.1:
        container["resources"].setdefault("limits", {})["example.com/npu"] = dice.choice(("1", "2.5"))
    if dice.random() < 0.05:
        container["resorces"] = {}
    if dice.random() < 0.05:
        container["image"] = None
    if dice.random() < 0.15:
        pod["spec"]["nodeSelector"] = {"simulated": dice.choice(("yes", "no"))}
    return pod


def quantum_pod(dice: Random, name: str) -> Manifest:
    """A pod with devices, perhaps one of a shared job, of an unknown mode or of a group with too long a name."""
    pod = ours(name, cpu=dice.choice(("500m", "2", "4500m")), requests={QPU: dice.choice((1, 1, 1, 2))})
    mode = dice.choice((None, "independent", SHARED, SHARED, "batch"))
    if mode is not None:
        pod["metadata"]["annotations"][COORDINATION_ANNOTATION] = mode
    return labelled(pod, name if dice.random() < 0.8 else name.ljust(63, "x"))


def manifests_of(dice: Random, name: str) -> list[Manifest]:
    """A Job of one gang, of loose pods or with devices, a JobSet, a Deployment, or a gang of pods."""
    count = dice.randint(1, 6)
    pod = pod_of(dice, name)
    match dice.choice(("gang", "indexed", "job", "deployment", "pods", "job set", "quantum", "quantum")):
        case "gang":
            return [job(name, labelled(pod, name), parallelism=count, completionMode="Indexed")]
        case "indexed":
            return [job(name, pod, parallelism=count, completionMode="Indexed")]
        case "job":
            return [job(name, pod, parallelism=count, completions=count + dice.randint(0, 3))]
        case "deployment":
            return [deployment(name, pod, count)]
        case "job set":
            sizes = [(dice.randint(1, 2), dice.randint(1, 3)) for _ in range(dice.randint(1, 2))]
            templates = [pod, pod_of(dice, name)]
            for template in templates:
                # The kind that is served here has no schema by which the API server could refuse it.
                template["spec"]["containers"][0].pop("resorces", None)
            parts = zip("ab", sizes, templates, strict=False)
            return [job_set(name, *(replicated(part, *size, one) for part, size, one in parts))]
        case "quantum":
            template = quantum_pod(dice, name)
            return [job(name, template, parallelism=dice.randint(1, 3), completionMode="Indexed")]
        case _:
            members = gang(name, count)
            for member in members:
                member["spec"] = json.loads(json.dumps(pod["spec"]))
            return members


@pytest.mark.parametrize("seed", range(DISTINCT))
def test_what_simulate_says_comes_true(
    seed: int,
    fluence: Fluence,
    namespace: Namespace,
    own_nodes: NodeFactory,
    installation: Installation,
    resources: Callable[[str], None],
    webhook: Webhook,
    admitted: None,
) -> None:
    resources(RESOURCES)
    wait_for_contract(namespace, "FLUXION_REGION")
    own_nodes(2, cpu="4", labels={"simulated": "yes"})
    own_nodes(1, cpu="4", extended={"example.com/npu": "2"})
    dice = Random(seed)
    for number in range(TRIED // DISTINCT):
        manifests = manifests_of(dice, f"case-{seed}-{number}")
        said = asked(installation, namespace, manifests)
        expected = bound_at_first(manifests, said)
        if created(namespace, manifests):
            bound = bound_in_the_end(namespace, expected)
            assert bound == expected, (manifests, said, fluence.gangs(namespace.name))
        else:
            assert expected == 0, (manifests, said)
        deleted(namespace, fluence)
