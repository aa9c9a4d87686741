"""Workloads: where their pods get annotations from, and whether Fluence places them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from fluence_extender.apps.kubectl.manifests import child, entries, scalar, texts
from fluence_extender.model.names import GROUP_LABEL, SCHEDULER_NAME
from fluence_extender.selection.request import SHOTS_VARIABLE

ANY = "*"
"""In a path: every item of a list, every value of a map."""

_KUBEFLOW = {
    "PyTorchJob": "pytorchReplicaSpecs",
    "TFJob": "tfReplicaSpecs",
    "XGBoostJob": "xgbReplicaSpecs",
    "PaddleJob": "paddleReplicaSpecs",
    "JAXJob": "jaxReplicaSpecs",
}
"""Kind of the Kubeflow training operator -> the key of its replicas."""

_POD_TEMPLATE = (("spec", "template"),)
TEMPLATES: dict[str, tuple[tuple[str, ...], ...]] = {
    "Pod": (),
    "CronJob": (("spec", "jobTemplate", "spec", "template"),),
    "JobSet": (("spec", "replicatedJobs", ANY, "template", "spec", "template"),),
    "LeaderWorkerSet": (
        ("spec", "leaderWorkerTemplate", "leaderTemplate"),
        ("spec", "leaderWorkerTemplate", "workerTemplate"),
    ),
    "MPIJob": (("spec", "mpiReplicaSpecs", ANY, "template"),),
    "RayCluster": (
        ("spec", "headGroupSpec", "template"),
        ("spec", "workerGroupSpecs", ANY, "template"),
    ),
    **{kind: (("spec", replicas, ANY, "template"),) for kind, replicas in _KUBEFLOW.items()},
    "RayService": (
        ("spec", "rayClusterConfig", "headGroupSpec", "template"),
        ("spec", "rayClusterConfig", "workerGroupSpecs", ANY, "template"),
    ),
    "RayJob": (
        ("spec", "rayClusterSpec", "headGroupSpec", "template"),
        ("spec", "rayClusterSpec", "workerGroupSpecs", ANY, "template"),
    ),
}
"""Kind -> paths to its pod templates. Any other kind has its template, if it has one, at spec.template."""


@dataclass(frozen=True, slots=True)
class Workload:
    """An object and its pod templates; ``label`` is Kind/name."""

    node: MappingNode
    label: str
    templates: tuple[MappingNode, ...]

    @property
    def ours(self) -> bool:
        """Whether Fluence places its pods: they name our scheduler, or have a group label of ours."""
        places = (self.node, *self.templates)
        return any(
            scalar(one, "spec", "schedulerName") == SCHEDULER_NAME
            or scalar(one, "metadata", "labels", GROUP_LABEL)
            for one in places
        )

    def variables(self, *places: MappingNode) -> list[str]:
        """Return the values of N_SHOTS in the containers of ``places``; by default, of the object and its templates."""
        return [value for one in places or (self.node, *self.templates) for value in _variables(one)]


def workload(node: MappingNode) -> Workload:
    """Return a Kubernetes object as a workload; an object that makes no pods has no templates."""
    kind = scalar(node, "kind")
    name = scalar(node, "metadata", "name") or scalar(node, "metadata", "generateName")
    found: dict[int, MappingNode] = {}
    for path in TEMPLATES.get(kind, _POD_TEMPLATE):
        for one in _at(node, path):
            if isinstance(one, MappingNode):
                found[id(one)] = one
    return Workload(node, f"{kind or 'object'}/{name or '(unnamed)'}", tuple(found.values()))


def annotations_of(node: MappingNode) -> dict[str, str]:
    """Return the annotations of an object or a template."""
    return texts(child(node, "metadata", "annotations"))


def _at(node: Node | None, path: tuple[str, ...]) -> Iterator[Node]:
    if node is None:
        return
    if not path:
        yield node
    elif path[0] != ANY:
        yield from _at(child(node, path[0]), path[1:])
    elif isinstance(node, SequenceNode):
        for one in node.value:
            yield from _at(one, path[1:])
    else:
        for _, value in entries(node):
            yield from _at(value, path[1:])


def _variables(pod: MappingNode) -> Iterator[str]:
    for place in ("containers", "initContainers"):
        for container in _at(pod, ("spec", place, ANY)):
            for variable in _at(container, ("env", ANY)):
                value = child(variable, "value")
                if scalar(variable, "name") == SHOTS_VARIABLE and isinstance(value, ScalarNode):
                    yield value.value
