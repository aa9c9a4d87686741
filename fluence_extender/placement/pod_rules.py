"""On which nodes the rules about other pods let members run: required affinity and anti-affinity, and spread.

The answers are those of kube-scheduler's filters InterPodAffinity and PodTopologySpread (Kubernetes 1.36), given the
pods that have places and the members that are placed so far. All is counted by domain, in arrays over the rows of a
capacity table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fluence_extender.model.names import HOSTNAME
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod, PodTerm, SpreadRule, alone_on_node
from fluence_extender.model.selectors import holds, term_holds, untolerated
from fluence_extender.room.kept_apart import KeptApart

Rows = NDArray[np.bool_]

ABSENT = Node("")
"""Stands for a node that has left but still holds something."""


class _Tally:
    """How many pods count in each domain of a label: ``codes`` has the domain of each row, the last one for none."""

    def __init__(self, codes: NDArray[np.intp], domains: int, counted: Rows | None = None) -> None:
        self.codes = codes
        self.counts = np.zeros(domains + 1, dtype=np.int64)
        self.domains = domains
        self._counted = counted

    def add(self, row: int, count: int = 1) -> None:
        """Count pods on a row."""
        code = self.codes[row]
        if code < self.domains and (self._counted is None or self._counted[row]):
            self.counts[code] += count

    def by_row(self) -> NDArray[np.int64]:
        """Return the count of each row's domain, 0 for rows that are in none."""
        found: NDArray[np.int64] = self.counts[self.codes]
        return found

    @property
    def inside(self) -> Rows:
        """Which rows are in a domain."""
        found: Rows = self.codes < self.domains
        return found


class _Spread:
    """One constraint of spread of one kind of members."""

    def __init__(self, rule: SpreadRule, tally: _Tally, counted: Rows, itself: bool) -> None:
        self.tally = tally
        self._most = rule.max_skew - itself
        self._present = np.unique(tally.codes[counted & tally.inside])
        self._bounded = len(self._present) >= rule.min_domains

    def allowed(self) -> Rows:
        """Return the rows on which one more member keeps the skew."""
        tally = self.tally
        least = int(tally.counts[self._present].min()) if self._bounded and len(self._present) else 0
        found: Rows = tally.inside & (tally.by_row() - least <= self._most)
        return found


class _Member:
    """What one kind of members is judged by."""

    def __init__(self, closed: Rows, follows_itself: bool) -> None:
        self.closed = closed
        self.follows_itself = follows_itself
        self.apart: list[_Tally] = []
        self.near: list[_Tally] = []
        self.spread: list[_Spread] = []
        self.feeds: list[_Tally] = []


class PodRules:
    """The rules of ``pods``, one of each kind of members, on the rows ``names`` of a table.

    ``kept_apart`` has the pods that have places, and ``nodes`` are all nodes.
    """

    def __init__(
        self, pods: Sequence[Pod], names: Sequence[str], nodes: Mapping[str, Node], kept_apart: KeptApart
    ) -> None:
        self._nodes = [nodes.get(name, ABSENT) for name in names]
        self._rows = {name: row for row, name in enumerate(names)}
        self._kept_apart = kept_apart
        self._codes: dict[str, tuple[NDArray[np.intp], int]] = {}
        self._tallies: dict[tuple[str, tuple[PodTerm, ...]], _Tally] = {}
        self._spreads: dict[tuple[str, tuple[SpreadRule, ...], SpreadRule, object], tuple[_Tally, Rows]] = {}
        self._members = [self._member(pod) for pod in pods]
        self._connect(pods)
        self._every = list({id(one): one for member in self._members for one in _tallies(member)}.values())
        self._initial = [tally.counts.copy() for tally in self._every]

    # Answers.

    def allowed(self, kind: int) -> Rows:
        """Return the rows on which the next member of a kind may run."""
        member = self._members[kind]
        found = ~member.closed
        for tally in member.apart:
            found &= tally.by_row() == 0
        if member.near:
            found &= self._near(member)
        for spread in member.spread:
            found &= spread.allowed()
        return found

    @property
    def simple(self) -> bool:
        """Whether no other choice lets more members fit: they are alike, and their rules are about one label."""
        return len(self._members) == 1 and len(self._codes) == 1

    def begins(self, kind: int) -> bool:
        """Return whether the next member of a kind is the first of those that have to be near each other."""
        member = self._members[kind]
        return bool(member.near) and member.follows_itself and not _any_counted(member.near)

    def domains_near(self, kind: int) -> NDArray[np.intp]:
        """Return the domain of each row in which the first term of affinity keeps the members of a kind together."""
        return self._members[kind].near[0].codes

    def signatures(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the domains of rows by all labels that rules name, rows x labels."""
        return np.stack([codes[rows] for codes, _ in self._codes.values()], axis=1)

    def put(self, kind: int, row: int) -> None:
        """Place a member of a kind on a row."""
        for tally in self._members[kind].feeds:
            tally.add(row)

    def reset(self) -> None:
        """Take all members away again."""
        for tally, counts in zip(self._every, self._initial, strict=True):
            tally.counts[:] = counts

    # Inside.

    def _near(self, member: _Member) -> Rows:
        inside: Rows = np.logical_and.reduce([tally.inside for tally in member.near])
        if member.follows_itself and not _any_counted(member.near):
            return inside
        found: Rows = inside & np.logical_and.reduce([tally.by_row() > 0 for tally in member.near])
        return found

    def _member(self, pod: Pod) -> _Member:
        closed = np.zeros(len(self._nodes), dtype=bool)
        for name in self._kept_apart.nodes(pod):
            if name in self._rows:
                closed[self._rows[name]] = True
        counts = self._kept_apart.counts
        member = _Member(closed, all(counts(term, pod) for term in pod.near))
        member.apart = [self._tally(term.key, (term,)) for term in pod.apart]
        member.near = [self._tally(term.key, pod.near) for term in pod.near]
        if pod.spread:
            self._add_spread(member, pod)
        return member

    def _add_spread(self, member: _Member, pod: Pod) -> None:
        fitting = tuple(sorted(pod.node_selector.items())), pod.affinity, pod.tolerations
        for rule in pod.spread:
            key = pod.namespace, pod.spread, rule, fitting
            if key not in self._spreads:
                self._spreads[key] = self._spread_tally(pod, rule)
            tally, counted = self._spreads[key]
            itself = rule.selector is not None and all(holds(one, pod.labels) for one in rule.selector)
            member.spread.append(_Spread(rule, tally, counted, itself))

    def _spread_tally(self, pod: Pod, rule: SpreadRule) -> tuple[_Tally, Rows]:
        """Return how many pods a constraint counts in each domain, and the rows of the nodes that count for it."""
        counted = self._fit(pod, rule)
        for one in pod.spread:
            codes, domains = self._coded(one.key)
            counted &= codes < domains
        tally = _Tally(*self._coded(rule.key), counted)
        # Source: countPodsMatchSelector. An empty selector counts no pods, but it selects the pod itself.
        if rule.selector:
            terms = (PodTerm(rule.key, rule.selector, (pod.namespace,)),)
            self._count(tally, self._kept_apart.placed.counts(terms, living=True))
        return tally, counted

    def _fit(self, pod: Pod, rule: SpreadRule) -> Rows:
        """Return the rows of nodes that count for a constraint."""
        found = np.ones(len(self._nodes), dtype=bool)
        if not rule.counts_unfit and (pod.node_selector or pod.affinity is not None):
            found &= np.fromiter((_matches(pod, node) for node in self._nodes), bool, len(self._nodes))
        if not rule.counts_tainted:
            found &= np.fromiter(
                (
                    not node.taints or untolerated(node.taints, pod.tolerations) is None
                    for node in self._nodes
                ),
                bool,
                len(self._nodes),
            )
        return found

    def _connect(self, pods: Sequence[Pod]) -> None:
        """Say for each kind of members in which tallies it counts once it is placed."""
        selects, counts = self._kept_apart.selects, self._kept_apart.counts
        for term in dict.fromkeys(term for pod in pods for term in pod.apart):
            held = _Tally(*self._coded(term.key))
            for member, pod in zip(self._members, pods, strict=True):
                if term in pod.apart:
                    member.feeds.append(held)
                if selects(term, pod):
                    member.apart.append(held)
        for (_, terms), tally in self._tallies.items():
            for member, pod in zip(self._members, pods, strict=True):
                if all(counts(term, pod) for term in terms):
                    member.feeds.append(tally)
        for (namespace, _, rule, _), (tally, _) in self._spreads.items():
            for member, pod in zip(self._members, pods, strict=True):
                if (
                    pod.namespace == namespace
                    and rule.selector
                    and all(holds(one, pod.labels) for one in rule.selector)
                ):
                    member.feeds.append(tally)

    def _tally(self, key: str, terms: tuple[PodTerm, ...]) -> _Tally:
        """Return how many pods all of ``terms`` select in each domain of a label."""
        tally = self._tallies.get((key, terms))
        if tally is None:
            tally = self._tallies[key, terms] = _Tally(*self._coded(key))
            self._count(tally, self._kept_apart.placed.counts(terms))
        return tally

    def _count(self, tally: _Tally, counts: Mapping[str, int]) -> None:
        for name, count in counts.items():
            row = self._rows.get(name)
            if row is not None:
                tally.add(row, count)

    def _coded(self, key: str) -> tuple[NDArray[np.intp], int]:
        """Return the domain of each row by a label, and how many there are; rows without the label have that number."""
        if key not in self._codes:
            values: dict[str, int] = {}
            found = [
                values.setdefault(node.labels[key], len(values)) if key in node.labels else -1
                for node in self._nodes
            ]
            codes = np.array(found, dtype=np.intp)
            codes[codes < 0] = len(values)
            self._codes[key] = codes, len(values)
        return self._codes[key]


def kept_by_ports(pods: Sequence[Pod], selects: Callable[[PodTerm, Pod], bool]) -> bool:
    """Return whether the host ports of pods, and what stands among these for rules, keep all the rules among them."""
    if any(pod.near or pod.spread for pod in pods):
        return False
    holders: dict[PodTerm, list[Pod]] = {}
    for pod in pods:
        for term in pod.apart:
            holders.setdefault(term, []).append(pod)
    for term, holding in holders.items():
        selected = [pod for pod in pods if selects(term, pod)]
        port = alone_on_node(term)
        if selected and not (
            term.key == HOSTNAME and all(port in pod.host_ports for pod in (*selected, *holding))
        ):
            return False
    return True


def _tallies(member: _Member) -> list[_Tally]:
    return [*member.apart, *member.near, *member.feeds, *(one.tally for one in member.spread)]


def _any_counted(tallies: Sequence[_Tally]) -> bool:
    return any(bool(tally.counts.any()) for tally in tallies)


def _matches(pod: Pod, node: Node) -> bool:
    """Return whether a node has the labels that the pod's node selector and node affinity require."""
    if any(node.labels.get(key) != value for key, value in pod.node_selector.items()):
        return False
    return pod.affinity is None or any(term_holds(term, node) for term in pod.affinity)
