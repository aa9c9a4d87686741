"""Workloads: where their pods get annotations from, and whether Fluence places them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from fluence_extender.apps.kubectl.manifests import child, entries, scalar, texts
from fluence_extender.model.names import GROUP_LABEL, SCHEDULER_NAME
from fluence_extender.selection.request import SHOTS_VARIABLE

_TEMPLATE_KEYS = frozenset({"template", "leaderTemplate", "workerTemplate"})
"""The keys of pod templates. The template of a Job, in a JobSet, has one of them as well, with a template inside."""


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
    return Workload(node, f"{kind or 'object'}/{name or '(unnamed)'}", tuple(_templates(node)))


def annotations_of(node: MappingNode) -> dict[str, str]:
    """Return the annotations of an object or a template."""
    return texts(child(node, "metadata", "annotations"))


def _templates(holder: MappingNode) -> Iterator[MappingNode]:
    """Yield the pod templates anywhere in the spec of an object, each once, in the order of the text."""
    waiting: list[tuple[str, Node | None]] = [("", child(holder, "spec"))]
    seen: set[tuple[bool, int]] = set()
    while waiting:
        key, node = waiting.pop()
        named = key in _TEMPLATE_KEYS
        if (named, id(node)) in seen:
            continue
        seen.add((named, id(node)))
        if named and isinstance(node, MappingNode) and child(node, "spec", "template") is None:
            yield node
        elif isinstance(node, SequenceNode):
            waiting += [("", one) for one in reversed(node.value)]
        else:
            values: dict[str, Node] = {}
            for name, value in entries(node):
                values.setdefault(name.value, value)
            waiting += reversed(values.items())


def _variables(pod: MappingNode) -> Iterator[str]:
    for place in ("containers", "initContainers"):
        for container in _listed(child(pod, "spec", place)):
            for variable in _listed(child(container, "env")):
                value = child(variable, "value")
                if scalar(variable, "name") == SHOTS_VARIABLE and isinstance(value, ScalarNode):
                    yield value.value


def _listed(node: Node | None) -> Iterator[Node]:
    if isinstance(node, SequenceNode):
        yield from node.value
