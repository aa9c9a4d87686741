"""Selection as a whole: candidates, providers, the choice, the reasons of all others, the record."""

import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from fluence_extender.selection.backend import Backend, merged
from fluence_extender.selection.errors import SelectionError
from fluence_extender.selection.pipeline import NOT_A_CANDIDATE, NOT_DESCRIBED, NOT_OFFERED, Sources, select
from fluence_extender.selection.providers import BackendQuery, Description
from fluence_extender.selection.record import LARGEST, select_result
from fluence_extender.selection.request import SelectionRequest, read_request

A = Backend("a", {"cost_usd": 1.0, "qubits": 20.0})
B = Backend("b", {"cost_usd": 0.5, "qubits": 10.0})
C = Backend("c", {"cost_usd": 0.5, "qubits": 30.0})
NOW = datetime(2026, 5, 4, 3, 2, 1, tzinfo=UTC)


@dataclass
class QueueProvider:
    """A provider that knows queues and records its queries."""

    name: str = "queues"
    queues: dict[str, float] = field(default_factory=dict)
    queries: list[BackendQuery] = field(default_factory=list)

    def wanted(self, needs: frozenset[str]) -> bool:
        return "queue_size" in needs

    def describe(self, query: BackendQuery) -> Description:
        self.queries.append(query)
        if not self.queues:
            raise OSError("no network")
        return Description(
            tuple(Backend(name, {"queue_size": queue}) for name, queue in self.queues.items()), ("slow",)
        )


def names(*backends: str) -> tuple[Backend, ...]:
    return tuple(map(Backend, backends))


def test_the_first_backend_left_is_chosen_and_every_other_has_a_reason() -> None:
    made = select(
        SelectionRequest("require:min_qubits=20,min-cost"), Sources(names("a", "c", "d"), (A, B, C))
    )
    assert made.chosen == "c"
    assert made.dropped == {
        "a": "min-cost: cost_usd 1, best is 0.5",
        "b": NOT_OFFERED,
        "d": NOT_DESCRIBED,
    }


@pytest.mark.parametrize("order", [(A, B, C), (C, B, A), (B, A, C)])
def test_ties_go_to_the_first_name_whatever_the_order(order: tuple[Backend, ...]) -> None:
    made = select(SelectionRequest("min-cost"), Sources(None, order))
    assert made.chosen == "b"
    assert [one.name for one in made.candidates] == ["b", "c"]


def test_unknown_offers_exclude_no_backend() -> None:
    assert select(SelectionRequest("max-cost"), Sources(None, (A, B))).chosen == "a"


def test_offers_with_attributes_need_no_file() -> None:
    assert select(SelectionRequest("max-qubits"), Sources((A, B, C))).chosen == "c"


def test_files_override_offers() -> None:
    assert (
        select(SelectionRequest("max-qubits"), Sources((A, B), (Backend("b", {"qubits": 99.0}),))).chosen
        == "b"
    )


def test_candidates_are_an_allow_list_with_reasons() -> None:
    request = SelectionRequest("min-cost", candidates=frozenset({"a", "x"}))
    made = select(request, Sources(names("a", "b"), (A, B)))
    assert made.chosen == "a"
    assert made.dropped == {"b": NOT_A_CANDIDATE, "x": "in select-candidates, but not known"}


def test_constraints_are_applied_before_the_policy() -> None:
    request = SelectionRequest("min-cost", constraints="min_qubits=15,max_cost=0.6")
    made = select(request, Sources(None, (A, B, C)))
    assert made.chosen == "c"
    assert made.dropped == {"a": "max_cost=0.6: cost_usd is 1", "b": "min_qubits=15: qubits is 10"}


def test_an_empty_pool_is_an_error_with_reasons() -> None:
    with pytest.raises(SelectionError, match=r"no candidate backends after intersecting .*: a: not offered"):
        select(SelectionRequest("min-cost"), Sources(names("z"), (A,)))
    with pytest.raises(
        SelectionError, match=r'policy "require:min_qubits=50" removed all candidates: a: .*; b: '
    ):
        select(SelectionRequest("require:min_qubits=50"), Sources(None, (A, B)))
    with pytest.raises(
        SelectionError, match=r"removed all candidates: a: [^;]*; dropped before: b: not offered"
    ):
        select(SelectionRequest("require:min_qubits=50"), Sources(names("a"), (A, B)))


def test_providers_are_queried_only_if_a_step_needs_them() -> None:
    provider = QueueProvider(queues={"a": 5.0, "b": 9.0})
    sources = Sources(names("a", "b"), (A, B, C), (provider,))
    assert select(SelectionRequest("prefer:queue-box,min-cost"), sources).chosen == "b"
    assert provider.queries == []
    made = select(SelectionRequest("min-queue"), sources)
    assert made.chosen == "a"
    assert made.notes == ("provider queues: slow",)
    assert [one.name for one in provider.queries[0].backends] == ["a", "b"]
    select(SelectionRequest("min-cost", constraints="max_queue=9"), sources)
    assert len(provider.queries) == 2


def test_a_provider_that_fails_is_a_note() -> None:
    queued = replace(A, numbers={**A.numbers, "queue_size": 7.0})
    made = select(SelectionRequest("min-queue"), Sources(None, (queued, B), (QueueProvider(),)))
    assert made.chosen == "a"
    assert made.notes == ("provider queues: failed: no network",)


def test_later_descriptions_win_except_for_the_place_of_the_backend() -> None:
    first = Backend("a", {"x": 1.0}, {"region": "here", "y": "text", "device_arn": ""})
    later = Backend("a", {"y": 2.0}, {"region": "there", "x": "text", "device_arn": "arn"})
    assert merged(first, later) == Backend(
        "a", {"y": 2.0}, {"region": "here", "x": "text", "device_arn": "arn"}
    )


def test_shots_price_the_tasks() -> None:
    qpu = Backend("qpu", {"cost_per_task": 0.3, "cost_per_shot": 0.001})
    simulator = Backend("sv1", {"cost_per_minute": 0.075})
    made = select(SelectionRequest("max-cost", shots=1000), Sources(None, (qpu, simulator)))
    assert made.candidates[0].number("cost") == 1.3
    assert (
        select(SelectionRequest("min-cost"), Sources(None, (qpu, simulator))).candidates[0].number("cost")
        == 0.00375
    )


PREFIX = "fluence.flux-framework.org/select-"


def test_request_is_read_from_annotations() -> None:
    read = read_request(
        {f"{PREFIX}policy": "min-cost", f"{PREFIX}candidates": " a, b,,", f"{PREFIX}shots": "50"}, ["7"]
    )
    assert read == SelectionRequest("min-cost", "", frozenset({"a", "b"}), 50)


@pytest.mark.parametrize(
    ("stated", "variables", "shots"),
    [("", [], 1000), ("", ["7"], 7), ("", ["0", "x", "8"], 8), ("many", ["9"], 9), ("-3", [], 1000)],
)
def test_shots_fall_back_to_the_containers_and_to_a_thousand(
    stated: str, variables: list[str], shots: int
) -> None:
    read = read_request({f"{PREFIX}policy": "min-cost", f"{PREFIX}shots": stated}, variables)
    assert read.shots == shots
    assert bool(read.notes) == bool(stated)


def test_annotations_without_meaning_are_noted() -> None:
    notes = read_request({f"{PREFIX}backend": "a", f"{PREFIX}polcy": "min-cost"}).notes
    assert "require-backend names a backend" in notes[0]
    assert notes[1].endswith(f"did you mean {PREFIX}policy?")


def test_record_is_json_with_all_fields() -> None:
    zone = timezone(timedelta(hours=2))
    made = select(SelectionRequest("require:min_qubits=20,min-cost", "max_cost=9"), Sources(None, (A, B, C)))
    record = json.loads(select_result(made, NOW.astimezone(zone)))
    assert record == {
        "chosen": "c",
        "policy": "require:min_qubits=20,min-cost",
        "constraints": "max_cost=9",
        "shots": 1000,
        "resolved_at": "2026-05-04T03:02:01Z",
        "candidates": [{"name": "c", "attributes": {"cost_usd": 0.5, "qubits": 30}, "strings": {}}],
        "dropped": {
            "a": "min-cost: cost_usd 1, best is 0.5",
            "b": "require:min_qubits=20: qubits is 10",
        },
        "notes": [],
    }


def test_record_is_bounded_and_counts_what_it_leaves_out() -> None:
    many = [Backend(f"b{n:04}", {"cost_usd": float(n % 2)}, {"text": "x" * 5000}) for n in range(900)]
    made = select(SelectionRequest("min-cost"), Sources(None, tuple(many)))
    text = select_result(made, NOW)
    record = json.loads(text)
    assert len(text) <= LARGEST
    assert record["candidates"][0]["name"] == record["chosen"] == "b0000"
    assert record["dropped"]["b0001"] == "min-cost: cost_usd 1, best is 0"
    assert record["omitted"]["candidates"] == 449
    assert record["omitted"]["dropped"] == 450 - len(record["dropped"])
    huge = replace(made, notes=("n" * 10**6,) * 100, request=SelectionRequest("p" * 10**6))
    assert len(select_result(huge, NOW)) <= LARGEST
