"""Labels of flux-k8s on objects make the same gangs in a simulation as in the cluster."""

from __future__ import annotations

import copy

import pytest

from fluence_extender.kinds.replicas import labels_for_template
from fluence_extender.model.gang import Convention
from tests.core.labelled_objects import BOTH, LONG, OBJECTS, SIZE, UNNAMED, labelled
from tests.unit.whatif.conftest import request_of


@pytest.mark.parametrize("what", OBJECTS)
def test_template_gets_the_labels_that_it_does_not_have(what: str) -> None:
    body, handed_on = OBJECTS[what]
    assert labels_for_template(body) == handed_on


@pytest.mark.parametrize(
    ("what", "group", "convention", "size"),
    [
        ("with both", "g", Convention.COSCHEDULING, 2),
        ("with a group", "g", Convention.COSCHEDULING, 3),
        ("with a size", UNNAMED, Convention.COSCHEDULING, 2),
        ("with a size, and a name too long for a group", LONG, Convention.OWNER, 2),
        ("a StatefulSet", "g", Convention.COSCHEDULING, 2),
        ("whose template says both", "h", Convention.COSCHEDULING, 5),
    ],
)
def test_labelled_object_is_one_gang(what: str, group: str, convention: Convention, size: int) -> None:
    (gang,) = request_of([copy.deepcopy(OBJECTS[what][0])]).gangs
    assert (gang.key.name, gang.key.convention, gang.size, len(gang.pods)) == (group, convention, size, 3)


def test_pods_of_an_object_without_labels_are_alone() -> None:
    assert [one.size for one in request_of([labelled(None)]).gangs] == [1, 1, 1]


def test_default_namespace_is_that_of_the_group() -> None:
    body = labelled(SIZE)
    del body["metadata"]["namespace"]
    (gang,) = request_of([body], namespace="lab").gangs
    assert (gang.key.namespace, gang.key.name) == ("lab", "fluence-group-lab-web")


def test_replication_controllers_are_not_labelled() -> None:
    assert labels_for_template(labelled(BOTH, "ReplicationController")) == {}
