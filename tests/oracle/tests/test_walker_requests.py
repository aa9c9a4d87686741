"""Counts and constraints are read as the rules say, and a malformed jobspec is refused with its place."""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracle import InvalidJobspec, MatcherOptions
from tests.oracle.tests.walker_graphs import cluster, jobspec, slots
from tests.oracle.walker import Walker
from tests.oracle.walker.constraint import read_constraint
from tests.oracle.walker.graph import GraphVertex
from tests.oracle.walker.jobspec import read_count

NODE = GraphVertex(
    type="node",
    basename="node",
    name="node3",
    id=3,
    uniq_id=7,
    rank=3,
    status=0,
    size=1,
    properties={"zone=a": "", "arch": "x86"},
    paths={"containment": "/cluster0/node3"},
)


@pytest.mark.parametrize(
    ("count", "available", "granted"),
    [
        (4, 10, 4),
        ("4", 4, 4),
        ("0x10", 20, 16),
        (4, 3, 0),
        (0, 3, 0),
        ({"min": 2}, 9, 9),
        ({"min": 2, "max": 8, "operator": "+", "operand": 3}, 7, 5),
        ({"min": 3, "max": 100, "operator": "*", "operand": 2}, 30, 24),
        ({"min": 2, "max": 1000, "operator": "^", "operand": 2}, 300, 256),
        ({"min": 2, "max": 4294967295, "operator": "*", "operand": 2}, 2**32 - 1, 2**31),
        ({"min": 2, "max": 4294967295, "operator": "^", "operand": 2147483647}, 2**32 - 1, 2),
    ],
)
def test_count_allows_the_most_of_what_there_is(count: Any, available: int, granted: int) -> None:
    assert read_count(count, "count").within(available) == granted


@pytest.mark.parametrize(
    ("constraint", "holds"),
    [
        ({}, True),
        ({"properties": ["zone=a", "arch"]}, True),
        ({"properties": ["^zone=a"]}, False),
        ({"properties": ["arch=x86"]}, False),
        ({"properties": []}, True),
        ({"hostlist": ["node[1-3]"]}, True),
        ({"hostlist": []}, False),
        ({"ranks": ["0-2"]}, False),
        ({"ranks": [3]}, True),
        ({"and": []}, True),
        ({"or": []}, False),
        ({"not": []}, False),
        ({"not": [{"ranks": ["3"]}]}, False),
        ({"or": [{"ranks": ["9"]}, {"properties": ["arch"]}]}, True),
        ({"and": [{"ranks": ["9"]}, {"properties": ["arch"]}]}, False),
    ],
)
def test_constraint_holds_on_a_node(constraint: Any, holds: bool) -> None:
    assert read_constraint(constraint)(NODE) is holds


def _slot(**changes: Any) -> dict[str, Any]:
    return jobspec([{"type": "slot", "count": 1, "label": "x", "with": [], **changes}])


def _nested(levels: int) -> list[Any]:
    resources: list[Any] = []
    for _ in range(levels):
        resources = [{"type": "node", "count": 1, "with": resources}]
    return resources


def _constrained(levels: int) -> dict[str, Any]:
    constraint: dict[str, Any] = {}
    for _ in range(levels):
        constraint = {"not": [constraint]}
    return slots(1, constraints=constraint)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (None, "jobspec must be a mapping, not null"),
        ([], "jobspec must be a mapping, not a sequence"),
        ({"version": 1}, "key 'resources' is missing"),
        (slots(1) | {"extra": 1}, "exactly the keys"),
        (slots(1) | {"version": 10000}, "version must be from 1 to 9999"),
        (slots(1) | {"resources": {}}, "resources must be a sequence"),
        (slots(1) | {"resources": []}, "resources: must not be empty"),
        (slots(1) | {"tasks": None}, "tasks must be a sequence, not null"),
        (slots(1) | {"tasks": [{"command": []}]}, "tasks[0]: key 'slot' is missing"),
        (slots(1) | {"attributes": {"other": {}}}, "attributes: unknown key 'other'"),
        (_slot(type="fpga"), "no resource of type 'fpga' is known"),
        (_slot(colour="red"), "resources[0]: unrecognized key 'colour'"),
        (_slot(exclusive="yes"), "'exclusive' must be true or false"),
        (_slot(label=None), "resources[0].label must be a scalar, not null"),
        (jobspec([{"type": "slot", "count": 1}]), "a slot must have a label"),
        (_slot(count=-1), "resources[0].count must be from 0"),
        (_slot(count=1.5), "resources[0].count must be an integer, and is '1.5'"),
        (_slot(count="1-4"), "must be an integer, and is '1-4'"),
        (_slot(count=True), "must be an integer, and is 'true'"),
        (_slot(count=2**32), "must be from 0 to 4294967295"),
        (_slot(count=10**5000), "too long a number"),
        (_slot(count={"min": 0}), "'min' must be greater than zero"),
        (_slot(count={"min": 1, "max": 2}), "go together"),
        (_slot(count={"min": 3, "max": 2, "operator": "+", "operand": 1}), "'max' must be greater"),
        (_slot(count={"min": 1, "max": 2, "operator": "*", "operand": 1}), "must be at least 2"),
        (_slot(count={"min": 1, "max": 2, "operator": "^", "operand": 2}), "greater than one"),
        (_slot(count={"min": 1, "max": 2, "operator": "-", "operand": 2}), "isn't a count operator"),
        (jobspec(_nested(5000)), "levels deep"),
        (_constrained(5000), "levels deep"),
        (slots(1, duration=-1), "duration: must be from 0"),
        (slots(1, duration="soon"), "must be a number"),
        (slots(1, duration=float("nan")), "must be a number"),
        (slots(1, duration=3153600001), "duration: must be from 0"),
        (slots(1, constraints=[]), "constraints must be a mapping"),
        (slots(1, constraints={"ranks": ["a"]}), "isn't an id"),
        (slots(1, constraints={"hostlist": ["a["]}), "unbalanced brackets"),
        (slots(1, constraints={"properties": [1]}), "must be a string"),
        (slots(1, constraints={"properties": ["a|b"]}), "is invalid"),
        (slots(1, constraints={"xor": []}), "unknown constraint operator"),
        (slots(1, constraints={"and": [], "or": []}), "more than one operation"),
        (slots(1, constraints={"and": {}}), "must be a sequence"),
    ],
)
def test_malformed_jobspec_is_refused_with_its_place(request_: Any, message: str) -> None:
    matcher = Walker(cluster(2, 2))
    with pytest.raises(InvalidJobspec) as refusal:
        matcher.match("allocate", request_)
    assert message in str(refusal.value)
    assert matcher.match("allocate", slots(4)).jobid == 1


def test_unknown_operation_is_refused() -> None:
    with pytest.raises(InvalidJobspec, match="unknown match operation 'borrow'"):
        Walker(cluster(1, 1), MatcherOptions()).match("borrow", slots(1))
