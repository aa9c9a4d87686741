"""The table of fields is that of the official client's models. ``python -m tests.unit.kinds.test_fields`` writes it."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from typing import Any

import pytest
from kubernetes.client import models

from fluence_extender.apiserver.fields import field_faults

ROOTS = (
    "V1Pod",
    "V1Job",
    "V1CronJob",
    "V1Deployment",
    "V1ReplicaSet",
    "V1ReplicationController",
    "V1StatefulSet",
    "V1LimitRange",
    "V1PriorityClass",
    "V1RuntimeClass",
)
SIMPLE = {
    "str": "text",
    "int": "integer",
    "float": "number",
    "bool": "truth",
    "object": "any",
    "datetime": "text",
}
LIMITS = ("default", "defaultRequest", "max", "maxLimitRequestRatio", "min")
QUANTITIES = {
    ("V1ResourceRequirements", "limits"),
    ("V1ResourceRequirements", "requests"),
    ("V1VolumeResourceRequirements", "limits"),
    ("V1VolumeResourceRequirements", "requests"),
    ("V1PodSpec", "overhead"),
    ("V1Overhead", "podFixed"),
    *(("V1LimitRangeItem", field) for field in LIMITS),
    ("V1EmptyDirVolumeSource", "sizeLimit"),
    ("V1ResourceFieldSelector", "divisor"),
}
"""Fields that are texts in the models, and for which the API server takes numbers too."""

UNREAD = "status"
"""A field that the API server ignores in a new object."""


def table() -> dict[str, dict[str, str]]:
    made: dict[str, dict[str, str]] = {}
    missing = list(ROOTS)
    while missing:
        name = missing.pop()
        if name in made:
            continue
        model = getattr(models, name)
        fields = made[name] = {}
        for attribute, field in sorted(model.attribute_map.items(), key=lambda pair: str(pair[1])):
            kind = "any" if field == UNREAD else written(model.openapi_types[attribute])
            fields[field] = kind.replace("text", "quantity") if (name, field) in QUANTITIES else kind
            inner = kind.strip("[{")
            if inner not in {*SIMPLE.values(), "quantity"}:
                missing.append(inner)
    return dict(sorted(made.items()))


def written(kind: str) -> str:
    if match := re.fullmatch(r"[Ll]ist\[(.+)\]", kind):
        return f"[{written(match[1])}"
    if match := re.fullmatch(r"[Dd]ict[\[(]str, (.+)[\])]", kind):
        return f"{{{written(match[1])}"
    return SIMPLE.get(kind, kind)


def test_table_has_the_fields_of_the_official_client() -> None:
    raw = files("fluence_extender.apiserver").joinpath("fields.json").read_text()
    assert json.loads(raw) == table()


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ({"paralelism": 4}, 'unknown field "spec.paralelism"'),
        ({"parallelism": "4"}, 'spec.parallelism: Invalid value: "4": must be an integer'),
        ({"parallelism": True}, "spec.parallelism: Invalid value: true: must be an integer"),
        ({"suspend": 1}, "spec.suspend: Invalid value: 1: must be true or false"),
        ({"template": []}, "spec.template: Invalid value: []: must be a mapping"),
        (
            {"template": {"metadata": {"annotations": {"a": 3}}}},
            "spec.template.metadata.annotations[a]: Invalid value: 3: must be a string (put it in quotes)",
        ),
        (
            {"template": {"spec": {"containers": {}}}},
            "spec.template.spec.containers: Invalid value: {}: must be a list",
        ),
        (
            {"template": {"spec": {"containers": [{"resources": {"limits": {"cpu": [1]}}}]}}},
            "spec.template.spec.containers[0].resources.limits[cpu]: Invalid value: [1]: must be a quantity",
        ),
    ],
)
def test_wrong_field_is_named_with_its_path(spec: Any, fault: str) -> None:
    assert list(field_faults({"spec": spec}, "V1Job", "")) == [fault]


def test_numbers_are_quantities_and_null_is_nothing() -> None:
    container = {"name": "a", "resources": {"limits": {"cpu": 1, "memory": 1.5e9}}, "ports": None}
    job = {"spec": {"template": {"spec": {"containers": [container]}}}, "status": {"whatever": 1}}
    assert not list(field_faults(job, "V1Job", ""))


if __name__ == "__main__":
    path = files("fluence_extender.apiserver").joinpath("fields.json")
    with open(str(path), "w") as file:
        json.dump(table(), file, indent=0)
        file.write("\n")
