"""Jobspecs that are accepted and that are refused."""

from __future__ import annotations

from typing import Any

from tests.oracle.conformance.graphs import cluster, of
from tests.oracle.conformance.jobspecs import Json, between, cores, slot, spec, want
from tests.oracle.conformance.session import allocate, case

FLAT = cluster(of("node", 2, of("core", 4), of("memory", 2, size=4)))
PLAIN = spec(slot(1, cores(1)))
TASK = PLAIN["tasks"][0]


def having(**members: Any) -> Json:
    return PLAIN | members


def lacking(key: str) -> Json:
    return {name: member for name, member in PLAIN.items() if name != key}


def task(**members: Any) -> Json:
    return having(tasks=[TASK | members])


def task_without(key: str) -> Json:
    return having(tasks=[{name: member for name, member in TASK.items() if name != key}])


def system(**members: Any) -> Json:
    return having(attributes={"system": members})


def entry(**members: Any) -> Json:
    return having(resources=[want("slot", 1, cores(1), label="task") | members])


def entry_without(key: str) -> Json:
    whole = want("slot", 1, cores(1), label="task")
    return having(resources=[{name: member for name, member in whole.items() if name != key}])


VALID: dict[str, Json] = {
    "a_plain_request": PLAIN,
    "any_version_up_to_9999": having(version=9999),
    "a_version_in_a_string": having(version="1"),
    "attributes_of_null": having(attributes=None),
    "attributes_that_are_empty": having(attributes={}),
    "attributes_of_the_user": having(attributes={"user": {"anything": [1, {"a": None}]}}),
    "a_system_of_null": having(attributes={"system": None}),
    "a_system_that_holds_nothing": having(attributes={"system": []}),
    "a_system_that_is_a_word": having(attributes={"system": "x"}),
    "an_environment_that_is_a_word": system(environment="x"),
    "a_queue": system(queue="batch"),
    "a_directory_and_an_environment": system(cwd="/home/a", environment={"PATH": "/bin", "N": 1}),
    "keys_of_the_system_that_nobody_knows": system(shell={"options": [1, 2]}),
    "no_tasks": having(tasks=[]),
    "a_task_with_every_member": task(distribution="block", attributes={"environment": "x"}),
    "a_task_of_a_slot_that_is_not_there": task(slot="other"),
    "a_command_of_no_words": task(command=[]),
    "a_total_in_place_of_per_slot": task(count={"total": 5}),
    "a_count_in_a_string": entry(count="1"),
    "a_count_in_hexadecimal": entry(count="0x1"),
    "a_count_in_octal": entry(count="01"),
    "a_unit": spec(slot(1, cores(1) | {"unit": "x"})),
    "an_id": spec(slot(1, cores(1) | {"id": "[0-3]"})),
    "a_slot_that_says_it_is_exclusive": entry(exclusive=True),
    "exclusive_as_a_word": spec(slot(1, cores(1) | {"exclusive": "true"})),
    "a_label_on_what_is_no_slot": spec(slot(1, cores(1) | {"label": "x"})),
    "a_number_for_a_label": entry(label=3),
    "an_empty_with": spec(slot(1, cores(1) | {"with": []})),
    "a_moldable_count": entry(count=between(1, 1)),
    "a_duration_in_a_string": system(duration="60"),
}

INVALID: dict[str, Any] = {
    "no_version": lacking("version"),
    "no_resources": lacking("resources"),
    "no_attributes": lacking("attributes"),
    "no_tasks_member": lacking("tasks"),
    "a_member_too_many": having(more=1),
    "version_zero": having(version=0),
    "a_version_beyond_9999": having(version=10000),
    "a_version_with_a_fraction": having(version=1.5),
    "a_version_of_null": having(version=None),
    "resources_that_are_a_mapping": having(resources={}),
    "resources_of_null": having(resources=None),
    "resources_that_are_empty": having(resources=[]),
    "a_resource_that_is_a_string": having(resources=["core"]),
    "a_resource_without_type": entry_without("type"),
    "a_resource_without_count": entry_without("count"),
    "a_slot_without_label": entry_without("label"),
    "a_type_that_is_not_in_the_graph": spec(slot(1, want("fpga", 1))),
    "a_type_that_is_a_list": entry(type=["slot"]),
    "a_type_of_null": entry(type=None),
    "a_member_of_a_resource_that_nobody_knows": entry(requires="x"),
    "exclusive_yes": entry(exclusive="yes"),
    "exclusive_one": entry(exclusive=1),
    "exclusive_of_null": entry(exclusive=None),
    "a_with_that_is_a_mapping": entry(**{"with": {}}),
    "a_with_of_null": entry(**{"with": None}),
    "a_label_that_is_a_mapping": entry(label={}),
    "a_negative_count": entry(count=-1),
    "a_count_with_a_fraction": entry(count=1.5),
    "a_count_of_null": entry(count=None),
    "a_count_that_is_true": entry(count=True),
    "a_count_that_is_a_list": entry(count=[1]),
    "a_count_beyond_32_bits": entry(count=2**32),
    "a_count_range_in_a_string": entry(count="1-4"),
    "a_count_that_ends_in_plus": entry(count="2+"),
    "a_count_of_words": entry(count="two"),
    "an_empty_count": entry(count={}),
    "a_count_without_min": entry(count={"max": 4, "operator": "+", "operand": 1}),
    "a_minimum_of_zero": entry(count=between(0, 4)),
    "a_maximum_below_the_minimum": entry(count=between(4, 2)),
    "a_maximum_without_operator": entry(count={"min": 1, "max": 4}),
    "an_operator_without_operand": entry(count={"min": 1, "max": 4, "operator": "+"}),
    "an_operator_that_nobody_knows": entry(count=between(1, 4, "-")),
    "a_step_of_zero": entry(count=between(1, 4, "+", 0)),
    "a_factor_of_one": entry(count=between(1, 4, "*", 1)),
    "a_power_of_one": entry(count=between(2, 4, "^", 1)),
    "powers_of_one": entry(count=between(1, 4, "^", 2)),
    "a_negative_minimum": entry(count={"min": -1}),
    "tasks_of_null": having(tasks=None),
    "tasks_that_are_a_mapping": having(tasks={}),
    "a_task_that_is_a_string": having(tasks=["app"]),
    "a_task_without_command": task_without("command"),
    "a_task_without_slot": task_without("slot"),
    "a_task_without_count": task_without("count"),
    "a_command_that_is_a_string": task(command="app"),
    "a_slot_of_a_task_that_is_a_list": task(slot=["task"]),
    "two_counts_of_a_task": task(count={"per_slot": 1, "total": 2}),
    "a_count_of_a_task_that_is_a_number": task(count=1),
    "a_distribution_that_is_a_list": task(distribution=[1]),
    "attributes_of_a_task_that_are_a_string": task(attributes="x"),
    "six_members_of_a_task": task(distribution="x", attributes={}, more=1),
    "attributes_that_are_a_list": having(attributes=[]),
    "attributes_that_nobody_knows": having(attributes={"other": {}}),
    "a_system_that_is_a_list": having(attributes={"system": [1]}),
    "a_duration_in_words": system(duration="soon"),
    "a_duration_of_null": system(duration=None),
    "a_duration_that_is_true": system(duration=True),
    "a_negative_duration": system(duration=-0.5),
    "a_queue_that_is_a_list": system(queue=["batch"]),
    "an_environment_that_is_a_list": system(environment=["A=1"]),
    "properties_that_are_a_list_of_lists": system(constraints={"properties": [["big"]]}),
}

CASES = [
    *(
        case(f"accepted_{name}", FLAT, "lonode", allocate(request, "node0: core0"))
        for name, request in VALID.items()
    ),
    *(
        case(f"refused_{name}", FLAT, "lonode", allocate(request, "EINVAL"), allocate(PLAIN, "node0: core0"))
        for name, request in INVALID.items()
    ),
    case("refused_a_list", FLAT, "lonode", allocate([], "EINVAL"), allocate(PLAIN, "node0: core0")),  # type: ignore[arg-type]
    case("refused_a_text_in_place_of_a_request", FLAT, "lonode", allocate("x", "EINVAL")),  # type: ignore[arg-type]
]
