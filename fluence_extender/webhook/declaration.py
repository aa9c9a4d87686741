"""Read what a pod declares: the devices it requests, the group it names, and its role in that group.

Invariant: a pod that admission has patched already declares the same as before.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from fluence_extender.kinds.labels import GROUP_NAME
from fluence_extender.kinds.membership import LARGEST_SIZE, LONGEST_SHOWN, number
from fluence_extender.model.coordination import (
    CONSUMER,
    COORDINATION_ANNOTATION,
    DEPENDS_ON_PRODUCER,
    NAMING_OWNERS,
    OBSERVE_LABEL,
    PRODUCER,
    PRODUCER_SUFFIX,
    QPU,
    ROLE_ANNOTATION,
    SHARED,
    SIDECAR_CONTAINER,
    producer_group,
)
from fluence_extender.model.names import (
    COMPLETION_INDEX,
    COSCHEDULING_NAMES,
    GROUP_LABEL,
    GROUP_SIZE_ANNOTATION,
    LONGEST_LABEL,
    LWS_GROUP_INDEX,
    LWS_WORKER_INDEX,
    POD_INDEX,
)
from fluence_extender.model.pod_keys import (
    UNGROUPED,
    UNSIZED,
    coordination_remarks,
    lacks_size,
    remarks,
    role_fault,
    unhonoured,
)
from fluence_extender.model.requests import InvalidRequest, effective_requests
from fluence_extender.model.syntax import is_label_value, is_object_name
from fluence_extender.webhook.containers import is_own
from fluence_extender.webhook.contract import Json
from fluence_extender.webhook.validity import shape_fault

UNDECIDED = "undecided"
"""The role of a pod that equals the others of its shared group: a lookup chooses the producer."""

NUMBERED = "numbered"
"""The role of a pod of a StatefulSet with another index than 0: only its owner says which index comes first."""

JOB_GLOBAL_INDEX = "jobset.sigs.k8s.io/job-global-index"

NUMBER = re.compile("[0-9]{1,9}")

MOST_REMARKS = 10


class Unfit(ValueError):
    """The pod can't be patched as it is; the text says what is wrong and what to do."""


@dataclass(frozen=True, slots=True)
class PodDeclaration:
    """The declaration of one pod.

    ``devices`` are the virtual resources that it requests, by type. ``group`` is its group; ``named`` says that a label
    names the group. Otherwise the group is the name of the pod's owner, which counts for shared quantum jobs only.
    ``size`` is the gang's size by the pod's own annotation. ``role`` is "" outside shared groups; ``number`` is the
    pod's index in a StatefulSet if its role depends on that. ``owner`` is kind and name of its controller.
    """

    devices: Mapping[str, int]
    group: str = ""
    named: bool = False
    size: int | None = None
    role: str = ""
    number: int = 0
    observed: bool = False
    owner: tuple[str, str] = ("", "")
    warnings: tuple[str, ...] = ()

    @property
    def quantum(self) -> bool:
        """Whether the pod runs a quantum task of its own: it requests a qpu and isn't a consumer."""
        return QPU in self.devices and self.role != CONSUMER


def read_declaration(pod: Json) -> PodDeclaration:
    """Return the declaration of ``pod``. Raises `Unfit`."""
    if misshapen := shape_fault(pod):
        raise Unfit(misshapen)
    metadata = pod["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    try:
        _, devices = effective_requests(pod["spec"])
    except InvalidRequest as error:
        raise Unfit(f"{error}: correct the pod's resources") from None
    owner = _owner(metadata)
    label = str(labels.get(GROUP_LABEL) or "")
    _check_names(pod["spec"], labels, annotations, label)
    size = _size(annotations)
    role = _role(pod, labels, annotations, devices, label, owner, size)
    group = label or (owner[1] if role else "")
    if role == PRODUCER and _has_sidecar(pod["spec"]):
        group = group.removesuffix(PRODUCER_SUFFIX)
    _check_producer_name(group, role)
    grouped = bool(label) or owner[0] in NAMING_OWNERS
    mistaken = unhonoured(labels, annotations, owner[1] if owner[0] in NAMING_OWNERS else "")
    warnings = [
        *([f"{mistaken}; until then the pod isn't placed"] if mistaken else ()),
        *coordination_remarks(labels, annotations, QPU in devices, grouped),
    ]
    unsized: tuple[str, ...] = ()
    if not (owner[1] or _other_names(pod["spec"], labels, annotations)):
        if size not in (None, 1) and not label:
            warnings.append(UNGROUPED)
        if not role and lacks_size(labels, annotations):
            unsized = (UNSIZED,)
    return PodDeclaration(
        devices=devices,
        group=group,
        named=bool(label),
        size=size,
        role=role,
        number=int(labels[POD_INDEX]) if role == NUMBERED else 0,
        observed=labels.get(OBSERVE_LABEL) == "true",
        owner=owner,
        # Each remark searches for the intended key, and only the first few warnings are shown.
        warnings=(*warnings, *islice(remarks(labels, annotations), MOST_REMARKS), *unsized),
    )


def _owner(metadata: Mapping[str, Any]) -> tuple[str, str]:
    for one in metadata.get("ownerReferences") or ():
        if one.get("controller"):
            kind, name = str(one.get("kind", "")), str(one.get("name", ""))
            # The API server doesn't check the name of an owner, and a look-up puts it into a path.
            return (kind, name) if is_object_name(name) else ("", "")
    return "", ""


def _check_names(
    spec: Mapping[str, Any], labels: Mapping[str, str], annotations: Mapping[str, str], label: str
) -> None:
    """Raise `Unfit` if the pod names more than one group."""
    if not label:
        return
    for source, other in _other_names(spec, labels, annotations).items():
        if other != label:
            raise Unfit(
                f"label {GROUP_LABEL} names group {label!r}, {source} names {other!r}: remove one of them, or name "
                "the same group in both"
            )


def _other_names(
    spec: Mapping[str, Any], labels: Mapping[str, str], annotations: Mapping[str, str]
) -> dict[str, str]:
    """Return the groups that the pod names by other conventions, each by the place that names it."""
    named = {f"label {key}": labels.get(key) for key in COSCHEDULING_NAMES}
    named[f"label {GROUP_NAME}"] = labels.get(GROUP_NAME)
    named[f"annotation {GROUP_NAME}"] = annotations.get(GROUP_NAME)
    named["spec.schedulingGroup"] = (spec.get("schedulingGroup") or {}).get("podGroupName")
    return {place: name for place, name in named.items() if name}


def _size(annotations: Mapping[str, str]) -> int | None:
    text = annotations.get(GROUP_SIZE_ANNOTATION)
    if text is None:
        return None
    size = number(text)
    if size is None:
        raise Unfit(
            f"annotation {GROUP_SIZE_ANNOTATION} is {text[:LONGEST_SHOWN]!r}, which isn't a size: write a whole number "
            f"from 1 to {LARGEST_SIZE}, in quotes"
        )
    return size


def _role(
    pod: Json,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    devices: Mapping[str, int],
    label: str,
    owner: tuple[str, str],
    size: int | None,
) -> str:
    wanted = annotations.get(ROLE_ANNOTATION, "")
    if fault := role_fault(wanted):
        raise Unfit(fault)
    if annotations.get(COORDINATION_ANNOTATION) != SHARED or size == 1:
        return ""
    if not label and owner[0] not in NAMING_OWNERS:
        return ""
    if DEPENDS_ON_PRODUCER in annotations or QPU not in devices:
        # A pod without a qpu can't submit a task.
        return CONSUMER if label or QPU in devices else ""
    return wanted or _by_index(labels, annotations, owner[0])


def _by_index(labels: Mapping[str, str], annotations: Mapping[str, str], owner: str) -> str:
    """Return the role by index: the first pod of an indexed owner is the producer; without an index it is open."""
    indexes = [
        index
        for index in (
            annotations.get(COMPLETION_INDEX),
            labels.get(JOB_GLOBAL_INDEX),
            labels.get(POD_INDEX),
            labels.get(LWS_WORKER_INDEX),
            labels.get(LWS_GROUP_INDEX),
        )
        if index is not None
    ]
    if not indexes:
        return UNDECIDED
    if all(index == "0" for index in indexes):
        return PRODUCER
    alone = owner == "StatefulSet" and indexes == [labels.get(POD_INDEX)]
    return NUMBERED if alone and NUMBER.fullmatch(indexes[0]) else CONSUMER


def _has_sidecar(spec: Mapping[str, Any]) -> bool:
    return any(is_own(one, SIDECAR_CONTAINER) for one in spec.get("initContainers") or ())


def _check_producer_name(group: str, role: str) -> None:
    if not role:
        return
    if not all(is_label_value(name) for name in (group, producer_group(group))):
        raise Unfit(
            f"the producer of shared group {group!r} would be in group {producer_group(group)!r}, which isn't a valid "
            f"label: label the pods with a {GROUP_LABEL} of at most {LONGEST_LABEL - len(PRODUCER_SUFFIX)} characters"
        )
