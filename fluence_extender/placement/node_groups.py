"""The nodes by label and by state, so that a pod's rules are compared with values instead of with every node.

Users write the rules, and thousands of pods may have different ones. It would take seconds to check each rule on each
node. Here a rule about a label costs one set operation for each value that it names. Tolerations are compared once with
all nodes that have equal taints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set

from fluence_extender.model.node import Node
from fluence_extender.model.pod import NodeTerm, Requirement
from fluence_extender.model.taints import Taint

Holds = Callable[[Requirement, Mapping[str, str]], bool]
"""Returns whether an expression holds for labels."""

State = tuple[bool, tuple[Taint, ...], bool, bool, frozenset[str]]
"""Whether the node can be read, its taints, whether it is ready and cordoned, and the features that it declares."""

NAME = "metadata.name"
NO_NODES: frozenset[str] = frozenset()


class NodeGroups:
    """Nodes by label and by state; ``holds`` decides about a single value."""

    def __init__(self, holds: Holds) -> None:
        self._holds = holds
        self._nodes: dict[str, Node] = {}
        self._by_label: dict[str, dict[str, set[str]]] = {}
        self._by_state: dict[State, set[str]] = {}

    def put(self, node: Node) -> None:
        """Record a node that joins or has changed."""
        self.drop(node.name)
        self._nodes[node.name] = node
        for key, value in node.labels.items():
            self._by_label.setdefault(key, {}).setdefault(value, set()).add(node.name)
        self._by_state.setdefault(_state(node), set()).add(node.name)

    def drop(self, name: str) -> None:
        """Forget a node."""
        node = self._nodes.pop(name, None)
        if node is None:
            return
        for key, value in node.labels.items():
            values = self._by_label[key]
            values[value].discard(name)
            if not values[value]:
                del values[value]
            if not values:
                del self._by_label[key]
        names = self._by_state[_state(node)]
        names.discard(name)
        if not names:
            del self._by_state[_state(node)]

    def all(self) -> set[str]:
        """Return the names of all nodes."""
        return set(self._nodes)

    def states(self) -> Iterator[tuple[Node, Set[str]]]:
        """Iterate over the groups of nodes with equal states, each with one of its nodes."""
        for names in self._by_state.values():
            yield self._nodes[next(iter(names))], names

    def labelled(self, key: str, value: str) -> Set[str]:
        """Return the nodes with this label."""
        return self._by_label.get(key, {}).get(value, NO_NODES)

    def matching(self, terms: Iterable[NodeTerm]) -> set[str]:
        """Return the nodes for which one of the terms holds; an empty term never does."""
        found: set[str] = set()
        for term in terms:
            left: set[str] | None = None
            for some in (*map(self._with_label, term.expressions), *map(self._with_field, term.fields)):
                left = some if left is None else left & some
            found |= left or set()
        return found

    def _with_label(self, rule: Requirement) -> set[str]:
        values = self._by_label.get(rule.key, {})
        match rule.operator:
            case "In":
                return set().union(*(values.get(one, NO_NODES) for one in rule.values))
            case "NotIn":
                return self.all().difference(*(values.get(one, NO_NODES) for one in rule.values))
            case "DoesNotExist":
                return self.all().difference(*values.values())
        return set().union(*(names for one, names in values.items() if self._holds(rule, {rule.key: one})))

    def _with_field(self, rule: Requirement) -> set[str]:
        if rule.key == NAME and rule.operator == "In":
            return self.all().intersection(rule.values)
        if rule.key == NAME and rule.operator == "NotIn":
            return self.all().difference(rule.values)
        return {name for name in self._nodes if self._holds(rule, {NAME: name})}


def _state(node: Node) -> State:
    return not node.problem, node.taints, node.ready, node.unschedulable, node.features
