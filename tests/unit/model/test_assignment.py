"""The Binding records the assignment in annotations."""

from __future__ import annotations

from fluence_extender.model.assignment import Assignment, DeviceShare, binding_annotations, recorded_devices
from fluence_extender.model.gang import Convention, GangKey
from fluence_extender.model.names import ALLOCATION_ANNOTATION, ATTRIBUTE_PREFIX, BACKEND_ANNOTATION

KEY = GangKey("default", "g", Convention.LABEL)
SHARE = DeviceShare("/cluster/fez", "qpu", 1, "fez", {"vendor": "ibm"})
WRITTEN_BY_USER = {
    BACKEND_ANNOTATION: "ankaa",
    f"{ATTRIBUTE_PREFIX}vendor": "rigetti",
    f"{ATTRIBUTE_PREFIX}region": "mars",
    "example.com/note": "mine",
}


def test_binding_records_backend_and_attributes_and_the_shares_can_be_read_back() -> None:
    annotations = binding_annotations(KEY, Assignment("u", "n0", (SHARE,)))
    assert annotations[BACKEND_ANNOTATION] == "fez"
    assert annotations[f"{ATTRIBUTE_PREFIX}vendor"] == "ibm"
    assert [(one.path, one.amount) for one in recorded_devices(annotations)] == [("/cluster/fez", 1)]


def test_pod_without_devices_loses_a_backend_that_its_user_wrote() -> None:
    annotations = binding_annotations(KEY, Assignment("u", "n0", ()), WRITTEN_BY_USER)
    del annotations[ALLOCATION_ANNOTATION]
    assert annotations == {
        BACKEND_ANNOTATION: "",
        f"{ATTRIBUTE_PREFIX}vendor": "",
        f"{ATTRIBUTE_PREFIX}region": "",
    }


def test_attribute_that_the_backend_lacks_is_emptied() -> None:
    annotations = binding_annotations(KEY, Assignment("u", "n0", (SHARE,)), WRITTEN_BY_USER)
    assert annotations[BACKEND_ANNOTATION] == "fez"
    assert annotations[f"{ATTRIBUTE_PREFIX}vendor"] == "ibm"
    assert annotations[f"{ATTRIBUTE_PREFIX}region"] == ""
