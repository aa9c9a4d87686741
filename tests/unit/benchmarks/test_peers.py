"""The figures of the comparison with peers: what counts as bound, as settled and as told, and what the page shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.peers.contests import HALVES, MIXED, TOO_LARGE, Contest, contests, settled, standing
from benchmarks.peers.figures import PeerFigures
from benchmarks.peers.kueue import QUEUE, KueueJobs
from benchmarks.peers.native import NativeGangs
from benchmarks.peers.notices import Board, Notice
from benchmarks.peers.page import outcome, page
from benchmarks.throughput.figures import Figure
from benchmarks.throughput.workloads import LABELLED, LOOSE, Workload
from fluence_extender.model.names import GROUP_LABEL, KUEUE_QUEUE_LABEL

OWNER = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "owner", "uid": "u"}}
PAIR = Workload("pair", "two gangs", 2, 2, alternate=True)


def figure(contender: str, cpu: float) -> Figure:
    """Return a figure of 10 ms for the API server and so much for the scheduler."""
    took = {"etcd": 1.0, "kube-apiserver": 10.0, "kube-controller-manager": 0.0, "scheduler": cpu}
    return Figure(
        1000, contender, "gang512", "burst", 512, 100, 5.0, 6.0, 1, 2, 3.0, took, {"POST pods": 1.0}
    )


def contest(name: str, contender: str, **changed: Any) -> Contest:
    """Return a contest of a gang of ten that got nothing."""
    values: dict[str, Any] = {"size": 10, "bound": [0], "whole": [None], "load": 1.0}
    return Contest(nodes=1000, contender=contender, contest=name, **(values | changed))


def test_gangs_that_alternate_are_created_member_by_member() -> None:
    names = [pod["metadata"]["name"] for pod in PAIR.manifests(LOOSE, OWNER)]
    assert names == ["pair-0-0", "pair-1-0", "pair-0-1", "pair-1-1"]


def test_pods_have_the_form_of_their_contender() -> None:
    loose, ours, native = (PAIR.manifests(form, OWNER)[0] for form in (LOOSE, LABELLED, NativeGangs.form))
    assert "schedulingGroup" not in loose["spec"]
    assert not loose["metadata"]["labels"]
    assert ours["metadata"]["labels"][GROUP_LABEL] == "pair-0"
    assert native["spec"]["schedulingGroup"] == {"podGroupName": "pair-0"}


def test_groups_are_created_only_for_gangs_and_where_users_create_them() -> None:
    single = Workload("single", "pods", 3, 1)
    assert [one["metadata"]["name"] for one in PAIR.groups(NativeGangs.form)] == ["pair-0", "pair-1"]
    assert PAIR.groups(LABELLED) == single.groups(NativeGangs.form) == []


def test_jobs_for_kueue_are_suspended_in_its_queue_and_others_are_not() -> None:
    work = Workload("work", "a Job", 1, 2, jobs=True)
    queued, ours = (work.manifests(form, OWNER)[0] for form in (KueueJobs.form, LABELLED))
    assert queued["spec"]["suspend"] is True
    assert queued["metadata"]["labels"] == {KUEUE_QUEUE_LABEL: QUEUE}
    assert "suspend" not in ours["spec"]
    assert not ours["metadata"]["labels"]


def test_the_objects_of_gangs_are_a_collection_of_the_namespace() -> None:
    found = NativeGangs.form.collection("here")
    assert found == "/apis/scheduling.k8s.io/v1alpha2/namespaces/here/podgroups"
    assert LOOSE.collection("here") == ""


def test_the_mixed_gang_needs_four_fifths_of_the_nodes() -> None:
    pods = contests(100)[MIXED].manifests(LOOSE, OWNER)
    cores = [int(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]) for pod in pods]
    assert sum(cores) == 80 * 32
    assert cores == sorted(cores)


def test_two_gangs_of_the_halves_together_need_more_than_the_cluster() -> None:
    two = contests(100)[HALVES]
    assert two.size <= 100 < two.pods


def test_bindings_are_counted_by_gang() -> None:
    found = standing({"pair-0-1": 2.0, "pair-0-0": 1.0, "pair-1-0": 3.0}, PAIR)
    assert found.bound == [2, 1]
    assert found.whole == [True, False]


@pytest.mark.parametrize(
    ("seen", "now", "expected"),
    [
        ({}, 1000.0, False),
        ({"pair-0-0": 0.0, "pair-1-0": 1.0}, 10.0, False),
        ({"pair-0-0": 0.0, "pair-1-0": 1.0}, 30.0, True),
        ({"pair-0-0": 0.0, "pair-0-1": 1.0}, 2.0, False),
        ({"pair-0-0": 0.0, "pair-0-1": 1.0}, 10.0, True),
        ({"pair-0-0": 0.0, "pair-0-1": 1.0, "pair-1-0": 1.0, "pair-1-1": 1.0}, 1.0, True),
    ],
)
def test_gangs_settle_when_nothing_is_bound_any_more(
    seen: dict[str, float], now: float, expected: bool
) -> None:
    assert settled(standing(seen, PAIR), now) is expected


def pod(name: str, condition: str, reason: str, message: str) -> dict[str, Any]:
    """Return a pod with one condition."""
    conditions = [{"type": condition, "status": "False", "reason": reason, "message": message}]
    return {"kind": "Pod", "metadata": {"name": name}, "status": {"conditions": conditions}}


def test_a_sentence_on_many_pods_is_one_notice() -> None:
    board = Board(10.0)
    for number, when in enumerate((12.0, 13.0, 14.0)):
        board.add(pod(f"p{number}", "PodScheduled", "Unschedulable", f"{number} nodes are free"), when)
    board.add(pod("p0", "PodScheduled", "Unschedulable", "0 nodes are free"), 15.0)
    assert board.notices == [
        Notice("Pod condition PodScheduled", "Unschedulable", "0 nodes are free", after=2.0, objects=3)
    ]


def test_what_says_nothing_about_a_place_is_no_notice() -> None:
    board = Board(0.0)
    board.add(pod("p", "PodScheduled", "SchedulingGated", "it has a gate"), 1.0)
    board.add(pod("p", "Ready", "PodFailed", "it ended"), 1.0)
    board.add({"regarding": {"kind": "Pod", "name": "p"}, "reason": "Scheduled", "note": "bound"}, 1.0)
    assert board.notices == []


def test_events_are_notices_on_the_kind_that_they_regard() -> None:
    board = Board(0.0)
    board.add({"regarding": {"kind": "PodGroup", "name": "g"}, "reason": "Unschedulable", "note": "no"}, 1.0)
    assert [one.place for one in board.notices] == ["Events on PodGroup"]


def test_each_round_has_its_own_ratio_to_ours() -> None:
    figures = PeerFigures()
    for cpu in (4, 14):
        figures.add_round(1000, "gang512", [figure("stock", 4), figure("fluence", cpu)])
    text = page(figures)
    assert "| 1 | stock | 15.0 | 1.00 |" in text
    assert "| 2 | stock | 15.0 | 0.60 |" in text


def test_a_run_replaces_only_the_contenders_that_it_measures() -> None:
    figures, always = PeerFigures(), ("stock", "fluence")
    both = [figure(name, 5) for name in always]
    figures.add_round(1000, "gang512", [*both, figure("Volcano", 5), figure("Kueue", 5)])
    figures.forget(1000, "gang512", [*always, "Kueue"], always)
    assert [sorted(by) for by in figures.rounds[1000, "gang512"]] == [["Volcano", "fluence", "stock"]]
    figures.forget(1000, "gang512", [*always, "Volcano"], always)
    assert figures.rounds == {}


@pytest.mark.parametrize(("bound", "expected"), [(0, "none"), (4, "in part (4 of 10)"), (10, "whole")])
def test_a_gang_is_whole_in_part_or_not_bound(bound: int, expected: str) -> None:
    assert outcome(bound, 10) == expected


def test_figures_survive_the_file(tmp_path: Path) -> None:
    figures = PeerFigures()
    figures.add_round(1000, "gang512", [figure("stock", 5), figure("fluence", 6)])
    figures.add_contest(contest(TOO_LARGE, "stock", told=[Notice("Pod", "r", "t", 1.0)]))
    figures.failures["coscheduling"] = "no"
    figures.save(tmp_path / "figures.json")
    assert PeerFigures.load(tmp_path / "figures.json") == figures


def test_the_page_shows_only_what_was_measured() -> None:
    figures = PeerFigures()
    figures.add_round(1000, "gang512", [figure("stock", 5), figure("fluence", 15)])
    figures.add_contest(contest(HALVES, "fluence", bound=[10, 0], whole=[3.0, 9.5], freed=8.0))
    text = page(figures)
    assert "| 1 | stock | 16.0 | 0.62 |" in text
    assert "| fluence | whole, none | 3.0 | 1.5 |" in text
    assert "two shapes" not in text
    assert "can't fit" not in text
    assert "coscheduling" not in text


def test_the_page_says_why_a_peer_is_missing_without_naming_a_registry() -> None:
    figures = PeerFigures()
    figures.failures["coscheduling"] = "reading https://modules.example/plugins.zip: 403 Forbidden"
    assert "| coscheduling | not measured: reading …: 403 Forbidden |" in page(figures)
