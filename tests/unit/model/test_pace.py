"""Each key may have an amount at once and more each second. Keys that are full again are forgotten."""

from __future__ import annotations

import pytest

from fluence_extender.model.pace import Pace


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_amount_comes_back_with_time_and_no_more_than_that(clock: Clock) -> None:
    pace = Pace(10, 2, clock)
    assert pace.left("a") == 10
    pace.spend("a", 13)
    assert pace.left("a") == -3
    clock.now += 4
    assert pace.left("a") == 5
    pace.spend("a", 1)
    clock.now += 1000
    assert pace.left("a") == 10


def test_keys_have_amounts_of_their_own(clock: Clock) -> None:
    pace = Pace(10, 2, clock)
    pace.spend("a", 10)
    assert (pace.left("a"), pace.left("b")) == (0, 10)


def test_clock_that_is_set_back_gives_and_takes_nothing(clock: Clock) -> None:
    pace = Pace(10, 2, clock)
    pace.spend("a", 6)
    clock.now -= 50
    assert pace.left("a") == 4


def test_nothing_spent_is_nothing_remembered(clock: Clock) -> None:
    pace = Pace(10, 2, clock)
    pace.spend("a", 0)
    pace.left("b")
    assert len(pace) == 0


def test_memory_follows_those_that_are_not_full_again_at_a_constant_cost(clock: Clock) -> None:
    looked_at = 0

    class Counted(Pace):
        def _counting(self, key: object) -> float:
            nonlocal looked_at
            looked_at += 1
            return super()._counting(key)

    pace = Counted(10, 2, clock)
    for number in range(5000):
        pace.spend(number, 10)
    assert len(pace) == 5000
    clock.now += 100
    looked_at = 0
    for number in range(5000):
        clock.now += 1
        pace.spend(f"next {number}", 10)
    assert looked_at <= 3 * 5000
    assert len(pace) <= 10


def test_key_that_spends_all_the_time_is_not_forgotten(clock: Clock) -> None:
    pace = Pace(10, 2, clock)
    pace.spend("a", 10)
    for number in range(100):
        clock.now += 0.01
        pace.spend(number, 1)
    assert pace.left("a") == pytest.approx(2)
