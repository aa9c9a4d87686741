"""In any order of calls, counts, the walker and libreapi_cli give the same answers.

With the profile ``nightly`` (``make nightly``) 100,000 scenarios are run.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from fluence_extender.matcher import Jgf, Matcher, MatcherOptions
from fluence_extender.matcher.engine import EmbeddedEngine
from fluence_extender.matcher.fluxion import create_fluxion_matcher
from fluence_extender.matcher.walker import Walker
from tests.engines import FLUXION
from tests.property.engine_scenarios import COUNTED_AT_ROOT, FILTERS, POLICIES, Engines

RANDOMS = st.randoms(use_true_random=False)
NIGHTLY = settings().max_examples > 1_000
SCENARIOS = 50_000 if NIGHTLY else 60

Create = Callable[[Jgf, MatcherOptions], Matcher]


class EnginesAnswerAlike(RuleBasedStateMachine):
    """The walker first: its answers are those that the others must give.

    Under ``variation`` counts may take other units than the walker, among equal ones.
    """

    PLAIN: ClassVar[list[Create]] = [Walker]
    POLICIES: ClassVar[tuple[str, ...]] = tuple(policy for policy in POLICIES if policy != "variation")
    FILTERS: ClassVar[tuple[str, ...]] = FILTERS
    STRICT: ClassVar[bool] = True

    engines: Engines

    @initialize(random=RANDOMS, data=st.data())
    def load(self, random: Random, data: st.DataObject) -> None:
        options = MatcherOptions(
            policy=data.draw(st.sampled_from(self.POLICIES)),
            prune_filters=data.draw(st.sampled_from(self.FILTERS)),
        )
        self.engines = Engines(random, options, self.PLAIN, EmbeddedEngine, strict=self.STRICT)

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


class WithLibrary(EnginesAnswerAlike):
    """libreapi_cli too, where it is found."""

    PLAIN: ClassVar[list[Create]] = [Walker, create_fluxion_matcher]
    FILTERS = COUNTED_AT_ROOT
    STRICT = False


MACHINES = [EnginesAnswerAlike, *([WithLibrary] if FLUXION.library is not None else [])]


@pytest.mark.timeout(6 * 3600 if NIGHTLY else 300)
@pytest.mark.parametrize("machine", MACHINES)
def test_engines_answer_alike(machine: type[RuleBasedStateMachine]) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=SCENARIOS,
            stateful_step_count=15,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
