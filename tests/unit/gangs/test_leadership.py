"""When a replica may write, by what it saw of the Lease and when."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from fluence_extender.gangs.leadership import ALONE, ByLease
from fluence_extender.model.lease import Lease

OURS = Lease("fluence-a_1111-22", "2026-01-01T00:00:00Z", 3, 15.0)
THEIRS = replace(OURS, holder="fluence-b_3333-44")


@dataclass
class Clock:
    """Monotonic seconds, as a test sets them."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def leadership(clock: Clock) -> ByLease:
    return ByLease("fluence-a", clock)


def renewed(lease: Lease, number: int) -> Lease:
    """The record after another renewal."""
    return replace(lease, renewed=f"renewal {number}")


def test_who_is_alone_always_leads() -> None:
    assert (ALONE.leads, ALONE.why_not) == (True, "")


def test_lease_taken_since_the_last_question_is_enough_to_lead(leadership: ByLease, clock: Clock) -> None:
    leadership.saw(THEIRS, clock.now)
    assert not leadership.leads
    clock.now += 1
    leadership.saw(replace(OURS, transitions=4), clock.now)
    assert leadership.leads
    assert leadership.term == (OURS.holder, 4)
    assert leadership.why_not == ""


def test_lease_seen_for_the_first_time_proves_nothing_until_it_is_renewed(
    leadership: ByLease, clock: Clock
) -> None:
    leadership.saw(OURS, clock.now)
    assert (leadership.leads, leadership.term) == (False, None)
    clock.now += 1
    leadership.saw(OURS, clock.now)
    assert not leadership.leads
    clock.now += 1
    leadership.saw(renewed(OURS, 1), clock.now)
    assert leadership.leads


def test_lead_ends_two_thirds_of_the_duration_after_the_question_before_the_last_renewal(
    leadership: ByLease, clock: Clock
) -> None:
    leadership.saw(OURS, 1000.0)
    clock.now = 1002.0
    leadership.saw(renewed(OURS, 1), 1002.0)
    for asked in (1003.0, 1005.0, 1009.0):
        clock.now = asked
        leadership.saw(renewed(OURS, 1), asked)
    clock.now = 1009.99
    assert leadership.leads
    clock.now = 1010.0
    assert not leadership.leads
    assert leadership.why_not == "the lease hasn't been seen renewed lately"


def test_renewals_keep_the_lead(leadership: ByLease, clock: Clock) -> None:
    leadership.saw(OURS, clock.now)
    for number in range(1, 100):
        clock.now += 2
        leadership.saw(renewed(OURS, number), clock.now)
        assert leadership.leads


@pytest.mark.parametrize("stamp", ["1970-01-01T00:00:00Z", "2999-01-01T00:00:00Z", "", "garbage"])
def test_time_stamps_of_skewed_clocks_mean_nothing_but_a_change(
    leadership: ByLease, clock: Clock, stamp: str
) -> None:
    leadership.saw(OURS, clock.now)
    clock.now += 1
    leadership.saw(replace(OURS, renewed=stamp), clock.now)
    assert leadership.leads
    clock.now += 10
    assert not leadership.leads


def test_process_that_was_stopped_takes_nothing_old_for_new(leadership: ByLease, clock: Clock) -> None:
    leadership.saw(OURS, 1000.0)
    leadership.saw(renewed(OURS, 1), 1001.0)
    # It asked, was stopped for a minute, and now reads the answer that came at once.
    clock.now = 1061.0
    leadership.saw(renewed(OURS, 2), 1002.0)
    assert not leadership.leads
    # The next answer is fresh, but the renewal that it shows may be nearly as old as the question before.
    clock.now = 1061.5
    leadership.saw(renewed(OURS, 20), 1061.1)
    assert not leadership.leads
    clock.now = 1063.0
    leadership.saw(renewed(OURS, 21), 1063.0)
    assert leadership.leads


def test_questions_without_an_answer_end_the_lead(leadership: ByLease, clock: Clock) -> None:
    leadership.saw(OURS, clock.now)
    leadership.saw(renewed(OURS, 1), clock.now)
    clock.now += 9.9
    assert leadership.leads
    clock.now += 0.1
    assert not leadership.leads


@pytest.mark.parametrize(
    ("lease", "why"),
    [
        (None, "there is no lease yet"),
        (replace(OURS, holder=""), "nobody holds the lease"),
        (THEIRS, "the lease is held by fluence-b_3333-44"),
        (replace(OURS, holder="fluence-a"), "the lease is held by fluence-a"),
        (replace(OURS, holder="fluence-ab_1111"), "the lease is held by fluence-ab_1111"),
        (replace(OURS, holder="fluence-a_x_1111"), "the lease is held by fluence-a_x_1111"),
    ],
)
def test_lease_of_nobody_or_of_others_ends_the_lead_at_once(
    leadership: ByLease, clock: Clock, lease: Lease | None, why: str
) -> None:
    leadership.saw(OURS, clock.now)
    leadership.saw(renewed(OURS, 1), clock.now)
    assert leadership.leads
    leadership.saw(lease, clock.now)
    assert (leadership.leads, leadership.term, leadership.why_not) == (False, None, why)


def test_new_process_on_the_same_host_begins_another_term(leadership: ByLease, clock: Clock) -> None:
    leadership.saw(OURS, clock.now)
    leadership.saw(renewed(OURS, 1), clock.now)
    before = leadership.term
    leadership.saw(replace(OURS, holder="fluence-a_9999", transitions=4), clock.now)
    assert leadership.leads
    assert leadership.term != before


def test_lead_lost_and_won_back_unseen_is_another_term(leadership: ByLease, clock: Clock) -> None:
    leadership.saw(OURS, clock.now)
    leadership.saw(renewed(OURS, 1), clock.now)
    before = leadership.term
    leadership.saw(replace(OURS, renewed="later", transitions=5), clock.now)
    assert leadership.term != before


def test_shorter_lease_shortens_the_lead(leadership: ByLease, clock: Clock) -> None:
    leadership.saw(replace(OURS, duration=3.0), clock.now)
    leadership.saw(renewed(replace(OURS, duration=3.0), 1), clock.now)
    clock.now += 1.99
    assert leadership.leads
    clock.now += 0.02
    assert not leadership.leads


def test_leader_that_fell_silent_long_ago_needs_no_waiting_for(leadership: ByLease, clock: Clock) -> None:
    for _ in range(16):
        leadership.saw(THEIRS, clock.now)
        clock.now += 1
    leadership.saw(OURS, clock.now)
    assert leadership.silent_at(2.0) <= clock.now


def test_leader_that_let_go_a_moment_ago_may_not_know_it_yet(leadership: ByLease, clock: Clock) -> None:
    for number in range(5):
        leadership.saw(renewed(THEIRS, number), clock.now)
        clock.now += 1
    left = clock.now
    leadership.saw(replace(THEIRS, holder="", duration=1.0), clock.now)
    clock.now += 1
    leadership.saw(OURS, clock.now)
    assert leadership.silent_at(2.0) == left + 2.0


def test_renewals_that_we_missed_count_as_of_now(leadership: ByLease, clock: Clock) -> None:
    leadership.saw(THEIRS, clock.now)
    clock.now += 60
    leadership.saw(OURS, clock.now)
    assert leadership.silent_at(2.0) == clock.now + 2.0
