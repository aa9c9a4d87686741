"""Jobspecs that would hang or crash the library or spoil its state are refused, and the error names the place."""

from __future__ import annotations

import errno
import math
from typing import Any

import pytest

from fluxion_ffi import GraphOptions, InvalidRequest, Library, MatchOp, ResourceGraph
from tests.ffi.documents import graph, jobspec
from tests.ffi.stub import Stub

NEVER_ENDING = [
    {"min": 1, "max": 2**31, "operator": "*", "operand": 2},
    {"min": 1, "max": 2**31 - 1, "operator": "*", "operand": 10},
    {"min": 2, "max": 10, "operator": "*", "operand": 2**31},
    {"min": 2, "max": 2**31, "operator": "^", "operand": 2},
    {"min": 2, "max": 4, "operator": "^", "operand": 40},
    {"min": 2, "max": 4, "operator": "^", "operand": 2**32 - 1},
]
ENDING = [
    {"min": 1, "max": 2**30, "operator": "*", "operand": 2},
    {"min": 2, "max": 256, "operator": "^", "operand": 2},
    {"min": 1, "max": 2**32 - 1, "operator": "^", "operand": 2},
    {"min": 1, "max": 2**32 - 1, "operator": "+", "operand": 1},
    {"min": 1, "max": 2**32 - 1, "operator": "*", "operand": 1},
    {"min": 1},
    4,
]


def slot(count: Any) -> list[dict[str, Any]]:
    return [{"type": "slot", "count": count, "label": "a", "with": [{"type": "core", "count": 1}]}]


def cores(count: Any) -> list[dict[str, Any]]:
    return [{"type": "node", "count": 1, "with": [{"type": "core", "count": count, "exclusive": True}]}]


def refused(stub: Stub, resources: ResourceGraph, document: Any) -> str:
    calls = stub.calls
    with pytest.raises(InvalidRequest) as raised:
        resources.match(MatchOp.ALLOCATE, document)
    assert raised.value.errno == errno.EINVAL
    assert stub.calls == calls
    return str(raised.value)


@pytest.mark.parametrize("count", NEVER_ENDING, ids=str)
def test_a_slot_count_that_never_ends_is_refused(stub: Stub, resources: ResourceGraph, count: Any) -> None:
    assert refused(stub, resources, jobspec(slot(count))).startswith("resources[0].count: would pass 2^32")


@pytest.mark.parametrize("count", NEVER_ENDING, ids=str)
@pytest.mark.parametrize("policy", ["first", "firstnodex", "policy=low stop_on_1_matches=true"])
def test_any_count_that_never_ends_is_refused_where_the_walk_stops_early(
    stub: Stub, library: Library, count: Any, policy: str
) -> None:
    with ResourceGraph(library, graph(), GraphOptions(matcher_policy=policy)) as resources:
        assert refused(stub, resources, jobspec(cores(count))).startswith("resources[0].with[0].count: ")


@pytest.mark.parametrize("count", ENDING, ids=str)
@pytest.mark.parametrize("make", [slot, cores])
def test_counts_that_end_are_passed_on(stub: Stub, resources: ResourceGraph, count: Any, make: Any) -> None:
    resources.match(MatchOp.ALLOCATE, jobspec(make(count)))
    assert stub.last_call[0] == "match 1"


def test_elsewhere_a_count_is_bounded_by_what_is_there(stub: Stub, library: Library) -> None:
    with ResourceGraph(library, graph(), GraphOptions(matcher_policy="low")) as resources:
        resources.match(MatchOp.ALLOCATE, jobspec(cores(NEVER_ENDING[0])))
        assert stub.last_call[0].startswith("match")
        refused(stub, resources, jobspec(cores(NEVER_ENDING[2])))


@pytest.mark.parametrize("key", ["min", "max", "operand"])
@pytest.mark.parametrize("value", ["four", "0x4", "04", 0, 2**32, 1.0, True, None])
def test_a_growing_count_must_be_made_of_integers(
    stub: Stub, resources: ResourceGraph, key: str, value: Any
) -> None:
    count = {"min": 1, "max": 4, "operator": "*", "operand": 2} | {key: value}
    assert refused(stub, resources, jobspec(slot(count))).startswith(f"resources[0].count.{key}: ")


def test_numbers_of_a_growing_count_may_be_strings(stub: Stub, resources: ResourceGraph) -> None:
    resources.match(
        MatchOp.ALLOCATE, jobspec(slot({"min": "1", "max": "4", "operator": "*", "operand": "2"}))
    )
    assert stub.last_call[0].startswith("match")
    endless = {"min": "1", "max": str(2**31), "operator": "*", "operand": "2"}
    assert "never finishes" in refused(stub, resources, jobspec(slot(endless)))


@pytest.mark.parametrize(
    "seconds", [-1, math.nan, math.inf, 3_153_600_001, "-1", "soon", True, None, [], 10**400]
)
def test_a_duration_out_of_range_is_refused(stub: Stub, resources: ResourceGraph, seconds: Any) -> None:
    message = refused(stub, resources, jobspec(duration=seconds))
    assert "duration" in message or "can't be written as JSON" in message


@pytest.mark.parametrize("seconds", [0, 0.5, 3_153_600_000, "60"])
def test_a_duration_in_range_is_passed_on(stub: Stub, resources: ResourceGraph, seconds: Any) -> None:
    resources.match(MatchOp.ALLOCATE, jobspec(duration=seconds))
    assert stub.last_call[0] == "match 1"


def test_a_slot_beside_another_resource_is_passed_on(stub: Stub, resources: ResourceGraph) -> None:
    resources.match(MatchOp.ALLOCATE, jobspec([*slot(1), {"type": "gpu", "count": 1}]))
    assert stub.last_call[0] == "match 1"


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("version: 1", "jobspec: isn't JSON"),
        ("[]", "jobspec: must be a JSON object"),
        ({"a": {1, 2}}, "jobspec.a: can't be written as JSON"),
        (jobspec(cwd="/a\0b"), "jobspec.attributes.system.cwd: holds a NUL"),
        (jobspec(environment={"A\0": "b"}), "jobspec.attributes.system.environment: a key holds a NUL"),
        (jobspec([{"type": "a\0", "count": 1}]), "jobspec.resources[0].type: holds a NUL"),
        (jobspec(cwd="\udcff"), "jobspec.attributes.system.cwd: holds a lone surrogate"),
    ],
)
def test_what_json_or_c_cannot_carry_is_refused(
    stub: Stub, resources: ResourceGraph, document: Any, message: str
) -> None:
    assert message in refused(stub, resources, document)


def test_a_backslash_before_u0000_is_not_a_nul(stub: Stub, resources: ResourceGraph) -> None:
    resources.match(MatchOp.ALLOCATE, jobspec(cwd="\\u0000"))
    assert stub.last_call[0] == "match 1"


@pytest.mark.parametrize("levels", [200, 100_000])
def test_deep_nesting_is_refused(stub: Stub, resources: ResourceGraph, levels: int) -> None:
    nested: list[Any] = []
    for _ in range(levels):
        nested = [{"type": "core", "count": 1, "with": nested}]
    message = refused(stub, resources, jobspec(nested))
    assert "nested" in message


def test_a_jobspec_that_holds_itself_is_refused(stub: Stub, resources: ResourceGraph) -> None:
    looped: dict[str, Any] = jobspec()
    looped["attributes"]["self"] = looped
    assert "jobspec: " in refused(stub, resources, looped)


@pytest.mark.parametrize("op", [0, 7, -1, "allocate"])
def test_an_unknown_operation_is_refused(stub: Stub, resources: ResourceGraph, op: Any) -> None:
    with pytest.raises(InvalidRequest, match="isn't a match operation"):
        resources.match(op, jobspec())
    assert stub.last_call[0] == "initialize 1"


@pytest.mark.parametrize(
    "document", [jobspec(None), {"resources": 5}, {"resources": [5]}, {"attributes": []}, {}]
)
def test_other_mistakes_are_left_to_the_librarys_own_parser(
    stub: Stub, resources: ResourceGraph, document: Any
) -> None:
    resources.match(MatchOp.ALLOCATE, document)
    assert stub.last_call[0] == "match 1"
