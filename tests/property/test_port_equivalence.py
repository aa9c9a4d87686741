"""Whatever is asked of the matcher port, in whatever order, its engines answer alike."""

from __future__ import annotations

import json
from contextlib import closing
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fluxion_ffi
from fluence_extender.matcher import MatcherError, MatcherOptions, create_matcher
from fluence_extender.matcher.embedded import EmbeddedMatcher
from fluence_extender.matcher.engine import EmbeddedEngine
from fluence_extender.matcher.fluxion import create_fluxion_matcher
from fluence_extender.matcher.formats import FORMATS, FOUND_FORMATS
from fluence_extender.matcher.port import Matcher
from tests.engines import FLUXION
from tests.property.port_pair import Create, Pair
from tests.property.port_scenarios import FILTERS, POLICIES, Grown, random_jobspec

SEEDS = st.integers(0, 2**32)
CALLS = 25


def _counted(graph: Any, options: MatcherOptions) -> Matcher:
    return EmbeddedEngine(graph, options, fewest_counted=0)


def _alike(seed: int, one: Create, other: Create) -> None:
    with closing(Pair(seed, one, other)) as pair:
        pair.run(CALLS)


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_counts_answer_like_the_walker(seed: int) -> None:
    _alike(seed, EmbeddedMatcher, _counted)


if FLUXION.library is not None:
    LIBRARY = FLUXION.library

    @settings(max_examples=60, deadline=None)
    @given(SEEDS)
    def test_the_library_answers_like_the_walker(seed: int) -> None:
        _alike(seed, EmbeddedMatcher, create_fluxion_matcher)

    @pytest.mark.parametrize("name", FORMATS)
    @settings(max_examples=15, deadline=None)
    @given(seed=SEEDS)
    def test_formats_are_written_as_the_library_writes_them(name: str, seed: int) -> None:
        random = Random(seed)
        graph, spec = Grown(random).document, random_jobspec(random)
        policy, filters = random.choice(POLICIES), random.choice(FILTERS)
        options = fluxion_ffi.GraphOptions(policy, filters, name)
        with fluxion_ffi.ResourceGraph(LIBRARY, graph, options) as raw:
            written = _raw(raw, spec)
            found = raw.find("status=up") if name in FOUND_FORMATS else None
        with closing(create_matcher("embedded", graph, MatcherOptions(policy, filters, name))) as matcher:
            assert _told(matcher, spec) == written
            if found is not None:
                assert json.dumps(matcher.find("status=up"), separators=(",", ":")) == found


def _raw(graph: fluxion_ffi.ResourceGraph, spec: Any) -> str:
    try:
        return graph.match(fluxion_ffi.MatchOp.ALLOCATE, spec).R
    except fluxion_ffi.FluxionError:
        return ""


def _told(matcher: Matcher, spec: Any) -> str:
    try:
        written = matcher.match("allocate", spec).R
    except MatcherError:
        return ""
    return written if isinstance(written, str) else f"{json.dumps(written)}\n"
