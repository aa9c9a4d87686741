"""What a Binding writes on the pod."""

from __future__ import annotations

from fluence_extender.model.gang import Convention, GangKey
from fluence_extender.model.names import ALLOCATION_ANNOTATION, ATTRIBUTE_PREFIX, BACKEND_ANNOTATION
from fluence_extender.model.placement import Assignment, DeviceShare
from fluence_extender.model.stamp import binding_annotations, recorded_devices

KEY = GangKey("default", "g", Convention.LABEL)
SHARE = DeviceShare("/cluster/fez", "qpu", 1, "fez", {"vendor": "ibm"})
CLAIMED = {
    BACKEND_ANNOTATION: "ankaa",
    f"{ATTRIBUTE_PREFIX}vendor": "rigetti",
    f"{ATTRIBUTE_PREFIX}region": "mars",
    "example.com/note": "mine",
}


def test_backend_and_attributes_are_written_and_the_shares_can_be_read_back() -> None:
    stamped = binding_annotations(KEY, Assignment("u", "n0", (SHARE,)))
    assert stamped[BACKEND_ANNOTATION] == "fez"
    assert stamped[f"{ATTRIBUTE_PREFIX}vendor"] == "ibm"
    assert [(one.path, one.amount) for one in recorded_devices(stamped)] == [("/cluster/fez", 1)]


def test_pod_without_devices_loses_the_backend_it_claimed() -> None:
    stamped = binding_annotations(KEY, Assignment("u", "n0", ()), CLAIMED)
    del stamped[ALLOCATION_ANNOTATION]
    assert stamped == {
        BACKEND_ANNOTATION: "",
        f"{ATTRIBUTE_PREFIX}vendor": "",
        f"{ATTRIBUTE_PREFIX}region": "",
    }


def test_attributes_that_the_backend_lacks_are_emptied() -> None:
    stamped = binding_annotations(KEY, Assignment("u", "n0", (SHARE,)), CLAIMED)
    assert stamped[BACKEND_ANNOTATION] == "fez"
    assert stamped[f"{ATTRIBUTE_PREFIX}vendor"] == "ibm"
    assert stamped[f"{ATTRIBUTE_PREFIX}region"] == ""
