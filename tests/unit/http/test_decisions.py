"""What the verbs decide: which nodes pass, which score, whose victims may be evicted."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from fluence_extender.http.scheduler.decisions import (
    AllPass,
    NonePasses,
    OnePasses,
    filter_offer,
    location_of,
    preemptable,
    scores,
)
from fluence_extender.http.scheduler.offer import NamesOffer, NodesOffer, Offer
from fluence_extender.http.scheduler.port import Anywhere, Nowhere, On, RequestedPod
from fluence_extender.http.scheduler.wire import MetaPod, MetaVictims
from tests.unit.http.held_placements import HeldPlacements, on


def named(*names: str) -> NamesOffer:
    return NamesOffer(json.dumps(names).encode())


def whole(*names: str) -> NodesOffer:
    return NodesOffer(json.dumps({"items": [{"metadata": {"name": name}} for name in names]}).encode())


@pytest.mark.parametrize("offer", [named, whole])
def test_filter_follows_the_location(offer: Callable[..., Offer]) -> None:
    assert filter_offer(Anywhere(), offer("n1", "n2")) == AllPass()
    assert filter_offer(On("n2"), offer("n1", "n2")) == OnePasses("n2")
    assert filter_offer(Nowhere("busy"), offer("n1", "n2")) == NonePasses("busy")
    missed = filter_offer(On("n3"), offer("n1", "n2"))
    assert missed == NonePasses("planned on node n3, which isn't among the nodes offered", missed="n3")


def test_only_our_pods_are_looked_up() -> None:
    placements = on("n1")
    assert location_of(RequestedPod("d", "p", "uid-1", "fluence"), placements) == On("n1")
    assert location_of(RequestedPod("d", "p", "uid-1", "default-scheduler"), placements) == Anywhere()
    assert location_of(RequestedPod("d", "p", "uid-2", "fluence"), placements) == Nowhere("unknown pod")


def test_scores_single_out_the_planned_node() -> None:
    assert list(scores(On("b"), ["a", "b"])) == [("a", 0), ("b", 10)]
    assert list(scores(On("c"), ["a", "b"])) == [("a", 0), ("b", 0)]
    assert list(scores(Anywhere(), [])) == []


def test_only_nodes_whose_victims_may_all_be_evicted_stay_candidates() -> None:
    placements = HeldPlacements()
    placements.protected = frozenset({"u2"})
    safe, broken, none = (
        MetaVictims([MetaPod("u1")], 3),
        MetaVictims([MetaPod("u1"), MetaPod("u2")]),
        MetaVictims(),
    )
    victims = {"a": safe, "b": broken, "c": none}
    assert preemptable(victims, placements.may_evict) == {"a": safe, "c": none}
    assert preemptable({}, placements.may_evict) == {}
