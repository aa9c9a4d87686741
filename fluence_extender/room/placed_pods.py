"""The pods that have a node or are planned on one, and how many of them a term selects on each node.

Pods are counted when a rule about other pods asks for the first time. From then on the counts are kept up to date.
Without such rules nothing is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from immutables import Map

from fluence_extender.model.pod import Pod, PodTerm

Terms = tuple[PodTerm, ...]

MOST_COUNTED = 256
"""The most rules for which counts are kept, each a tuple of terms."""


class PlacedPods:
    """Pods with their nodes; ``selects`` says whether a term selects a pod."""

    def __init__(self, selects: Callable[[PodTerm, Pod], bool]) -> None:
        self._selects = selects
        self._by_namespace: dict[str, Map[str, tuple[Pod, str]]] = {}
        self._namespaces: Map[str, str] = Map()
        self._counts: dict[tuple[Terms, bool], Counter[str]] = {}
        self.revision = 0
        """Grows when a pod comes, goes or moves, and when its labels change or its deletion begins."""

    def copy(self, selects: Callable[[PodTerm, Pod], bool]) -> PlacedPods:
        """Return an independent copy."""
        made = PlacedPods(selects)
        made._by_namespace, made._namespaces = dict(self._by_namespace), self._namespaces
        made._counts = {key: Counter(counts) for key, counts in self._counts.items()}
        return made

    def of(self, uid: str) -> tuple[Pod, str] | None:
        """Return a pod with its node, None for a pod that has no place."""
        namespace = self._namespaces.get(uid)
        return None if namespace is None else self._by_namespace[namespace][uid]

    def put(self, pod: Pod, node: str) -> bool:
        """Record a pod with its node and labels; return whether the counts of some rule have changed."""
        known = self.of(pod.uid)
        if known is not None and known[1] == node and known[0].namespace == pod.namespace:
            self._file(pod, node)
            if known[0].labels == pod.labels and known[0].deleting == pod.deleting:
                return False
            self.revision += 1
            before = self._add(known[0], node, -1)
            return before != self._add(pod, node, 1)
        self.drop(pod.uid)
        self.revision += 1
        self._namespaces = self._namespaces.set(pod.uid, pod.namespace)
        self._file(pod, node)
        return bool(self._add(pod, node, 1))

    def watch(self, other: PlacedPods) -> None:
        """Also count for the rules for which ``other`` counts, so that `put` tells when these counts change."""
        for terms, living in other._counts.keys() - self._counts.keys():
            self.counts(terms, living)

    def counted(self, uid: str) -> bool:
        """Return whether some rule counts the pod."""
        known = self.of(uid)
        return known is not None and any(self._counted(key, known[0]) for key in self._counts)

    def drop(self, uid: str) -> None:
        """Forget a pod."""
        namespace = self._namespaces.get(uid)
        if namespace is None:
            return
        self.revision += 1
        pod, node = self._by_namespace[namespace][uid]
        self._namespaces = self._namespaces.delete(uid)
        left = self._by_namespace[namespace] = self._by_namespace[namespace].delete(uid)
        if not left:
            del self._by_namespace[namespace]
        self._add(pod, node, -1)

    def counts(self, terms: Terms, living: bool = False) -> Mapping[str, int]:
        """Return by node how many pods all of ``terms`` select; with ``living``, without pods being deleted."""
        key = terms, living
        by_node = self._counts.get(key)
        if by_node is None:
            if len(self._counts) >= MOST_COUNTED:
                self._counts.clear()
            by_node = self._counts[key] = Counter()
            # One comparison rules out most pods.
            rules = (rule for term in terms for rule in term.selector if rule.operator == "In")
            first = next(rules, None)
            for pods in self._candidates(terms):
                for pod, node in pods.values():
                    if first is not None and pod.labels.get(first.key) not in first.values:
                        continue
                    if self._counted(key, pod):
                        by_node[node] += 1
        return by_node

    def namespaces_changed(self) -> None:
        """Count anew, because labels of namespaces have changed."""
        self._counts.clear()

    def _file(self, pod: Pod, node: str) -> None:
        pods = self._by_namespace.get(pod.namespace) or Map()
        self._by_namespace[pod.namespace] = pods.set(pod.uid, (pod, node))

    def _candidates(self, terms: Terms) -> list[Map[str, tuple[Pod, str]]]:
        """Return the pods of the namespaces in which ``terms`` may select some."""
        named = [{*term.namespaces} for term in terms if term.among is None]
        if not named:
            return [*self._by_namespace.values()]
        return [self._by_namespace[one] for one in set.intersection(*named) if one in self._by_namespace]

    def _counted(self, key: tuple[Terms, bool], pod: Pod) -> bool:
        terms, living = key
        return not (living and pod.deleting) and all(self._selects(term, pod) for term in terms)

    def _add(self, pod: Pod, node: str, sign: int) -> list[tuple[Terms, bool]]:
        """Add ``sign`` to the count on the node of each rule that selects the pod; return the keys of these rules."""
        changed = [key for key in self._counts if self._counted(key, pod)]
        for key in changed:
            counts = self._counts[key]
            counts[node] += sign
            if not counts[node]:
                del counts[node]
        return changed
