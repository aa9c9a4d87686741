"""On machines with one resource every job starts when textbook FCFS, EASY or first fit would start it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluence_extender.objects.queues import PolicyName
from tests.queueing.jobs import TraceJob, generated
from tests.queueing.reference import Discipline, starts
from tests.queueing.simulation import simulate

MACHINE = 8
EXAMPLES = settings().max_examples // 8
PAIRS = [
    (PolicyName.FCFS, None, Discipline.FCFS),
    (PolicyName.EASY, None, Discipline.EASY),
    (PolicyName.EASY, 0, Discipline.FIRST_FIT),
]
"""Policies and numbers of reservations (None: the policy's own), and what the textbook calls them."""

MACHINES = [(1, MACHINE), (MACHINE, 1)]
"""Nodes, and units of each: one node that jobs share, and nodes that they take whole."""

jobs = st.builds(
    lambda pause, run, more, size: (pause, run, run + more, size),
    st.integers(0, 4),
    st.integers(1, 20),
    st.sampled_from([0, 0, 1, 5, 30]),
    st.integers(1, MACHINE),
)


def trace(parts: list[tuple[int, int, int, int]]) -> list[TraceJob]:
    clock, made = 0, []
    for pause, run, estimate, size in parts:
        clock += pause
        made.append(TraceJob(clock, run, estimate, size))
    return made


@pytest.mark.parametrize(("nodes", "units"), MACHINES)
@pytest.mark.parametrize(("policy", "depth", "discipline"), PAIRS)
@settings(max_examples=EXAMPLES)
@given(parts=st.lists(jobs, min_size=2, max_size=25))
def test_any_trace(
    parts: list[tuple[int, int, int, int]],
    policy: PolicyName,
    depth: int | None,
    discipline: Discipline,
    nodes: int,
    units: int,
) -> None:
    some = trace(parts)
    assert simulate(some, nodes, units, policy, depth) == starts(some, MACHINE, discipline)


@pytest.mark.parametrize(("nodes", "units"), [(1, 32), (32, 1)])
@pytest.mark.parametrize(("policy", "depth", "discipline"), PAIRS)
def test_workloads_like_those_of_real_machines(
    policy: PolicyName, depth: int | None, discipline: Discipline, nodes: int, units: int
) -> None:
    some = generated(100, nodes * units, 0.95, seed=nodes)
    found = simulate(some, nodes, units, policy, depth)
    assert found == starts(some, nodes * units, discipline)
    waits = [start - job.submit for start, job in zip(found, some, strict=True)]
    assert sum(wait > 0 for wait in waits) > len(some) // 10


def test_disciplines_differ() -> None:
    some = generated(150, 32, 0.95, 0)
    assert len({tuple(starts(some, 32, one)) for one in Discipline}) == len(Discipline)


@pytest.mark.parametrize("policy", PolicyName)
@settings(max_examples=EXAMPLES)
@given(parts=st.lists(jobs, min_size=2, max_size=20), units=st.sampled_from([1, 2, 8]))
def test_a_gang_starts_after_as_many_longest_runs_as_wait_before_it_and_one(
    parts: list[tuple[int, int, int, int]], units: int, policy: PolicyName
) -> None:
    some = trace(parts)
    longest = max(job.estimate for job in some)
    found = simulate(some, MACHINE // units, units, policy, 3)
    for number, job in enumerate(some):
        ahead = sum(1 for start in found[:number] if start > job.submit)
        assert found[number] - job.submit <= (ahead + 1) * longest
