"""One traversal: the walk that decides which vertices a request gets at a given time.

The walk goes down from the root, matches the levels of the request to the levels of the graph, prunes what can't help,
scores what stays on the way up, and marks the chosen edges with its sequence number. It changes nothing else: `grant`
takes the vertices. Order and tie-breaks are libreapi_cli's, and so is ``errno``, which a
later step may report without having set it.
"""

from __future__ import annotations

from errno import EBUSY, EINVAL, ENODEV

from tests.oracle.walker.graph import MAX_DEPTH, SHARERS, UP, Edge, Graph, GraphVertex
from tests.oracle.walker.policy import Policy
from tests.oracle.walker.request import RequestLevel, Sight, WalkerRequest, Wanted
from tests.oracle.walker.scoring import UNMET, Group, Scores, pack_slots

_FAILED = -1
_NOTHING = Scores()
_CONSTRAINED = ("node", "storage_node")


class Traversal:
    """A walk for ``request`` at the time ``at``.

    ``ever``: ask what the graph could hold at best, whatever is down. ``now``: the vertices are wanted at once, so a
    vertex that any job still holds is refused even if the job's time is over.
    """

    def __init__(
        self,
        graph: Graph,
        policy: Policy,
        request: WalkerRequest,
        at: int,
        *,
        ever: bool,
        now: bool,
        errno: int,
    ) -> None:
        self.at = at
        self.errno = errno
        self.needs = 0
        self.exclusive = False
        self.seq = graph.new_walk()
        self._graph = graph
        self._policy = policy
        self._request = request
        self._duration = request.duration
        self._constraint = request.constraint
        self._ever = ever
        self._now = now

    def run(self) -> bool:
        """Select; return whether the request fits.

        On success the chosen edges carry ``seq``, and ``needs`` and ``exclusive`` are the root's.
        """
        root = self._graph.root
        top = self._request.top
        scores = Scores()
        exclusive = self._visit(root, top, True, False, scores)
        if exclusive == _FAILED:
            return False
        self.exclusive = bool(exclusive)
        scores.of(root.type).add(Group(scores.score, scores.avail, ()))
        if not self._resolve(root, top, scores):
            self.errno = ENODEV
            return False
        return True

    def _resolve(self, root: GraphVertex, top: RequestLevel, scores: Scores) -> bool:
        if not self._policy.choose_top(top, scores):
            return False
        self.needs = 1
        for wanted in top.resources:
            if wanted.type == root.type:
                self.needs = wanted.count.within(scores.avail)
                if self.needs == 0:
                    return False
        if any(found.qualified == 0 for found in scores.by_type.values()):
            return False
        mark_with_parents(self._graph, scores, self.seq)
        return True

    def _visit(
        self, vertex: GraphVertex, level: RequestLevel, pristine: bool, exclusive: bool, parent: Scores
    ) -> int:
        """Try a vertex and report to ``parent``. Return whether it is wanted exclusively, or _FAILED.

        ``pristine``: nothing of the request has matched above, so levels of the graph may be passed over.
        """
        sight = level.sight(vertex.type)
        match = sight.match
        slot = sight.slot
        if slot is not None and not _has_slot(vertex, slot):
            slot = None
        if match is None and slot is None and (sight.clash or not pristine):
            self.errno = EBUSY
            return _FAILED
        exclusive = exclusive or (match is not None and match.exclusive is True)
        avail = self._admit(vertex, sight, exclusive)
        if not avail:
            return _FAILED
        policy = self._policy
        centric = policy.node_centric and vertex.type == "node"
        if centric and not policy.enter_node(vertex):
            self.errno = EINVAL
            return _FAILED
        vertex.seen = self.seq
        scores = self._look_below(vertex, level, match, slot, exclusive) if vertex.out else _NOTHING
        met = match is None or self._choose(match.below, scores)
        if centric:
            policy.leave_node()
        if not met:
            self.errno = EBUSY
            return _FAILED
        self._report(scores, policy.score(vertex), avail, parent)
        if match is not None and match.label:
            vertex.label = (self.seq, match.label)
        return exclusive

    def _look_below(
        self,
        vertex: GraphVertex,
        level: RequestLevel,
        match: Wanted | None,
        slot: Wanted | None,
        exclusive: bool,
    ) -> Scores:
        """Return what the children offer the slot, else what the match wants below it, else the same level."""
        scores = Scores()
        if slot is not None:
            self._explore_slots(vertex, slot, scores)
        elif match is not None:
            self._explore(vertex, match.below, False, exclusive, scores, 1)
        else:
            self._explore(vertex, level, True, exclusive, scores, 1)
        return scores

    def _report(self, scores: Scores, score: int, avail: int, parent: Scores) -> None:
        """Mark what was chosen below, or leave the choice to the parent."""
        if score > UNMET:
            if scores.constrained:
                mark_chosen(scores, self.seq)
            elif scores.by_type:
                parent.merge(scores)
        parent.avail = avail
        parent.score = score

    def _admit(self, vertex: GraphVertex, sight: Sight, exclusive: bool) -> int:
        """Return how much of the vertex is free, 0 if it is pruned."""
        before, self.errno = self.errno, EBUSY
        if vertex.status != UP and not self._ever:
            return 0
        if self._constraint is not None and vertex.type in _CONSTRAINED and not self._constraint(vertex):
            return 0
        at, duration = self.at, self._duration
        plans = vertex.plans
        avail = vertex.size if plans is None else plans.free_during(at, duration)
        if not avail:
            return 0
        if sight.match is not None and not self._admit_exclusively(vertex, sight.match, exclusive):
            return 0
        wanted = sight.pruned_by
        aggregates = vertex.aggregates
        if (
            wanted is not None
            and wanted.subtree
            and aggregates is not None
            and not aggregates.fit(at, duration, wanted.subtree)
        ):
            return 0
        self.errno = before
        return avail

    def _admit_exclusively(self, vertex: GraphVertex, wanted: Wanted, exclusive: bool) -> bool:
        if exclusive and wanted.exclusive is False:
            self.errno = EINVAL
            return False
        if not (exclusive or wanted.exclusive):
            return True
        if self._now and vertex.allocations:
            return False
        claims = vertex.claims
        return claims is None or claims.free_during(self.at, self._duration) >= SHARERS

    def _explore(
        self,
        vertex: GraphVertex,
        level: RequestLevel,
        pristine: bool,
        exclusive: bool,
        scores: Scores,
        times: int,
    ) -> bool:
        """Visit the children; return whether any of them helps. ``times``: how often the level is wanted."""
        if self._policy.stops_early:
            return self._explore_until_enough(vertex, level, pristine, exclusive, scores, times)
        found = False
        for edge in vertex.out:
            child = edge.target
            if child.seen == self.seq:
                continue
            wanted = self._visit(child, level, pristine, exclusive, scores)
            if wanted != _FAILED:
                avail = scores.avail
                scores.of(child.type).add(Group(scores.score, avail, ((edge, avail, bool(wanted)),)))
                found = True
        return found

    def _explore_until_enough(
        self,
        vertex: GraphVertex,
        level: RequestLevel,
        pristine: bool,
        exclusive: bool,
        scores: Scores,
        times: int,
    ) -> bool:
        found = False
        tally = _Tally(level, times)
        for _, _, _, edge in vertex.heaviest_first():
            child = edge.target
            if child.seen == self.seq or child.type in tally.satisfied:
                continue
            wanted = self._visit(child, level, pristine, exclusive, scores)
            if wanted != _FAILED:
                avail = scores.avail
                scores.of(child.type).add(Group(scores.score, avail, ((edge, avail, bool(wanted)),)))
                found = True
                if tally.enough(scores):
                    break
        return found

    def _explore_slots(self, vertex: GraphVertex, slot: Wanted, scores: Scores) -> None:
        """Look for the members of a slot among the children, and add every slot they make."""
        members = Scores()
        if not self._explore(vertex, slot.below, False, True, members, slot.most):
            return
        for found in members.by_type.values():
            if found.qualified:
                found.sort(self._policy.slot_keys)
            else:
                self.errno = EINVAL
        pack_slots(slot.below, members, scores)

    def _choose(self, level: RequestLevel, scores: Scores) -> bool:
        """Choose the best children for every resource of the level. Return False if one can't be met."""
        for wanted in level.resources:
            count = wanted.count.within(scores.qualified(wanted.type))
            if count == 0:
                return False
            scores.choose(wanted.type, count, self._policy.keys)
        return True


class _Tally:
    """How much of each resource of a level was found, counted in whole shares."""

    __slots__ = ("_accrued", "_seen", "_shares", "_times", "_wanted", "satisfied")

    def __init__(self, level: RequestLevel, times: int) -> None:
        self._wanted = level.shares
        self._times = times
        self._seen = dict.fromkeys(level.shares, 0)
        self._accrued = dict.fromkeys(level.shares, 0)
        self._shares = dict.fromkeys(level.shares, 0)
        self.satisfied: set[str] = set()

    def enough(self, scores: Scores) -> bool:
        """Count what was found since the last call; return whether every resource has its shares."""
        for name, share in self._wanted.items():
            total = scores.of(name).total
            if total > self._seen[name]:
                self._accrued[name] += total - self._seen[name]
                self._seen[name] = total
                if 0 < share <= self._accrued[name]:
                    self._shares[name] += 1
                    self._accrued[name] = 0
            if share == 0 or self._shares[name] >= self._times:
                self.satisfied.add(name)
        return len(self.satisfied) == len(self._wanted)


def _has_slot(vertex: GraphVertex, slot: Wanted) -> bool:
    """Whether the vertex has children of every type the slot is made of."""
    return all(wanted.type in vertex.child_types for wanted in slot.below.resources)


def mark_chosen(scores: Scores, seq: int) -> None:
    """Mark the edges of the groups chosen below a vertex."""
    for found in scores.by_type.values():
        for group in found.groups[: found.chosen]:
            for edge, needs, exclusive in group.members:
                edge.mark(seq, needs, exclusive)


def mark_with_parents(graph: Graph, scores: Scores, seq: int) -> None:
    """Mark the edges chosen at the top, and above each of them the edges to vertices that were passed over."""
    for name in sorted(scores.by_type, key=graph.type_order):
        found = scores.by_type[name]
        for group in found.groups[: found.chosen]:
            for edge, needs, exclusive in group.members:
                edge.mark(seq, needs, exclusive)
                _mark_above(edge, scores, seq)


def _mark_above(edge: Edge, scores: Scores, seq: int) -> None:
    """Climb to the root, or up to an edge that is marked already: its own climb covers the rest."""
    vertex = edge.source
    for _ in range(MAX_DEPTH):
        if not vertex.parents:
            return
        above = vertex.parents[0]
        if above.seq == seq:
            return
        found = scores.by_type.get(vertex.type)
        if found is not None and not found.best:
            above.mark(seq, vertex.size, False)
        vertex = above.source
