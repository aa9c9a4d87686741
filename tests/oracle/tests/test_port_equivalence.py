"""In any order of calls libreapi_cli and the walker give the same answers."""

from __future__ import annotations

from contextlib import closing

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engines import FLUXION
from tests.oracle.fluxion import create_fluxion_matcher
from tests.oracle.tests.port_pair import Pair
from tests.oracle.walker import Walker

CALLS = 25

if FLUXION.library is not None:

    @settings(max_examples=60, deadline=None)
    @given(st.integers(0, 2**32))
    def test_the_library_answers_like_the_walker(seed: int) -> None:
        with closing(Pair(seed, Walker, create_fluxion_matcher)) as pair:
            pair.run(CALLS)
