"""One pod's assignment (its node and its devices), and the annotations in which the Binding records it.

The annotations say which devices were chosen, and nothing else: what a bound pod holds on its node is derived from its
spec. Any user can write any annotation. So a record that is read back is checked against the graph before it counts.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from fluence_extender.model.gang import GangKey
from fluence_extender.model.names import (
    ALLOCATION_ANNOTATION,
    ATTRIBUTE_PREFIX,
    BACKEND_ANNOTATION,
    PLACED_ANNOTATION,
)

MOST_DEVICES = 64
LONGEST_RECORD = 16_384
"""The most devices and the most characters in a record; a longer one isn't read."""


@dataclass(frozen=True, slots=True)
class DeviceShare:
    """A share of a virtual resource: ``amount`` units of ``type`` at the vertex ``path``, served by ``backend``."""

    path: str
    type: str
    amount: int
    backend: str
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Assignment:
    """The node and the devices of the pod ``uid``."""

    uid: str
    node: str
    devices: tuple[DeviceShare, ...] = ()

    @property
    def backend(self) -> str:
        """The name of the backend that serves the pod, "" without devices; several names are joined by commas."""
        return ",".join(dict.fromkeys(share.backend for share in self.devices))


@dataclass(frozen=True, slots=True)
class RecordedDevice:
    """A device share as the allocation annotation records it."""

    path: str
    type: str
    amount: int


def describes_backend(name: str) -> bool:
    """Return whether ``name`` is an annotation that names a pod's backend or one of its attributes."""
    return name == BACKEND_ANNOTATION or name.startswith(ATTRIBUTE_PREFIX)


def binding_annotations(
    gang: GangKey, assignment: Assignment, written: Mapping[str, str] | None = None, placed_with: str = ""
) -> dict[str, str]:
    """Return the annotations of the Binding.

    ``written`` are the annotations that the pod already has. A backend or attribute among them that the pod doesn't get
    is set to "", and so is an unknown ``placed_with`` (the text of the pod's `PlaceRecord`), because a Binding can
    overwrite annotations but not remove them. Where the devices come from several backends, the backends' names are
    joined by commas, and so are differing values of one attribute.
    """
    devices = [{"path": one.path, "type": one.type, "amount": one.amount} for one in assignment.devices]
    record = {"gang": str(gang), "node": assignment.node, "devices": devices}
    annotations = {name: "" for name in written or () if describes_backend(name)}
    if placed_with or PLACED_ANNOTATION in (written or ()):
        annotations[PLACED_ANNOTATION] = placed_with
    annotations[ALLOCATION_ANNOTATION] = json.dumps(record, separators=(",", ":"))
    if assignment.devices:
        annotations[BACKEND_ANNOTATION] = assignment.backend
        for key in sorted({key for one in assignment.devices for key in one.attributes}):
            values = dict.fromkeys(one.attributes[key] for one in assignment.devices if key in one.attributes)
            annotations[f"{ATTRIBUTE_PREFIX}{key}"] = ",".join(values)
    return annotations


def recorded_devices(annotations: Mapping[str, str]) -> tuple[RecordedDevice, ...]:
    """Return the device shares that a pod's annotations record; none where the record can't be read."""
    text = annotations.get(ALLOCATION_ANNOTATION, "")
    if not text or len(text) > LONGEST_RECORD:
        return ()
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    devices = record.get("devices") if isinstance(record, dict) else None
    if not isinstance(devices, list) or len(devices) > MOST_DEVICES:
        return ()
    return tuple(device for one in devices if (device := _device(one)) is not None)


def records_exactly(annotations: Mapping[str, str], assignment: Assignment) -> bool:
    """Return whether a pod's annotations record the devices of ``assignment``, each once, and no others."""
    given = Counter(RecordedDevice(one.path, one.type, one.amount) for one in assignment.devices)
    return given == Counter(recorded_devices(annotations))


def _device(one: object) -> RecordedDevice | None:
    match one:
        case {"path": str(path), "type": str(kind), "amount": int(amount)} if amount > 0:
            return RecordedDevice(path, kind, amount)
    return None
