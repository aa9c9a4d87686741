"""The embedded engine on a compact document answers like the walker on the expanded one, call by call."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fluence_extender.matcher import Match, MatcherError, MatcherOptions, UnknownJob
from fluence_extender.matcher.engine import EmbeddedEngine
from fluence_extender.matcher.expansion import expanded
from fluence_extender.matcher.port import Hold, Placement
from fluence_extender.matcher.walker import Walker
from tests.property.compact_scenarios import (
    random_cluster,
    random_jobspec,
    random_op,
    units,
)

POLICIES = (
    "lonode",
    "hinode",
    "lonodex",
    "hinodex",
    "first",
    "firstnodex",
    "low",
    "high",
    "locality",
)
FILTERS = ("ALL:core,ALL:node", "ALL:core,ALL:memory,ALL:gpu")


class Pair:
    """Both matchers on one graph; every call goes to both and must get the same answer."""

    def __init__(self, random: Random, policy: str, filters: str, *, many: bool = False) -> None:
        self.random = random
        nested = policy in ("low", "high", "locality") and random.random() < 0.5
        # Where nodes aren't counted, the walker of the devices doesn't see a node's end as a time to look again.
        filters = FILTERS[0] if nested else filters
        self.options = MatcherOptions(policy=policy, prune_filters=filters)
        self.cluster = random_cluster(random, nested_devices=nested, many=many)
        self.ids = "unique" if many else random.choice(["unique", "repeated"])
        document = self.cluster.document()
        self.counted = EmbeddedEngine(document, self.options)
        self.walker = Walker(expanded(document), self.options)
        self.live: dict[int, tuple[Match, Match]] = {}
        self.holds: dict[int, Placement] = {}

    def step(self) -> None:
        chance = self.random.random()
        if chance < 0.52:
            self.match()
        elif chance < 0.62:
            self.hold()
        elif chance < 0.80:
            self.cancel(self.random.choice([*self.live, *self.holds, 77]))
        elif chance < 0.88:
            self.set_status()
        elif chance < 0.94:
            self.add()
        else:
            self.remove()

    def match(self) -> None:
        jobspec, op = random_jobspec(self.random, self.cluster), random_op(self.random)
        jobid = self.random.choice([None, None, self.random.randrange(40)])
        ours, theirs = (_answer(lambda m=m: m.match(op, jobspec, jobid)) for m in (self.counted, self.walker))
        _assert_same(ours, theirs)
        if isinstance(ours, Match) and op.startswith("allocate"):
            self.live[ours.jobid] = (ours, theirs)

    def hold(self) -> None:
        counts = {name: 1 for name in self.random.sample(("core", "memory"), self.random.randint(1, 2))}
        one = Hold(self.random.randrange(40), self.random.randrange(self.cluster.rank + 1), counts)
        ours, theirs = (m.hold_all([one])[0] for m in (self.counted, self.walker))
        if isinstance(ours, MatcherError):
            assert isinstance(theirs, MatcherError)
            assert ours.errno == theirs.errno
        else:
            assert not isinstance(theirs, MatcherError)
            assert {path: dict(own) for path, own in ours.items()} == theirs
            self.holds[one.jobid] = theirs

    def cancel(self, jobid: int) -> None:
        ours, theirs = (_answer(lambda m=m: m.cancel(jobid)) for m in (self.counted, self.walker))
        _assert_same(ours, theirs)
        self.live.pop(jobid, None)
        self.holds.pop(jobid, None)
        infos = [_answer(lambda m=m: m.info(jobid)) for m in (self.counted, self.walker)]
        if isinstance(infos[0], UnknownJob):
            assert isinstance(infos[1], UnknownJob)
        else:
            assert infos[0] == infos[1]

    def set_status(self) -> None:
        cluster = self.cluster
        path = self.random.choice([*cluster.physical, *cluster.physical, *cluster.levels, *cluster.virtual])
        up = self.random.random() < 0.6
        self.counted.set_status(path, up)
        self.walker.set_status(path, up)

    def add(self) -> None:
        before = len(self.cluster.nodes)
        path = self.cluster.node(self.random.choice(self.cluster.levels), self.ids)
        branch = self.cluster.branch(before, path)
        self.counted.add_subgraph(branch)
        self.walker.add_subgraph(expanded(branch))
        self.follow_growth()

    def remove(self) -> None:
        """Remove a node that isn't its parent's last, once the jobs there are cancelled."""
        paths = self.cluster.physical
        victims = [path for path in paths if sum(_parent(path) == _parent(other) for other in paths) > 1]
        victims = [
            path for path in victims if not any(_parent(other) == path for other in self.cluster.virtual)
        ]
        if not victims:
            return
        path = self.random.choice(victims)
        there = [jobid for jobid, (match, _) in self.live.items() if path in match.placement]
        there += [jobid for jobid, placement in self.holds.items() if path in placement]
        for jobid in there:
            self.cancel(jobid)
        self.counted.remove_subgraph(path)
        self.walker.remove_subgraph(path)
        self.cluster.physical.remove(path)
        self.follow_growth()

    def follow_growth(self) -> None:
        """The walker's count of nodes that are up is libreapi_cli's, which doesn't follow growth; ours does."""
        self.walker.recount_nodes()

    def replay(self) -> None:
        """Fresh matchers that replay what is held answer alike too."""
        current = [path for path in self.cluster.by_path if self.present(path)]
        document = self.cluster.document()
        kept = {self.cluster.by_path[path]["id"] for path in current}
        graph = {
            "nodes": [entry for entry in document["graph"]["nodes"] if entry["id"] in kept],
            "edges": [edge for edge in document["graph"]["edges"] if edge["target"] in kept],
        }
        fresh = {"graph": graph}
        self.counted = EmbeddedEngine(fresh, self.options)
        self.walker = Walker(expanded(fresh), self.options)
        for jobid, (ours, theirs) in self.live.items():
            if ours.at == 0:
                _assert_same(
                    _answer(lambda j=jobid, r=ours.R: self.counted.update_allocate(j, r)),
                    _answer(lambda j=jobid, r=theirs.R: self.walker.update_allocate(j, r)),
                )
        self.live = {}

    def present(self, path: str) -> bool:
        holders = {*self.cluster.physical, *self.cluster.virtual, *self.cluster.levels}
        return path in holders or _parent(path) in holders - set(self.cluster.levels)


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _answer(call: Any) -> Any:
    try:
        return call()
    except MatcherError as error:
        return error


def _assert_same(ours: Any, theirs: Any) -> None:
    if isinstance(theirs, MatcherError):
        assert isinstance(ours, MatcherError), (ours, theirs)
        assert ours.errno == theirs.errno, (ours, theirs)
        return
    assert not isinstance(ours, MatcherError), (ours, theirs)
    if theirs is None:
        return
    assert (ours.jobid, ours.reserved, ours.at) == (theirs.jobid, theirs.reserved, theirs.at)
    assert (ours.R is None) == (theirs.R is None)
    if ours.R is not None:
        listed = units(ours.R)
        assert listed == units(theirs.R), (listed, units(theirs.R))
        amounts = {path: sum(held.values()) for path, held in ours.placement.items()}
        assert amounts == {path: len(ids - {-1}) for path, ids in listed.items()}


@pytest.mark.parametrize("policy", POLICIES)
@settings(deadline=None, max_examples=25, suppress_health_check=list(HealthCheck))
@given(random=st.randoms(use_true_random=False), filters=st.sampled_from(FILTERS))
def test_counted_and_walked_matchers_answer_alike(policy: str, random: Random, filters: str) -> None:
    pair = Pair(random, policy, filters)
    for _ in range(12):
        pair.step()
    pair.replay()
    for _ in range(3):
        pair.match()
