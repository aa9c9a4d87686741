"""Policies: the backends that each step keeps, their order, and the reasons of the others."""

import pytest

from fluence_extender.selection.backend import Backend
from fluence_extender.selection.errors import SelectionError
from fluence_extender.selection.policy import parse_constraints, parse_policy
from fluence_extender.selection.steps import Candidates


def backend(name: str, status: str = "", **numbers: float) -> Backend:
    return Backend(name, numbers, {"status": status} if status else {})


POOL = (
    backend("a", cost_usd=1.0, queue_size=3, qubits=20),
    backend("b", cost_usd=1.2, queue_size=1, qubits=100),
    backend("c", cost_usd=3.0, queue_size=2),
)


def step(
    text: str, pool: tuple[Backend, ...] = POOL, cost_tolerance: float = 0.0
) -> tuple[Candidates, dict[str, str]]:
    (policy,) = parse_policy(text, cost_tolerance)
    return policy.apply(pool)


def kept(text: str, pool: tuple[Backend, ...] = POOL, cost_tolerance: float = 0.0) -> str:
    return "".join(one.name for one in step(text, pool, cost_tolerance)[0])


@pytest.mark.parametrize(
    ("policy", "names"),
    [
        ("min-cost", "a"),
        ("max-cost", "c"),
        ("min-cost_usd", "a"),
        ("min-cost-usd", "a"),
        ("min-queue", "b"),
        ("max-queue_size", "a"),
        ("max-qubits", "b"),
        ("min-queue:tol=1", "bc"),
        ("max-queue:tol=1", "ac"),
        ("min-cost:tol=0.2", "ab"),
        ("require:min_qubits=20", "ab"),
        ("require:max_cost=1.2", "ab"),
        ("require:min_queue=2", "ac"),
        ("require:qubits=100", "b"),
        ("require:queue=2.0", "c"),
        ("require:name=c", "c"),
        ("prefer:c", "c"),
        ("prefer:nobody", "abc"),
        ("online-only", "abc"),
    ],
)
def test_each_step_keeps_what_its_name_says(policy: str, names: str) -> None:
    assert kept(policy) == names


def test_cost_tolerance_counts_only_for_costs() -> None:
    assert kept("min-cost", cost_tolerance=0.2) == "ab"
    assert kept("max-cost", cost_tolerance=2.0) == "cba"
    assert kept("min-queue", cost_tolerance=5.0) == "b"
    assert kept("min-cost:tol=0", cost_tolerance=5.0) == "a"


def test_tolerance_is_not_spoilt_by_binary_fractions() -> None:
    pool = (backend("x", cost_usd=0.1 + 0.2), backend("y", cost_usd=0.3))
    assert kept("min-cost", pool) == "xy"
    assert kept("min-cost", (backend("x", cost_usd=0.3), backend("y", cost_usd=0.4)), 0.1) == "xy"


def test_equal_ones_stay_in_their_order() -> None:
    pool = tuple(backend(name, cost_usd=1.0) for name in "cab")
    assert kept("max-cost", pool) == "cab"


def test_any_attribute_can_be_ranked() -> None:
    pool = (backend("x", throughput=5), backend("y", throughput=9))
    assert kept("max-throughput", pool) == "y"


def test_reasons_name_the_step_the_value_and_what_was_better() -> None:
    assert step("min-cost")[1] == {
        "b": "min-cost: cost_usd 1.2, best is 1",
        "c": "min-cost: cost_usd 3, best is 1",
    }
    assert step("require:min_qubits=50")[1] == {
        "a": "require:min_qubits=50: qubits is 20",
        "c": "require:min_qubits=50: has no qubits",
    }
    assert step("max-qubits")[1]["c"] == "max-qubits: has no qubits"
    assert step("prefer:a")[1] == {"b": "prefer:a: not preferred", "c": "prefer:a: not preferred"}


def test_online_only_keeps_backends_without_a_status_and_drops_unanswered_ones() -> None:
    pool = (
        backend("on", "online"),
        backend("off", "OFFLINE"),
        backend("mute", "UNKNOWN"),
        backend("unasked"),
    )
    kept, dropped = step("online-only", pool)
    assert [one.name for one in kept] == ["on", "unasked"]
    assert dropped["off"] == "online-only: status is OFFLINE"


def test_texts_are_compared_as_texts_and_numbers_as_numbers() -> None:
    pool = (
        Backend("x", {}, {"vendor": "ibm", "tier": "1"}),
        Backend("y", {"tier": 1.0}, {"vendor": "rigetti"}),
    )
    assert kept("require:vendor=ibm", pool) == "x"
    assert kept("require:tier=1", pool) == "xy"
    assert kept("require:tier=1.0", pool) == "y"


def test_an_attribute_that_no_backend_has_is_an_error_with_the_nearest() -> None:
    with pytest.raises(SelectionError) as caught:
        step("max-quibits")
    message = 'policy "max-quibits": no candidate has attribute "quibits" (missing: a,b,c)'
    assert str(caught.value) == f"{message}; did you mean 'qubits'?"
    with pytest.raises(SelectionError, match=r"did you mean 'cost'\?$"):
        step("min-cots")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("min_cost", 'unknown policy "min_cost"; did you mean "min-cost", or "require:min_cost=N"?'),
        ("max_memory_gb", 'did you mean "max-memory_gb", or "require:max_memory_gb=N"?'),
        ("mincost", 'unknown policy "mincost"; did you mean "min-cost"?'),
        ("onlin-only", 'did you mean "online-only"?'),
        ("requires:min_qubits=3", 'did you mean "require:min_ATTR=N"?'),
        ("best", "known: min-ATTR, max-ATTR, online-only"),
        ("prefer:", 'unknown policy "prefer:"'),
        ("min-", 'unknown policy "min-"'),
        ("require:min_qubits", 'malformed require "require:min_qubits"'),
        ("require:=3", "malformed require"),
        ("require:min_qubits=10abc", 'bad number "10abc"'),
        ("require:min_qubits=nan", 'bad number "nan"'),
        ("require:max_cost=1e999", "bad number"),
        ("require:min_=3", "bad number"),
        ("min-queue:2", "is not a tolerance"),
        ("min-queue:tol=-1", "is not a tolerance"),
        ("", "empty selection policy"),
        (" , ,", "empty selection policy"),
    ],
)
def test_a_policy_that_cannot_be_read_is_an_error_with_a_suggestion(text: str, message: str) -> None:
    with pytest.raises(SelectionError) as caught:
        parse_policy(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_steps_are_read_from_left_to_right_with_their_needs() -> None:
    steps = parse_policy("require:min_qubits=20, prefer:queue-box ,min-cost")
    assert [one.text for one in steps] == ["require:min_qubits=20", "prefer:queue-box", "min-cost"]
    assert [one.needs for one in steps] == [frozenset({"qubits"}), frozenset(), frozenset({"cost_usd"})]
    assert parse_policy("online-only")[0].needs == {"status"}
    assert parse_policy("require:max_queue=3")[0].needs == {"queue_size"}


def test_constraints_are_requires() -> None:
    low, high, text = parse_constraints("min_qubits=20, max_cost=2,vendor=ibm")
    assert [one.name for one in low.apply(POOL)[0]] == ["a", "b"]
    assert [one.name for one in high.apply(POOL)[0]] == ["a", "b"]
    assert text.apply(POOL)[0] == ()
    assert parse_constraints("") == ()
    with pytest.raises(SelectionError, match="malformed require"):
        parse_constraints("qubits")
