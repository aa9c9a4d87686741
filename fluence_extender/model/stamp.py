"""What a Binding writes on the pod: the backend that serves it, that backend's attributes, and the allocation.

The annotations say which devices were chosen and nothing else; what a bound pod holds on its node is read from its
spec. A user can write any annotation, so on the way back a stamp is a wish that must fit, never a fact.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from fluence_extender.model.gang import GangKey
from fluence_extender.model.names import ALLOCATION_ANNOTATION, ATTRIBUTE_PREFIX, BACKEND_ANNOTATION
from fluence_extender.model.placement import Assignment

MOST_DEVICES = 64
LONGEST_STAMP = 16_384


@dataclass(frozen=True, slots=True)
class RecordedDevice:
    """A device share as a stamp names it."""

    path: str
    type: str
    amount: int


def describes_backend(name: str) -> bool:
    """Whether the annotation of that name says which backend a pod has got, or what it is like."""
    return name == BACKEND_ANNOTATION or name.startswith(ATTRIBUTE_PREFIX)


def binding_annotations(
    gang: GangKey, assignment: Assignment, written: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The annotations of the Binding.

    ``written`` are those that the pod has: a backend or attribute that it doesn't get is emptied, because a Binding
    can overwrite annotations and not remove them. Where devices come from several backends, their names are joined by
    commas, and so are the values of an attribute that differ.
    """
    devices = [{"path": one.path, "type": one.type, "amount": one.amount} for one in assignment.devices]
    record = {"gang": str(gang), "node": assignment.node, "devices": devices}
    stamped = {name: "" for name in written or () if describes_backend(name)}
    stamped[ALLOCATION_ANNOTATION] = json.dumps(record, separators=(",", ":"))
    if assignment.devices:
        stamped[BACKEND_ANNOTATION] = assignment.backend
        for key in sorted({key for one in assignment.devices for key in one.attributes}):
            values = dict.fromkeys(one.attributes[key] for one in assignment.devices if key in one.attributes)
            stamped[f"{ATTRIBUTE_PREFIX}{key}"] = ",".join(values)
    return stamped


def recorded_devices(written: Mapping[str, str]) -> tuple[RecordedDevice, ...]:
    """The device shares named in a pod's annotations; anything that isn't a stamp of ours names none."""
    text = written.get(ALLOCATION_ANNOTATION, "")
    if not text or len(text) > LONGEST_STAMP:
        return ()
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    devices = record.get("devices") if isinstance(record, dict) else None
    if not isinstance(devices, list) or len(devices) > MOST_DEVICES:
        return ()
    return tuple(device for one in devices if (device := _device(one)) is not None)


def names_exactly(written: Mapping[str, str], assignment: Assignment) -> bool:
    """Whether a pod's annotations name the devices of ``assignment``, each once, and no others."""
    given = Counter(RecordedDevice(one.path, one.type, one.amount) for one in assignment.devices)
    return given == Counter(recorded_devices(written))


def _device(one: object) -> RecordedDevice | None:
    match one:
        case {"path": str(path), "type": str(kind), "amount": int(amount)} if amount > 0:
            return RecordedDevice(path, kind, amount)
    return None
