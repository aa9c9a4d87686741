"""When a replica may write, by what it saw of the Lease and when."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from fluence_extender.cluster.port import Lease
from fluence_extender.gangs.leadership.lease import ALONE, ByLease

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


def ask(
    leadership: ByLease, clock: Any, lease: Lease | None, seconds: float = 0.0, every: float = 0.5
) -> None:
    """Ask again and again, with an answer at once, for so many seconds; the Lease is renewed once a second."""
    begun = clock.now
    while True:
        at = int(clock.now - begun)
        leadership.saw(renewed(lease, at) if lease is not None else None, clock.now)
        if clock.now >= begun + seconds:
            return
        clock.now = min(clock.now + every, begun + seconds)


def lead(leadership: ByLease, clock: Any, lease: Lease = OURS) -> Lease:
    """Let it lead; the Lease as it was renewed just now."""
    ask(leadership, clock, lease, 6.0)
    clock.now += 0.1
    now = renewed(lease, 99)
    leadership.saw(now, clock.now)
    assert leadership.leads
    return now


def renewed(lease: Lease, number: int) -> Lease:
    """The record after another renewal."""
    return replace(lease, renewed=f"renewal {number}")


def test_single_replica_always_leads() -> None:
    assert (ALONE.leads, ALONE.holds, ALONE.why_not) == (True, True, "")


# Beginning to lead.


def test_first_lead_waits_until_one_before_it_must_have_asked_and_its_writes_have_arrived(
    leadership: ByLease, clock: Clock
) -> None:
    began = clock.now
    ask(leadership, clock, OURS, 3.4)
    assert (leadership.leads, leadership.term) == (False, None)
    assert leadership.why_not == "the lease was taken just now, and the one before may not know it yet"
    clock.now = began + 3.5
    assert not leadership.leads
    leadership.saw(renewed(OURS, 7), clock.now)
    assert (leadership.leads, leadership.holds, leadership.why_not) == (True, True, "")
    assert leadership.term == (OURS.holder, 3)


def test_lease_seen_for_the_first_time_proves_nothing_until_it_is_renewed(
    leadership: ByLease, clock: Clock
) -> None:
    for _ in range(16):
        leadership.saw(OURS, clock.now)
        clock.now += 0.5
    assert (leadership.leads, leadership.term) == (False, None)
    assert leadership.why_not == "the lease hasn't been seen renewed lately"
    leadership.saw(renewed(OURS, 1), clock.now)
    assert not leadership.leads
    clock.now += 1.3
    leadership.saw(renewed(OURS, 1), clock.now)
    assert leadership.leads


def silent(leadership: ByLease, clock: Clock, seconds: float, lease: Lease = THEIRS) -> None:
    """Ask for so long, and nobody renews; ends half a second after the last question."""
    ask(leadership, clock, lease)
    for _ in range(int(seconds / 0.5)):
        leadership.saw(renewed(lease, 0), clock.now)
        clock.now += 0.5


def test_leader_that_fell_silent_long_ago_is_not_waited_for(leadership: ByLease, clock: Clock) -> None:
    silent(leadership, clock, 15)
    left = clock.now
    leadership.saw(OURS, left)
    assert not leadership.leads
    clock.now = left + 1.2
    leadership.saw(OURS, clock.now)
    assert not leadership.leads
    assert leadership.begins_at == left + 1.25
    clock.now = left + 1.25
    leadership.saw(OURS, clock.now)
    assert leadership.leads


def test_leader_that_was_silent_for_less_than_it_may_write_is_waited_for(
    leadership: ByLease, clock: Clock
) -> None:
    silent(leadership, clock, 10)
    leadership.saw(OURS, clock.now)
    assert leadership.begins_at == clock.now + 3.5


def test_leader_that_may_have_renewed_unseen_is_waited_for(leadership: ByLease, clock: Clock) -> None:
    """It may have renewed, led again and let go of the Lease between two questions that are far apart."""
    silent(leadership, clock, 15)
    clock.now += 0.75
    leadership.saw(OURS, clock.now)
    assert leadership.begins_at == clock.now + 3.5


def test_leader_that_let_go_is_waited_for_from_then_on(leadership: ByLease, clock: Clock) -> None:
    ask(leadership, clock, THEIRS, 5)
    left = clock.now
    free = replace(THEIRS, holder="", duration=1.0)
    for _ in range(4):
        leadership.saw(free, clock.now)
        clock.now += 0.5
    leadership.saw(replace(OURS, transitions=4), clock.now)
    assert leadership.begins_at == left + 3.5


def test_deleted_lease_tells_nothing_about_its_last_holder(leadership: ByLease, clock: Clock) -> None:
    leadership.saw(None, clock.now)
    clock.now += 0.5
    leadership.saw(OURS, clock.now)
    assert leadership.begins_at == clock.now + 3.5


def test_lease_that_others_hold_ends_no_sooner_because_ours_is_shorter(
    leadership: ByLease, clock: Clock
) -> None:
    ask(leadership, clock, replace(THEIRS, duration=60.0), 5)
    leadership.saw(OURS, clock.now)
    assert leadership.begins_at == clock.now + 14.0


# Going on.


def test_lead_ends_two_thirds_of_the_duration_after_the_question_before_the_last_renewal(
    leadership: ByLease, clock: Clock
) -> None:
    last = lead(leadership, clock)
    before = clock.now - 0.1
    while clock.now < before + 9.5:
        clock.now += 0.5
        leadership.saw(last, clock.now)
        assert leadership.leads
    clock.now = before + 9.99
    assert leadership.leads
    clock.now = before + 10.0
    assert (leadership.leads, leadership.holds) == (False, False)
    assert leadership.why_not == "the lease hasn't been seen renewed lately"


def test_renewals_keep_the_lead(leadership: ByLease, clock: Clock) -> None:
    lead(leadership, clock)
    for number in range(100, 200):
        clock.now += 2
        leadership.saw(renewed(OURS, number), clock.now)
        assert leadership.leads


def test_replica_without_a_recent_read_writes_nothing_though_its_term_goes_on(
    leadership: ByLease, clock: Clock
) -> None:
    last = lead(leadership, clock)
    asked, term = clock.now, leadership.term
    clock.now = asked + 2.49
    assert leadership.leads
    clock.now = asked + 2.5
    assert (leadership.leads, leadership.holds, leadership.term) == (False, True, term)
    assert leadership.why_not == "the lease hasn't been read lately"
    # The answer to a question from before came late, and is as old as its question.
    clock.now = asked + 4.0
    found = []
    for question in (1.0, 3.0):
        leadership.saw(last, asked + question)
        found.append(leadership.leads)
    assert found == [False, True]


def test_renewal_after_the_lead_had_run_out_must_last_before_it_counts(
    leadership: ByLease, clock: Clock
) -> None:
    lead(leadership, clock)
    clock.now += 12
    leadership.saw(renewed(OURS, 100), clock.now)
    clock.now += 0.5
    leadership.saw(renewed(OURS, 101), clock.now)
    assert (leadership.leads, leadership.term) == (False, None)
    clock.now += 1.25
    leadership.saw(renewed(OURS, 101), clock.now)
    assert leadership.leads


@pytest.mark.parametrize("stamp", ["1970-01-01T00:00:00Z", "2999-01-01T00:00:00Z", "", "garbage"])
def test_time_stamps_of_skewed_clocks_mean_nothing_but_a_change(
    leadership: ByLease, clock: Clock, stamp: str
) -> None:
    lead(leadership, clock)
    clock.now += 1
    leadership.saw(replace(OURS, renewed=stamp), clock.now)
    assert leadership.leads
    clock.now += 10
    assert not leadership.leads


def test_process_that_was_stopped_takes_nothing_old_for_new(leadership: ByLease, clock: Clock) -> None:
    lead(leadership, clock)
    asked = clock.now
    # It asked, was stopped for a minute, and now reads the answer that came at once.
    clock.now += 60
    leadership.saw(renewed(OURS, 100), asked + 1)
    assert not leadership.leads
    # The next answer is fresh, but the renewal that it shows may be nearly as old as the question before.
    clock.now += 0.5
    leadership.saw(renewed(OURS, 120), clock.now - 0.4)
    assert not leadership.leads
    clock.now += 1
    leadership.saw(renewed(OURS, 121), clock.now)
    assert not leadership.leads
    clock.now += 1.25
    leadership.saw(renewed(OURS, 121), clock.now)
    assert leadership.leads


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
def test_lease_without_our_holder_ends_the_lead_at_once(
    leadership: ByLease, clock: Clock, lease: Lease | None, why: str
) -> None:
    lead(leadership, clock)
    leadership.saw(lease, clock.now)
    assert (leadership.leads, leadership.holds, leadership.term) == (False, False, None)
    assert leadership.why_not == why


@pytest.mark.parametrize(
    "lease",
    [replace(OURS, holder="fluence-a_9999", transitions=4), replace(OURS, renewed="later", transitions=5)],
    ids=["new process on the same host", "lost and won back unseen"],
)
def test_lead_of_another_term_begins_anew(leadership: ByLease, clock: Clock, lease: Lease) -> None:
    lead(leadership, clock)
    before = leadership.term
    leadership.saw(lease, clock.now)
    assert leadership.term is None
    ask(leadership, clock, lease, 3.5)
    assert leadership.leads
    assert leadership.term not in (None, before)


def test_shorter_lease_shortens_the_lead(leadership: ByLease, clock: Clock) -> None:
    last = lead(leadership, clock, replace(OURS, duration=3.0))
    clock.now += 0.49
    assert leadership.leads
    clock.now += 0.02
    assert (leadership.leads, leadership.holds) == (False, True)
    leadership.saw(last, clock.now)
    clock.now += 1.49
    assert (leadership.leads, leadership.holds) == (False, False)
