"""A damaged document is refused with a `MatcherError`, and the counted matcher stays as it was."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from random import Random
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fluence_extender.matcher import MatcherError, MatcherOptions, MatchOp
from fluence_extender.matcher.engine import EmbeddedEngine
from tests.property.compact_scenarios import random_cluster, random_jobspec

ODD: tuple[object, ...] = (
    None,
    True,
    -1,
    0,
    1,
    2**31,
    2**53,
    2**64,
    1e30,
    0.5,
    "",
    "x",
    "0",
    [],
    [1],
    {},
    {"min": 1},
    "/cluster0",
    "node",
)
OPTIONS = MatcherOptions(policy="lonode")


def damaged(random: Random, value: Any) -> Any:
    """``value`` with one to three places changed, removed or doubled."""
    value = json.loads(json.dumps(value))
    for _ in range(random.randint(1, 3)):
        place = value
        while isinstance(place, (dict, list)) and place:
            key = random.choice(list(place)) if isinstance(place, dict) else random.randrange(len(place))
            inner = place[key]
            if isinstance(inner, (dict, list)) and inner and random.random() < 0.85:
                place = inner
                continue
            change = random.choice(["odd", "odd", "remove", "swap"])
            if change == "remove":
                del place[key]
            elif change == "swap" and isinstance(place, list):
                place.append(place[random.randrange(len(place))])
            else:
                place[key] = deepcopy(random.choice(ODD))
            break
    return value


def attempt(call: Callable[[], Any]) -> bool:
    """Whether the call succeeds; anything but a `MatcherError` is a failure of the test."""
    try:
        call()
    except MatcherError:
        return False
    return True


@settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32))
def test_damaged_documents_are_refused_and_change_nothing(seed: int) -> None:
    random = Random(seed)
    cluster = random_cluster(random, nested_devices=True, many=False)
    attempt(lambda: EmbeddedEngine(damaged(random, cluster.document()), OPTIONS))
    engine, twin = (EmbeddedEngine(cluster.document(), OPTIONS) for _ in range(2))
    held = None
    for _ in range(4):
        spec = random_jobspec(random, cluster)
        if attempt(partial(engine.match, MatchOp.ALLOCATE, spec, 7)):
            held = twin.match(MatchOp.ALLOCATE, spec, 7)
            break
        attempt(partial(twin.match, MatchOp.ALLOCATE, spec, 7))
    before = len(cluster.nodes)
    branch = cluster.branch(before, cluster.node(cluster.levels[0], "unique"))
    changed = False
    for _ in range(3):
        changed |= attempt(lambda: engine.add_subgraph(damaged(random, branch)))
    if held is not None:
        changed |= attempt(lambda: engine.update_allocate(9, damaged(random, held.R)))
    changed |= attempt(
        lambda: engine.match(MatchOp.ALLOCATE, damaged(random, random_jobspec(random, cluster)), 11)
    )
    if not changed:
        for _ in range(4):
            spec = random_jobspec(random, cluster)
            answers = [outcome(matcher, spec) for matcher in (engine, twin)]
            assert answers[0] == answers[1]


def outcome(matcher: EmbeddedEngine, spec: Any) -> Any:
    try:
        return matcher.match(MatchOp.WITHOUT_ALLOCATING, spec).R
    except MatcherError as error:
        return error.errno
