"""In any order of calls the oracle and libreapi_cli give the same answers.

With the profile ``nightly`` (``make nightly``) 50,000 scenarios are run. The test exists only where the library is
found.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tests.engines import FLUXION
from tests.oracle import MatcherOptions
from tests.oracle.engines import ENGINES
from tests.oracle.tests.engine_scenarios import FILTERS, POLICIES, Engines

RANDOMS = st.randoms(use_true_random=False)
NIGHTLY = settings().max_examples > 1_000
SCENARIOS = 50_000 if NIGHTLY else 60


class EnginesAnswerAlike(RuleBasedStateMachine):
    """The oracle first: its answers are those that the library must give."""

    engines: Engines

    @initialize(random=RANDOMS, policy=st.sampled_from(POLICIES), filters=st.sampled_from(FILTERS))
    def load(self, random: Random, policy: str, filters: str) -> None:
        options = MatcherOptions(policy=policy, prune_filters=filters)
        self.engines = Engines(random, options, list(ENGINES.values()))

    @rule(random=RANDOMS, times=st.integers(1, 4))
    def match(self, random: Random, times: int) -> None:
        self.engines.random = random
        for _ in range(times):
            self.engines.match()

    @rule(random=RANDOMS, times=st.integers(1, 4))
    def hold(self, random: Random, times: int) -> None:
        self.engines.random = random
        for _ in range(times):
            self.engines.hold()

    @rule(random=RANDOMS)
    def cancel(self, random: Random) -> None:
        self.engines.random = random
        self.engines.cancel_one()

    @rule(random=RANDOMS)
    def set_status(self, random: Random) -> None:
        self.engines.random = random
        self.engines.set_status()

    @rule(random=RANDOMS)
    def grow(self, random: Random) -> None:
        self.engines.random = self.engines.graph.random = random
        self.engines.grow()

    @rule(random=RANDOMS)
    def shrink(self, random: Random) -> None:
        self.engines.random = random
        self.engines.shrink()

    @rule(random=RANDOMS)
    def replay(self, random: Random) -> None:
        self.engines.random = random
        self.engines.replay()

    def teardown(self) -> None:
        if hasattr(self, "engines"):
            self.engines.close()


if FLUXION.library is not None:

    @pytest.mark.timeout(6 * 3600 if NIGHTLY else 300)
    def test_engines_answer_alike() -> None:
        run_state_machine_as_test(
            EnginesAnswerAlike,
            settings=settings(
                max_examples=SCENARIOS,
                stateful_step_count=15,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
