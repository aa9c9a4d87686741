"""The worked examples of docs/slurm.md do what the page says."""

from __future__ import annotations

import re
from copy import deepcopy
from pathlib import Path

from fluence_extender.model.names import DOMAIN
from tests.e2e.harness import Manifest, Namespace, documents, node_of, phase_of, wait_for
from tests.e2e.nodes import NodeFactory
from tests.e2e.service import Fluence

TEXT = (Path(__file__).parents[2] / "docs" / "slurm.md").read_text()
JOBS: dict[str, Manifest] = {
    job["metadata"]["name"]: job
    for block in re.findall(r"^```yaml\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    for job in documents(block)
}
GROUP_SIZE = f"{DOMAIN}/group-size"


def example(name: str, **annotations: str) -> Manifest:
    """A Job of the page, with more annotations on its pods."""
    made = deepcopy(JOBS[name])
    metadata = made["spec"]["template"].setdefault("metadata", {})
    metadata.setdefault("annotations", {}).update(annotations)
    return made


def for_seconds(name: str, seconds: int) -> Manifest:
    """A Job of the page whose pods succeed after some seconds, on played nodes too, which start no container."""
    made = example(name, **{f"demo.{DOMAIN}/run-for": f"{seconds}s"})
    made["spec"]["template"]["spec"]["containers"][0] |= {
        "image": "busybox:1.37",
        "command": ["sleep", str(seconds)],
    }
    return made


def names_of_gangs(fluence: Fluence, namespace: Namespace) -> dict[str, int]:
    """The sizes of the gangs, by name."""
    return {one["name"]: one["size"] for one in fluence.gangs(namespace.name)}


def test_every_job_of_the_page_is_tried() -> None:
    assert list(JOBS) == ["lattice", "seeds", "prep", "solve", "desk"]


def test_parallel_and_interactive_jobs_get_their_places(
    fluence: Fluence, namespace: Namespace, nodes: NodeFactory
) -> None:
    nodes(1, cpu="16")
    namespace.create(example("lattice"), example("desk"))
    assert all(node_of(one) for one in namespace.wait_until_bound(5))
    sizes = names_of_gangs(fluence, namespace)
    assert sizes.pop("lattice") == 4
    assert list(sizes.values()) == [1]


def test_array_runs_as_many_at_a_time_as_its_throttle(
    fluence: Fluence, namespace: Namespace, nodes: NodeFactory
) -> None:
    nodes(1, cpu="16")
    namespace.create(for_seconds("seeds", 1))
    most = 0

    def over() -> bool:
        nonlocal most
        pods = namespace.pods()
        most = max(most, sum(phase_of(one) in ("Pending", "Running") for one in pods))
        return sum(phase_of(one) == "Succeeded" for one in pods) == 6

    wait_for(over)
    assert most == 2


def test_array_without_a_throttle_is_a_gang_unless_its_pods_say_that_they_are_alone(
    fluence: Fluence, namespace: Namespace, nodes: NodeFactory
) -> None:
    nodes(1, cpu="16")
    whole, alone = example("seeds"), example("seeds", **{GROUP_SIZE: "1"})
    whole["metadata"]["name"] = "whole"
    for one in (whole, alone):
        one["spec"]["parallelism"] = 6
    namespace.create(whole, alone)
    namespace.wait_until_bound(12)
    sizes = names_of_gangs(fluence, namespace)
    assert sizes.pop("whole") == 6
    assert set(sizes.values()) == {1}


def test_dependent_job_has_no_pods_until_the_other_has_succeeded(
    fluence: Fluence, namespace: Namespace, nodes: NodeFactory
) -> None:
    nodes(1, cpu="16")
    namespace.create(example("solve"))
    fluence.wait_for_reason(namespace.name, "solve", "waits for Job prep")
    namespace.create(for_seconds("prep", 2))
    fluence.wait_for_reason(namespace.name, "solve", "waits for Job prep to succeed")
    assert not [one for one in namespace.pods() if one["metadata"]["name"].startswith("solve-")]
    namespace.wait_until_bound(3)
