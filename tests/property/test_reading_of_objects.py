"""The law of reading: a field that can't be read is named and costs only itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import MsgspecError, Struct, structs

from fluence_extender.objects.devices import (
    read_device_class,
    read_resource_claim,
    read_resource_claim_template,
    read_resource_slice,
)
from fluence_extender.objects.queues import (
    read_kueue_queue,
    read_namespace,
    read_priority_class,
    read_queue,
    read_reservation,
)
from fluence_extender.objects.resource_quota import read_resource_quota

Json = Any
Path = tuple[str, ...]

READ_WHOLE = ("selector", "labels", "amounts", "users", "used", "borrowed", "devices", "allocation")
"""Fields that are read in full or not at all: half a selector would select more."""

TIME = "1970-01-01T00:02:00Z"
META = {"name": "a", "namespace": "b", "uid": "u", "labels": {"x": "y"}, "creationTimestamp": TIME}
ACCEPTED = [{"type": "Accepted", "status": "False", "message": "why", "lastTransitionTime": TIME}]
SELECTION = {
    "names": ["n"],
    "selector": {"matchLabels": {"k": "v"}, "matchExpressions": [{"key": "k", "operator": "Exists"}]},
}
QUEUE = {
    "metadata": META,
    "spec": {
        "namespaces": SELECTION,
        "defaultFor": ["d"],
        "scheduling": {
            "policy": "hybrid",
            "reservationDepth": 8,
            "queueDepth": 9,
            "starvationAfter": "6h",
            "admissionTimeout": 300,
        },
        "defaults": {"duration": "1h", "priorityClassName": "high"},
        "maxDuration": "1d",
        "overrun": "Requeue",
        "max": {"running": 1, "queued": 2, "runningPerUser": 3, "queuedPerUser": 4},
        "stop": "Drain",
        "parent": "p",
        "guaranteed": {"cpu": "1.5"},
        "limit": {"memory": "1Gi", "cpu": 2},
        "lendable": {"cpu": "500m"},
        "weight": 2,
        "halfLife": "7d",
        "ageing": {"classStep": "1h"},
        "preemption": {"reclaim": "Borrowed", "within": "Never", "minRuntime": "10m", "by": "Suspend"},
    },
    "status": {
        "conditions": ACCEPTED,
        "waiting": 3,
        "admitted": 2,
        "stoppedSince": TIME,
        "used": {"cpu": "1"},
        "borrowed": {"cpu": "2"},
        "share": 0.5,
        "usage": {"at": TIME, "amounts": {"cpu": 1.5}, "users": {"ab": {"cpu": 0.5}}},
    },
}
RESERVATION = {
    "metadata": META,
    "spec": {"start": TIME, "duration": "3h", "nodes": SELECTION, "queues": ["p"], "reason": "firmware"},
    "status": {"nodes": 4, "conditions": ACCEPTED},
}
RESOURCE_QUOTA = {
    "metadata": META,
    "spec": {
        "scopes": ["BestEffort"],
        "scopeSelector": {
            "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]
        },
    },
    "status": {"hard": {"pods": "3", "cpu": 2}, "used": {"pods": "1"}},
}
SLICE = {
    "metadata": META,
    "spec": {
        "driver": "d",
        "nodeName": "n",
        "pool": {"name": "p", "generation": 3, "resourceSliceCount": 2},
        "devices": [{"name": "g", "attributes": {"a": {"string": "v"}}, "capacity": {"m": {"value": "1"}}}],
        "sharedCounters": [{"name": "s", "counters": {"c": {"value": "7"}}}],
    },
}
CLASS = {
    "metadata": META,
    "spec": {"selectors": [{"cel": {"expression": "true"}}], "extendedResourceName": "r"},
}
CLAIMED = {
    "devices": {
        "requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}],
        "constraints": [{"requests": ["r"], "matchAttribute": "a/b"}],
    }
}
CLAIM = {
    "metadata": META,
    "spec": CLAIMED,
    "status": {
        "allocation": {
            "devices": {"results": [{"request": "r", "driver": "d", "pool": "p", "device": "g"}]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": []}]},
        },
        "reservedFor": [{"uid": "u"}],
    },
}
KINDS: dict[str, tuple[Callable[[bytes], Struct], Json]] = {
    "Queue": (read_queue, QUEUE),
    "Reservation": (read_reservation, RESERVATION),
    "Namespace": (read_namespace, {"metadata": META}),
    "PriorityClass": (read_priority_class, {"metadata": META, "value": 7, "globalDefault": True}),
    "ResourceQuota": (read_resource_quota, RESOURCE_QUOTA),
    "ResourceSlice": (read_resource_slice, SLICE),
    "DeviceClass": (read_device_class, CLASS),
    "ResourceClaim": (read_resource_claim, CLAIM),
    "ResourceClaimTemplate": (read_resource_claim_template, {"metadata": META, "spec": {"spec": CLAIMED}}),
    "LocalQueue": (read_kueue_queue, {"metadata": META}),
}

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
)
NO_OBJECT = SCALARS | st.lists(ANYTHING, max_size=3)


def places(document: Json, above: Path = ()) -> list[Path]:
    """Return the paths of all fields."""
    if not isinstance(document, dict):
        return []
    return [
        path for name, value in document.items() for path in ((*above, name), *places(value, (*above, name)))
    ]


def changed(document: Json, path: Path, value: Json) -> Json:
    """Return a copy with another value at the path."""
    copy = deepcopy(document)
    part = copy
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = value
    return copy


def read(name: str, document: Json) -> Struct | None:
    """Return the object, None if it can't be read at all."""
    try:
        return KINDS[name][0](json.dumps(document).encode())
    except MsgspecError:
        return None


def told(thing: Struct) -> tuple[str, ...]:
    """Return the problems of an object."""
    problems: tuple[str, ...] = getattr(thing, "problems", ())
    return problems


@pytest.mark.parametrize("name", KINDS)
@given(data=st.data())
def test_a_field_that_cannot_be_read_is_named_and_costs_only_itself(name: str, data: st.DataObject) -> None:
    whole = KINDS[name][1]
    path = data.draw(st.sampled_from(places(whole)))
    value = data.draw(NO_OBJECT)
    whole_field = next((number for number, step in enumerate(path, 1) if step in READ_WHOLE), len(path))
    cost = path[:whole_field]
    thing, without = read(name, changed(whole, path, value)), read(name, changed(whole, cost, None))
    if thing is None or without is None:
        assert path[0] == "metadata", "an object is read unless it has no name"
        return
    assert {problem.partition(" is ")[0] for problem in told(thing)} <= {".".join(cost)}
    if told(thing):
        fields, expected = structs.asdict(thing), structs.asdict(without)
        if "Claim" in name:
            assert fields.pop("spec").problem == told(thing)[0], "a claim that can't be read isn't planned"
            del expected["spec"]
        if name == "Reservation":
            assert fields.pop("duration") == 0, "it isn't known what it closes"
            del expected["duration"]
        assert fields | {"problems": ()} == expected


@pytest.mark.parametrize("name", KINDS)
@given(data=st.data())
def test_reading_fails_only_without_a_name(name: str, data: st.DataObject) -> None:
    document = deepcopy(KINDS[name][1])
    fields = [path for path in places(document) if path[0] != "metadata"] or [("spec",)]
    for path in data.draw(st.lists(st.sampled_from(fields))):
        with suppress(TypeError, KeyError):
            document = changed(document, path, data.draw(ANYTHING))
    assert read(name, document) is not None


@pytest.mark.parametrize("name", KINDS)
def test_whole_objects_have_no_problem(name: str) -> None:
    thing = read(name, KINDS[name][1])
    assert thing is not None
    assert told(thing) == ()


@pytest.mark.parametrize(
    "text", [b"", b"5", b"[]", b"null", b'{"metadata":', b"{}", b'{"metadata":{}}', b'{"metadata":5}']
)
@pytest.mark.parametrize("name", KINDS)
def test_what_is_no_object_with_a_name_cannot_be_read(name: str, text: bytes) -> None:
    with pytest.raises(MsgspecError):
        KINDS[name][0](text)
