"""Each gang is in one queue, or is told why it is in none."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import pytest

from fluence_extender.cluster.port import Changed, Deleted, Listed
from fluence_extender.gangs.queue import settings
from fluence_extender.gangs.queue.obstacles import duration_obstacle
from fluence_extender.gangs.queue.settings import IMPLICIT, Queues, usual_seconds
from fluence_extender.model.hints import MOST_WORDS
from fluence_extender.model.names import GATE, KUEUE_QUEUE_LABEL, QUEUE_LABEL
from fluence_extender.model.pod import Pod, Requirement
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.objects.queues import (
    KueueQueue,
    Namespace,
    NamespaceSelector,
    PriorityClass,
    Queue,
    SchedulingOptions,
)
from tests.core.values import asks, node
from tests.unit.gangs.conftest import MakeWorld

PHYSICS, CHEMISTRY = Queue("physics", uid="1"), Queue("chemistry", uid="2")


def queues(*made: Queue | Namespace | PriorityClass) -> Queues:
    found = Queues()
    for one in made:
        found.put(one)
    return found


def submitted(ours: str = "", kueue: str = "", namespace: str = "ns", **fields: object) -> Pod:
    labels = {key: value for key, value in ((QUEUE_LABEL, ours), (KUEUE_QUEUE_LABEL, kueue)) if value}
    return Pod(namespace, "p", "u", labels=labels, **fields)  # type: ignore[arg-type]


def refused(found: Queue | Reason) -> str:
    assert isinstance(found, Reason)
    assert found.code is ReasonCode.NO_QUEUE
    return found.shown.text


def test_without_any_object_all_are_in_one_queue() -> None:
    assert Queues().queue_of([submitted()], {}) is IMPLICIT
    assert Queues().queue_of([submitted("default")], {}) is IMPLICIT


def test_label_names_the_queue() -> None:
    assert queues(PHYSICS, CHEMISTRY).queue_of([submitted("physics")], {}) == PHYSICS


def test_without_a_label_it_is_the_namespaces_default_or_the_queue_default() -> None:
    usual = Queue("default", overrun=PHYSICS.overrun, uid="d")
    found = queues(PHYSICS, usual, Queue("quantum", default_for=frozenset({"qns"})))
    assert found.queue_of([submitted()], {}) == usual
    assert found.queue_of([submitted(namespace="qns")], {}) == found.queues["quantum"]
    assert found.queue_of([submitted("physics", namespace="qns")], {}) == PHYSICS


def test_of_two_defaults_for_a_namespace_the_older_queue_wins_and_the_other_says_so() -> None:
    young = Queue("a", default_for=frozenset({"ns"}), created=2)
    old = Queue("b", default_for=frozenset({"ns"}), created=1)
    found = queues(young, old)
    assert found.queue_of([submitted()], {}) == old
    assert found.problems(young) == ["spec.defaultFor: ns has the older queue b"]
    assert found.problems(old) == []


def test_queue_that_is_not_there_is_answered_with_the_nearest() -> None:
    found = queues(PHYSICS, CHEMISTRY)
    assert refused(found.queue_of([submitted("phisics")], {})) == (
        "no queue: there is no queue phisics; the nearest that takes work of namespace ns is queue physics"
    )


def test_nearest_queue_is_one_to_which_the_namespace_may_submit() -> None:
    secret = Queue("phisicx", NamespaceSelector(frozenset({"other"})))
    text = refused(queues(PHYSICS, secret).queue_of([submitted("phisics")], {}))
    assert "phisicx" not in text
    assert "physics" in text


def test_two_labels_that_differ_are_told() -> None:
    found = queues(PHYSICS, CHEMISTRY)
    assert refused(found.queue_of([submitted("physics", "chemistry")], {})) == (
        f"no queue: label {QUEUE_LABEL} names queue physics, and {KUEUE_QUEUE_LABEL} names queue chemistry; "
        "both have to name the same one"
    )
    assert found.queue_of([submitted("physics", "physics")], {}) == PHYSICS


def test_kueues_label_counts_only_where_kueue_is_not_served() -> None:
    found = queues(PHYSICS)
    assert found.queue_of([submitted(kueue="physics")], {}) == PHYSICS
    found.observe(Listed(KueueQueue, ()))
    assert found.queue_of([submitted(kueue="physics")], {}) is IMPLICIT
    assert found.queue_of([submitted("physics", "user-queue")], {}) == PHYSICS
    found.observe(Listed(KueueQueue, (), served=False))
    assert found.queue_of([submitted(kueue="physics")], {}) == PHYSICS


def test_kueues_label_holds_nobody_up_where_nobody_has_made_queues() -> None:
    assert Queues().queue_of([submitted(kueue="user-queue")], {}) is IMPLICIT


@pytest.mark.parametrize(
    ("selector", "admitted"),
    [
        (NamespaceSelector(), True),
        (NamespaceSelector(frozenset({"ns"})), True),
        (NamespaceSelector(frozenset({"other"})), False),
        (NamespaceSelector(labels=(Requirement("team", "In", ("a",)),)), True),
        (NamespaceSelector(labels=(Requirement("team", "In", ("b",)),)), False),
        (NamespaceSelector(frozenset({"other"}), (Requirement("team", "Exists"),)), True),
        (NamespaceSelector(labels=(Requirement("team", "In", ("a",)), Requirement("x", "Exists"))), False),
    ],
)
def test_namespaces_that_may_submit(selector: NamespaceSelector, admitted: bool) -> None:
    found = queues(Queue("q", selector), Namespace("ns", {"team": "a"}))
    assert isinstance(found.queue_of([submitted("q")], {}), Queue) is admitted


def test_refused_namespace_learns_nothing_of_others() -> None:
    found = queues(Queue("q", NamespaceSelector(frozenset({"secret"}))))
    assert refused(found.queue_of([submitted("q")], {})) == (
        "no queue: namespace ns may not submit to queue q; the nearest that takes work of namespace ns is queue default"
    )


def test_namespace_whose_default_a_queue_is_may_submit_to_it() -> None:
    one = Queue("q", NamespaceSelector(frozenset({"other"})), default_for=frozenset({"ns"}))
    assert queues(one).queue_of([submitted()], {}) == one


def test_namespace_may_submit_once_it_has_the_label() -> None:
    found = queues(Queue("q", NamespaceSelector(labels=(Requirement("team", "Exists"),))), Namespace("ns"))
    refused(found.queue_of([submitted("q")], {}))
    found.observe(Changed(Namespace("ns", {"team": "a"})))
    assert isinstance(found.queue_of([submitted("q")], {}), Queue)


def test_label_of_the_workload_counts_for_all_of_its_pods() -> None:
    found = queues(PHYSICS, CHEMISTRY)
    assert found.queue_of([submitted(), submitted("chemistry")], {QUEUE_LABEL: "physics"}) == PHYSICS
    assert found.queue_of([submitted("chemistry")], {}) == CHEMISTRY


def test_deleted_queue_leaves_its_work_with_a_reason_until_it_is_back() -> None:
    found = queues(PHYSICS, CHEMISTRY)
    found.observe(Deleted(PHYSICS))
    assert "there is no queue physics" in refused(found.queue_of([submitted("physics")], {}))
    found.observe(Changed(PHYSICS))
    assert found.queue_of([submitted("physics")], {}) == PHYSICS


def test_while_the_kind_is_not_served_all_are_in_one_queue_and_that_is_said_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = queues(PHYSICS)
    for _ in range(2):
        found.observe(Listed(Queue, (), served=False))
        assert found.queue_of([submitted("physics")], {}) is IMPLICIT
    assert capsys.readouterr().out.count("the cluster serves no Queues") == 1
    found.observe(Listed(Queue, (CHEMISTRY,)))
    refused(found.queue_of([submitted("physics")], {}))
    assert found.queue_of([submitted("chemistry")], {}) == CHEMISTRY


def test_only_what_matters_to_pods_is_a_change() -> None:
    found = queues(PHYSICS, Namespace("ns"))
    before = found.revision
    found.observe(Listed(Queue, (PHYSICS,)))
    served = found.revision
    found.observe(Listed(Queue, (PHYSICS,)))
    found.observe(Changed(Namespace("ns")))
    found.observe(Deleted(Namespace("other")))
    assert (served, found.revision) == (before + 1, served)
    found.observe(Listed(Queue, ()))
    assert found.revision == served + 1


def test_names_are_compared_when_a_reason_is_shown_and_for_a_bounded_number_of_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[int] = []

    def counted(word: str, known: Sequence[str], *rest: Any) -> list[str]:
        compared.append(len(known))
        return get_close_matches(word, known, *rest)

    monkeypatch.setattr(settings, "get_close_matches", counted)
    found = queues(*(Queue(f"team-{number}", uid=str(number)) for number in range(60)))
    reasons = [found.queue_of([submitted(f"tem-{number}")], {}) for number in range(5000)]
    assert compared == []
    shown = [one.shown.text for one in reasons if isinstance(one, Reason)]
    assert "nearest" in shown[0]
    assert shown[-1] == "no queue: there is no queue tem-4999; kubectl fluence queue lists all queues"
    assert len(compared) <= MOST_WORDS
    assert max(compared) <= settings.MOST_COMPARED
    elsewhere = found.queue_of([submitted("tem-1", namespace="elsewhere")], {})
    assert isinstance(elsewhere, Reason)
    assert "namespace elsewhere is queue team-1" in elsewhere.shown.text


def test_search_for_a_queue_ends_at_the_first_pod_that_has_none() -> None:
    found = queues(PHYSICS)
    pods = [submitted(f"q{number:04}") for number in range(5000)]
    asked: list[str] = []
    find = found._find

    def counted(namespace: str, ours: str, kueue: str) -> Queue | Reason:
        asked.append(ours)
        return find(namespace, ours, kueue)

    found._find = counted  # type: ignore[method-assign]
    assert "there is no queue q0000" in refused(found.queue_of(pods, {}))
    assert asked == ["q0000"]


def test_policy_is_that_of_the_queue_default_and_others_say_that_theirs_is_ignored() -> None:
    options = SchedulingOptions(reservation_depth=3, starvation_after=60.0)
    other = Queue("physics", scheduling=options)
    found = queues(Queue("default", scheduling=options), other)
    assert (found.policy.depth, found.policy.starvation_after) == (3, 60.0)
    assert found.problems(found.queues["default"]) == []
    assert found.problems(other) == [
        "spec.scheduling (reservationDepth, starvationAfter) is ignored: all queues share the nodes, so queue default "
        "says it"
    ]


def test_default_priority_is_that_of_the_class_once_it_exists() -> None:
    one = Queue("q", default_priority_class="high")
    found = queues(one)
    assert found.problems(one) == ["spec.defaults.priorityClassName: there is no PriorityClass high"]
    assert found.usual_priority(one) is None
    found.put(PriorityClass("high", 1000))
    assert found.problems(one) == []
    assert found.usual_priority(one) == 1000


def test_work_without_a_class_has_its_turn_by_that_of_its_queue(world: MakeWorld) -> None:
    high = PriorityClass("high", 1000)
    w = world(node("n0", cpu=1000), Queue("q", default_priority_class="high", uid="q"), high)
    filler = w.pod("filler", gates=(GATE,), requests=asks(1000, 1), priority=500)
    w.advance(1)
    w.pod("old", gates=(GATE,), requests=asks(1000, 1), priority=500)
    young = w.pod("young", labels={QUEUE_LABEL: "q"}, gates=(GATE,), requests=asks(1000, 1))
    w.advance(1)
    w.cluster.remove(w.cluster.pod(filler))
    w.advance(5)
    assert w.cluster.pod(young).node == "n0"


@pytest.mark.parametrize(
    ("usual", "most", "seconds"),
    [
        (None, None, None),
        (60.0, None, 60.0),
        (None, 100.0, 100.0),
        (60.0, 100.0, 60.0),
        (200.0, 100.0, 100.0),
    ],
)
def test_work_that_declares_nothing_runs_as_long_as_its_queue_says(
    usual: float | None, most: float | None, seconds: float | None
) -> None:
    assert usual_seconds(Queue("q", default_duration=usual, max_duration=most)) == seconds


@pytest.mark.parametrize("declared", [(), (None,), (None, 3600.0)])
def test_work_that_ends_in_time_is_taken(declared: tuple[float | None, ...]) -> None:
    assert duration_obstacle(Queue("q", max_duration=3600), declared) is None
    assert duration_obstacle(Queue("q"), declared) is None


def test_work_that_declares_more_than_the_queue_allows_is_told_so() -> None:
    assert duration_obstacle(Queue("q", max_duration=3600), [None, 60, 7200]) == Reason(
        ReasonCode.INVALID_REQUEST, "it declares that it runs for 2h, and queue q takes work of at most 1h"
    )


def test_default_that_is_longer_than_allowed_is_told() -> None:
    one = Queue("q", default_duration=7200, max_duration=3600)
    assert queues(one).problems(one) == ["spec.defaults.duration 2h counts as maxDuration 1h"]


def test_gang_whose_pods_name_different_queues_is_told() -> None:
    found = queues(PHYSICS, CHEMISTRY)
    assert found.queue_of([submitted("physics"), submitted("physics")], {}) == PHYSICS
    both = [submitted("physics"), submitted("chemistry")]
    assert refused(found.queue_of(both, {})) == "no queue: its pods name different queues: chemistry, physics"
