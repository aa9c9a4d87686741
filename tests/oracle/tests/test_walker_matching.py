"""The walker's operations, as a caller sees them."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from tests.oracle import (
    NO_JOB,
    Busy,
    InvalidJobspec,
    JobExists,
    MatcherError,
    MatcherOptions,
    NothingToAllocate,
    UnknownJob,
    Unsatisfiable,
    create,
)
from tests.oracle.tests.walker_graphs import cluster, jobspec, slots
from tests.oracle.walker import Walker
from tests.oracle.walker.policy import NAMED

POLICIES = [*NAMED, "locality", "variation", "policy=low node_centric=true stop_on_1_matches=true"]


def _names(match: Any) -> list[str]:
    return [node["metadata"]["paths"]["containment"] for node in match.R["graph"]["nodes"]]


def _cores(policy: str, count: int) -> list[str]:
    matcher = Walker(cluster(4, 4), MatcherOptions(policy))
    return [name for name in _names(matcher.match("allocate", slots(count))) if "core" in name]


@pytest.mark.parametrize(
    ("policy", "cores"),
    [
        ("low", ["node0/core0", "node1/core0", "node2/core0", "node3/core0"]),
        ("high", ["node0/core3", "node1/core3", "node2/core3", "node3/core3"]),
        ("lonode", ["node0/core0", "node0/core1", "node0/core2", "node0/core3"]),
        ("hinode", ["node3/core0", "node3/core1", "node3/core2", "node3/core3"]),
        ("first", ["node3/core0", "node3/core1", "node3/core2", "node3/core3"]),
    ],
)
def test_policy_decides_where_four_cores_come_from(policy: str, cores: list[str]) -> None:
    assert _cores(policy, 4) == [f"/cluster0/{core}" for core in cores]


def test_first_moves_on_to_untouched_nodes() -> None:
    matcher = Walker(cluster(3, 4), MatcherOptions("first"))
    taken = [_names(matcher.match("allocate", slots(1)))[0] for _ in range(4)]
    assert taken == [
        "/cluster0/node2/core3",
        "/cluster0/node1/core3",
        "/cluster0/node0/core3",
        "/cluster0/node2/core2",
    ]


def test_first_moves_on_even_where_nothing_is_allocated() -> None:
    matcher = Walker(cluster(2, 2), MatcherOptions("first"))
    matches = [matcher.match("without_allocating", slots(1)) for _ in range(2)]
    assert [_names(match)[0] for match in matches] == ["/cluster0/node1/core1", "/cluster0/node0/core1"]
    assert {match.jobid for match in matches} == {NO_JOB}
    assert matcher.match("allocate", slots(4)).jobid == 1


@pytest.mark.parametrize("policy", ["firstnodex", "lonodex", "hinodex"])
def test_node_exclusive_policies_take_the_whole_node(policy: str) -> None:
    matcher = Walker(cluster(2, 4, 2, 8), MatcherOptions(policy))
    placement = matcher.match("allocate", slots(1)).placement
    assert list(placement.values()) == [{"core": 4, "memory": 16}, {}]
    matcher.match("allocate", slots(1))
    with pytest.raises(Busy):
        matcher.match("allocate", slots(1))


def test_pool_is_granted_whole() -> None:
    matcher = Walker(cluster(1, 4, 2, 16), MatcherOptions("low"))
    assert matcher.match("allocate", slots(1, 1, 4)).placement["/cluster0/node0"] == {"core": 1, "memory": 16}
    assert matcher.match("allocate", slots(1, 1, 4)).placement["/cluster0/node0"] == {"core": 1, "memory": 16}
    with pytest.raises(Busy):
        matcher.match("allocate", slots(1, 1, 4))


def test_what_never_fits_is_distinguished_from_what_does_not_fit_now() -> None:
    matcher = Walker(cluster(2, 2))
    matcher.match("allocate", slots(4))
    with pytest.raises(Busy) as busy:
        matcher.match("allocate_with_satisfiability", slots(4))
    with pytest.raises(Unsatisfiable) as never:
        matcher.match("allocate_with_satisfiability", slots(5))
    with pytest.raises(Unsatisfiable):
        matcher.match("satisfiability", slots(5))
    with pytest.raises(Busy):
        matcher.match("allocate", slots(5))
    assert (busy.value.errno, never.value.errno) == (errno.EBUSY, errno.ENODEV)
    assert matcher.match("satisfiability", slots(4)).placement == {}


def test_job_ids_count_refusals_but_not_questions() -> None:
    matcher = Walker(cluster(1, 2))
    assert matcher.match("allocate", slots(2)).jobid == 1
    with pytest.raises(Busy):
        matcher.match("allocate", slots(1))
    assert matcher.match("satisfiability", slots(1)).jobid == 3
    with pytest.raises(Busy):
        matcher.match("without_allocating", slots(1))
    with pytest.raises(InvalidJobspec):
        matcher.match("allocate", slots(1, duration=-1))
    matcher.cancel(1)
    assert matcher.match("allocate", slots(1)).jobid == 3


def test_reservation_starts_when_the_jobs_before_it_end() -> None:
    matcher = Walker(cluster(2, 2))
    matcher.match("allocate", slots(2, duration=100))
    matcher.match("allocate", slots(2, duration=300))
    later = matcher.match("allocate_orelse_reserve", slots(1, duration=50))
    whole = matcher.match("allocate_orelse_reserve", slots(4, duration=50))
    assert (later.reserved, later.at, whole.at) == (True, 100, 300)
    assert matcher.match("without_allocating_future", slots(1, duration=10)).at == 100
    assert matcher.info(later.jobid).mode == "RESERVED"


def test_reservation_keeps_a_longer_job_from_its_time() -> None:
    matcher = Walker(cluster(1, 2))
    matcher.match("allocate", slots(1, duration=100))
    matcher.match("allocate_orelse_reserve", slots(2, duration=100))
    with pytest.raises(Busy):
        matcher.match("allocate", slots(1, duration=101))
    assert not matcher.match("allocate_orelse_reserve", slots(1, duration=100)).reserved


def test_a_reservation_after_an_endless_job_is_busy() -> None:
    matcher = Walker(cluster(1, 1))
    matcher.match("allocate", slots(1))
    with pytest.raises(Busy):
        matcher.match("allocate_orelse_reserve", slots(1))


def test_cancelled_job_is_remembered_as_such() -> None:
    matcher = Walker(cluster(1, 1))
    job = matcher.match("allocate", slots(1), jobid=40)
    assert matcher.info(job.jobid).mode == "ALLOCATED"
    with pytest.raises(JobExists):
        matcher.match("allocate", slots(1), jobid=40)
    matcher.cancel(40)
    assert matcher.info(40).mode == "CANCELED"
    with pytest.raises(UnknownJob):
        matcher.cancel(40)
    with pytest.raises(UnknownJob):
        matcher.info(41)
    assert matcher.match("allocate", slots(1), jobid=40).jobid == 40


@pytest.mark.parametrize("jobid", [-1, 2**63, True, "7"])
def test_job_ids_out_of_range_are_refused(jobid: Any) -> None:
    with pytest.raises(InvalidJobspec):
        Walker(cluster(1, 1)).match("allocate", slots(1), jobid=jobid)


def test_down_nodes_are_passed_over_but_not_forgotten() -> None:
    matcher = Walker(cluster(2, 2), MatcherOptions("lonode"))
    matcher.set_status("/cluster0/node0", False)
    assert "/cluster0/node1" in matcher.match("allocate", slots(1)).placement
    with pytest.raises(Busy):
        matcher.match("allocate_with_satisfiability", slots(2))
    matcher.set_status("/cluster0/node0", True)
    assert "/cluster0/node0" in matcher.match("allocate", slots(2)).placement
    with pytest.raises(MatcherError):
        matcher.set_status("/cluster0/node9", True)


def test_constraint_picks_among_nodes() -> None:
    matcher = Walker(cluster(5, 2), MatcherOptions("lonode"))
    match = matcher.match("allocate", slots(3, constraints={"hostlist": ["node[2-3]"]}))
    assert [path for path in match.placement if "node" in path] == ["/cluster0/node2", "/cluster0/node3"]


def test_request_for_nothing_exclusive_holds_nothing() -> None:
    matcher = Walker(cluster(1, 2))
    shared = jobspec([{"type": "node", "count": 1, "with": [{"type": "core", "count": 1}]}])
    with pytest.raises(NothingToAllocate) as refusal:
        matcher.match("allocate", shared)
    assert refusal.value.errno == 0
    assert matcher.match("allocate", slots(2)).jobid == 1


def test_conflicting_exclusivity_is_busy() -> None:
    matcher = Walker(cluster(1, 2))
    members = [{"type": "core", "count": 1, "exclusive": False}]
    with pytest.raises(Busy):
        matcher.match("allocate", jobspec([{"type": "slot", "count": 1, "label": "x", "with": members}]))


def test_refused_duration_leaves_later_jobs_their_shares() -> None:
    matcher = Walker(cluster(1, 4))
    whole = [{"type": "node", "count": 1, "exclusive": True, "with": [{"type": "core", "count": 1}]}]
    with pytest.raises(InvalidJobspec):
        matcher.match("allocate", jobspec(whole, duration=-1))
    assert matcher.match("allocate", slots(1)).placement["/cluster0/node0"] == {"core": 1}


@pytest.mark.parametrize("policy", POLICIES)
def test_count_rules_without_end_are_met_by_what_there_is(policy: str) -> None:
    matcher = Walker(cluster(2, 4), MatcherOptions(policy))
    count = {"min": 1, "max": 2**32 - 1, "operator": "*", "operand": 2}
    assert len(matcher.match("allocate", slots(count)).placement) in (2, 3)


@pytest.mark.parametrize("policy", POLICIES)
def test_same_calls_give_the_same_answers(policy: str) -> None:
    answers = []
    for _ in range(2):
        matcher = Walker(cluster(20, 3, 2, 4), MatcherOptions(policy))
        jobs = [matcher.match("allocate", slots(count, 1, 1)) for count in (1, 7, 18)]
        matcher.cancel(jobs[1].jobid)
        answers.append([job.R for job in [*jobs, matcher.match("allocate", slots(5))]])
    assert answers[0] == answers[1]


def test_result_lists_children_before_parents_with_labels_and_sizes() -> None:
    matcher = Walker(cluster(1, 1, 1, 16, name="host-a"), MatcherOptions("low"))
    resources = [{"type": "slot", "count": 1, "label": "x", "with": [
        {"type": "core", "count": 1, "label": "c"}, {"type": "memory", "count": 2}
    ]}]  # fmt: skip
    held = matcher.match("allocate", jobspec(resources)).R
    assert isinstance(held, dict)
    graph = held["graph"]
    assert [node["metadata"]["type"] for node in graph["nodes"]] == ["core", "memory", "node", "cluster"]
    assert graph["nodes"][0]["metadata"]["ephemeral"] == {"label": "c"}
    assert graph["nodes"][1]["metadata"]["size"] == 16
    assert "exclusive" not in graph["nodes"][2]["metadata"]
    assert [(edge["source"], edge["target"]) for edge in graph["edges"]] == [
        ("1", "2"),
        ("1", "3"),
        ("0", "1"),
    ]


def test_the_oracle_is_made_by_its_name() -> None:
    matcher = create("oracle", cluster(1, 1))
    assert matcher.match("allocate", slots(1)).jobid == 1
