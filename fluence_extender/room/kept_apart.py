"""Which nodes a pod must avoid because other pods' required anti-affinity keeps it away from them.

A pod that has a node may have a term of required anti-affinity. For the pods that the term selects, kube-scheduler
then refuses all nodes in the same topology domain (InterPodAffinity). Pods that have nodes, or are planned on some,
are filed here by their terms. The terms are filed by namespace and by a label that they require, because most terms
select few pods. Equal terms, as of the replicas of a Deployment, are one entry.

Invariant: what is derived from nodes and holders is dropped when these change. Without any term nothing is computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field

from fluence_extender.model.node import Node
from fluence_extender.model.notation import natural_order
from fluence_extender.model.pod import Pod, PodTerm
from fluence_extender.model.selectors import holds
from fluence_extender.room.placed_pods import PlacedPods

NO_NODES: frozenset[str] = frozenset()

EVERYWHERE = ""
"""The place of terms that select pods by the labels of their namespace."""

MOST_FILED = 8
"""The most values of a label by which a term is filed; a term that allows more values isn't filed by that label."""

Label = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Holder:
    """A pod that has a node, with its terms; ``bound`` is false where it is only planned there."""

    namespace: str
    name: str
    node: str
    terms: tuple[PodTerm, ...]
    bound: bool


@dataclass(slots=True, eq=False)
class _Entry:
    """A term, the uids of the pods that have it, and the nodes of their domains, None until these are needed."""

    term: PodTerm
    holders: set[str] = field(default_factory=set)
    nodes: frozenset[str] | None = None


class KeptApart:
    """The required anti-affinity of pods that have a place among ``nodes``, which the caller keeps up to date.

    ``placed`` are all pods that have a place.
    """

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self._nodes = nodes
        self.placed = PlacedPods(self.counts)
        self._left_out: dict[str, tuple[Pod, str, bool]] = {}
        self._holders: dict[str, _Holder] = {}
        self._entries: dict[PodTerm, _Entry] = {}
        self._filed: dict[str, dict[Label | None, dict[_Entry, None]]] = {}
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._domains: dict[str, dict[str, set[str]]] = {}
        self._unions: dict[frozenset[_Entry], frozenset[str]] = {}

    def copy(self) -> KeptApart:
        """Return a copy that stays as it is."""
        made = KeptApart(dict(self._nodes))
        made._namespaces = dict(self._namespaces)
        made.placed = self.placed.copy(made.counts)
        made._holders = dict(self._holders)
        for term, entry in self._entries.items():
            made._file(_Entry(term, set(entry.holders), entry.nodes))
        return made

    # Observations.

    def put(self, pod: Pod, node: str, bound: bool) -> bool:
        """Record that a pod has a node, or is planned there; return whether a rule about other pods counts it."""
        counted = self.placed.put(pod, node)
        if pod.apart or pod.uid in self._holders:
            self._drop_holder(pod.uid)
            if pod.apart:
                self._put(pod.uid, _Holder(pod.namespace, pod.name, node, pod.apart, bound))
        return counted

    def without(self, uids: Set[str]) -> None:
        """Leave exactly these pods out, until they are named no more."""
        if uids == self._left_out.keys():
            return
        for uid in self._left_out.keys() - uids:
            pod, node, bound = self._left_out.pop(uid)
            self.put(pod, node, bound)
        for uid in uids - self._left_out.keys():
            known, holder = self.placed.of(uid), self._holders.get(uid)
            if known is not None:
                self.drop(uid)
                self._left_out[uid] = *known, holder is not None and holder.bound

    def drop(self, uid: str) -> None:
        """Forget a pod."""
        self.placed.drop(uid)
        self._drop_holder(uid)

    def _drop_holder(self, uid: str) -> None:
        holder = self._holders.pop(uid, None)
        if holder is None:
            return
        for term in {*holder.terms}:
            entry = self._entries[term]
            entry.holders.discard(uid)
            entry.nodes = None
            if not entry.holders:
                self._unfile(entry)
        self._unions.clear()

    def has_bound(self, uid: str) -> None:
        """Record that a planned pod is bound to its node."""
        holder = self._holders.get(uid)
        if holder is not None and not holder.bound:
            self._holders[uid] = _Holder(holder.namespace, holder.name, holder.node, holder.terms, True)

    def nodes_changed(self) -> None:
        """Derive the domains anew, because nodes or their labels have changed."""
        self._domains.clear()
        self._unions.clear()
        for entry in self._entries.values():
            entry.nodes = None

    def put_namespace(self, name: str, labels: Mapping[str, str]) -> bool:
        """Record the labels of a namespace; return whether a term may select other pods now."""
        known = self._namespaces.get(name, {})
        if labels:
            self._namespaces[name] = labels
        else:
            self._namespaces.pop(name, None)
        if known != labels:
            self.placed.namespaces_changed()
        return known != labels and EVERYWHERE in self._filed

    @property
    def namespaces(self) -> Iterable[str]:
        """The namespaces whose labels are known."""
        return tuple(self._namespaces)

    # Answers.

    @property
    def has_terms(self) -> bool:
        """Whether any pod keeps others from nodes."""
        return bool(self._entries)

    def nodes(self, pod: Pod) -> frozenset[str]:
        """Return the nodes that the pod must avoid."""
        if not self._entries:
            return NO_NODES
        found = frozenset(self._selecting(pod))
        if not found:
            return NO_NODES
        if found not in self._unions:
            self._unions[found] = NO_NODES.union(*map(self._covered, found))
        return self._unions[found]

    def keeper(self, pod: Pod, node: str) -> str:
        """Return the pod with a node of its own that keeps this pod away from ``node``, "" if none does."""
        if node not in self.nodes(pod):
            return ""
        keepers = (
            self._holders[uid]
            for entry in self._selecting(pod)
            if node in self._covered(entry)
            for uid in entry.holders
            if uid != pod.uid and self._same_domain(entry.term.key, self._holders[uid].node, node)
        )
        return min((f"{one.namespace}/{one.name}" for one in keepers if one.bound), default="")

    def why(self, pod: Pod) -> str:
        """Return in a few words why the pod must avoid nodes. Only pods of its own namespace are named."""
        keepers = [self._holders[uid] for entry in self._selecting(pod) for uid in entry.holders]
        own = sorted({one.name for one in keepers if one.namespace == pod.namespace}, key=natural_order)
        if not own:
            return f"{KEPT_APART} pods of other namespaces"
        return f"{KEPT_APART} pod {own[0]}" if len(keepers) == 1 else f"{KEPT_APART} pods such as {own[0]}"

    def domain(self, uid: str) -> frozenset[str]:
        """Return the nodes that other pods may have to avoid because of a pod."""
        holder = self._holders.get(uid)
        if holder is None:
            return NO_NODES
        node = self._nodes.get(holder.node)
        if node is None:
            return NO_NODES
        keys = {term.key for term in holder.terms} & node.labels.keys()
        return NO_NODES.union(*(self._by_value(key)[node.labels[key]] for key in keys))

    def around(self, key: str, nodes: Iterable[str]) -> frozenset[str]:
        """Return the nodes in the domains of ``nodes`` by the label ``key``."""
        present = (self._nodes.get(name) for name in nodes)
        values = {node.labels[key] for node in present if node is not None and key in node.labels}
        return NO_NODES.union(*(self._by_value(key)[value] for value in values))

    # Inside.

    def _put(self, uid: str, holder: _Holder) -> None:
        self._holders[uid] = holder
        for term in {*holder.terms}:
            entry = self._entries.get(term)
            if entry is None:
                entry = self._file(_Entry(term))
            entry.holders.add(uid)
            entry.nodes = None
        self._unions.clear()

    def _file(self, entry: _Entry) -> _Entry:
        self._entries[entry.term] = entry
        for place, label in _places(entry.term):
            self._filed.setdefault(place, {}).setdefault(label, {})[entry] = None
        return entry

    def _unfile(self, entry: _Entry) -> None:
        del self._entries[entry.term]
        for place, label in _places(entry.term):
            by_label = self._filed[place]
            by_label[label].pop(entry, None)
            if not by_label[label]:
                del by_label[label]
            if not by_label:
                del self._filed[place]

    def _selecting(self, pod: Pod) -> Iterator[_Entry]:
        """Yield the terms that select the pod."""
        for place in (pod.namespace, EVERYWHERE):
            by_label = self._filed.get(place)
            if by_label is None:
                continue
            for label in (None, *pod.labels.items()):
                for entry in by_label.get(label, ()):
                    if self.selects(entry.term, pod):
                        yield entry

    def selects(self, term: PodTerm, pod: Pod) -> bool:
        """Return whether a term selects a pod."""
        if not all(holds(rule, pod.labels) for rule in term.selector):
            return False
        if pod.namespace in term.namespaces:
            return True
        labels = self._namespaces.get(pod.namespace, {})
        return term.among is not None and all(holds(rule, labels) for rule in term.among)

    def counts(self, term: PodTerm, pod: Pod) -> bool:
        """Return whether a term of a new pod selects a pod.

        kube-scheduler compares the selector of namespaces of a new pod with no labels, too, and so takes all namespaces
        if it holds for these (Kubernetes 1.36, interpodaffinity, mergeAffinityTermNamespacesIfNotEmpty, whose last
        assignment is lost).
        """
        everywhere = term.among is not None and all(holds(rule, {}) for rule in term.among)
        return (everywhere and all(holds(rule, pod.labels) for rule in term.selector)) or self.selects(
            term, pod
        )

    def _covered(self, entry: _Entry) -> frozenset[str]:
        """Return the nodes in the domains of the pods that have a term."""
        if entry.nodes is None:
            entry.nodes = self.around(entry.term.key, (self._holders[uid].node for uid in entry.holders))
        return entry.nodes

    def _by_value(self, key: str) -> Mapping[str, set[str]]:
        """Return the nodes by their value of a label."""
        if key not in self._domains:
            found: dict[str, set[str]] = {}
            for name, node in self._nodes.items():
                if key in node.labels:
                    found.setdefault(node.labels[key], set()).add(name)
            self._domains[key] = found
        return self._domains[key]

    def _same_domain(self, key: str, one: str, other: str) -> bool:
        nodes = self._nodes.get(one), self._nodes.get(other)
        values = [node.labels.get(key) for node in nodes if node is not None]
        return len(values) == 2 and values[0] is not None and values[0] == values[1]


KEPT_APART = "kept from it by the required podAntiAffinity of"
"""How the reason begins that says why a pod must avoid a node."""


def _places(term: PodTerm) -> Iterator[tuple[str, Label | None]]:
    """Yield where a term is filed: for each namespace, by each value that it allows of some label, or by none."""
    rules = [one for one in term.selector if one.operator == "In" and len(one.values) <= MOST_FILED]
    rule = min(rules, key=lambda one: len(one.values), default=None)
    labels = [(rule.key, value) for value in {*rule.values}] if rule is not None else [None]
    for place in {*term.namespaces} if term.among is None else {EVERYWHERE}:
        for label in labels:
            yield place, label
