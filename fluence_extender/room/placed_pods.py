"""The pods that have a node or are planned on one, and how many of them a term selects on each node.

Counts are made once a rule about other pods asks for them, and kept up to date from then on. Without such rules only
references are kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from fluence_extender.model.pod import Pod, PodTerm

Terms = tuple[PodTerm, ...]

MOST_COUNTED = 256
"""The most selections for which counts are kept."""


class PlacedPods:
    """Pods with their nodes; ``selects`` says whether a term selects a pod."""

    def __init__(self, selects: Callable[[PodTerm, Pod], bool]) -> None:
        self._selects = selects
        self._by_namespace: dict[str, dict[str, tuple[Pod, str]]] = {}
        self._namespaces: dict[str, str] = {}
        self._counts: dict[tuple[Terms, bool], Counter[str]] = {}

    def copy(self, selects: Callable[[PodTerm, Pod], bool]) -> PlacedPods:
        """Return an independent copy."""
        made = PlacedPods(selects)
        made._by_namespace = {name: dict(pods) for name, pods in self._by_namespace.items()}
        made._namespaces = dict(self._namespaces)
        made._counts = {key: Counter(counts) for key, counts in self._counts.items()}
        return made

    def of(self, uid: str) -> tuple[Pod, str] | None:
        """Return a pod with its node, None for a pod that has no place."""
        namespace = self._namespaces.get(uid)
        return None if namespace is None else self._by_namespace[namespace][uid]

    def put(self, pod: Pod, node: str) -> bool:
        """Record a pod's node and present labels; return whether that changes how many some rule counts."""
        known = self.of(pod.uid)
        if known is not None and known[1] == node and known[0].namespace == pod.namespace:
            self._by_namespace[pod.namespace][pod.uid] = pod, node
            if not self._counts or (known[0].labels == pod.labels and known[0].deleting == pod.deleting):
                return False
            before = self._add(known[0], node, -1)
            return before != self._add(pod, node, 1)
        self.drop(pod.uid)
        self._namespaces[pod.uid] = pod.namespace
        self._by_namespace.setdefault(pod.namespace, {})[pod.uid] = pod, node
        return bool(self._add(pod, node, 1))

    def counted(self, uid: str) -> bool:
        """Return whether some rule counts the pod."""
        known = self.of(uid)
        return known is not None and any(self._counted(key, known[0]) for key in self._counts)

    def drop(self, uid: str) -> None:
        """Forget a pod."""
        namespace = self._namespaces.pop(uid, None)
        if namespace is None:
            return
        pods = self._by_namespace[namespace]
        pod, node = pods.pop(uid)
        if not pods:
            del self._by_namespace[namespace]
        self._add(pod, node, -1)

    def counts(self, terms: Terms, living: bool = False) -> Mapping[str, int]:
        """Return how many pods all of ``terms`` select, by node; with ``living``, none that is being deleted."""
        key = terms, living
        found = self._counts.get(key)
        if found is None:
            if len(self._counts) >= MOST_COUNTED:
                self._counts.clear()
            found = self._counts[key] = Counter()
            # One comparison rules out most pods.
            rules = (rule for term in terms for rule in term.selector if rule.operator == "In")
            first = next(rules, None)
            for pods in self._candidates(terms):
                for pod, node in pods.values():
                    if first is not None and pod.labels.get(first.key) not in first.values:
                        continue
                    if self._counted(key, pod):
                        found[node] += 1
        return found

    def namespaces_changed(self) -> None:
        """Count anew, because labels of namespaces have changed."""
        self._counts.clear()

    def _candidates(self, terms: Terms) -> list[dict[str, tuple[Pod, str]]]:
        """Return the pods of the namespaces in which ``terms`` may select some."""
        named = [{*term.namespaces} for term in terms if term.among is None]
        if not named:
            return [*self._by_namespace.values()]
        return [self._by_namespace[one] for one in set.intersection(*named) if one in self._by_namespace]

    def _counted(self, key: tuple[Terms, bool], pod: Pod) -> bool:
        terms, living = key
        return not (living and pod.deleting) and all(self._selects(term, pod) for term in terms)

    def _add(self, pod: Pod, node: str, sign: int) -> list[tuple[Terms, bool]]:
        """Count a pod once more or less, and return for which selections."""
        changed = [key for key in self._counts if self._counted(key, pod)]
        for key in changed:
            counts = self._counts[key]
            counts[node] += sign
            if not counts[node]:
                del counts[node]
        return changed
