"""Find labels and annotations under the project's domain that have no effect.

These are unknown keys, keys in the wrong place, and durations that can't be read. Invariant: there is no remark on
anything that the service, admission or a sidecar writes on a pod.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from difflib import get_close_matches
from functools import lru_cache

from fluence_extender.model import coordination, names
from fluence_extender.model.keys import ANNOTATIONS, LABELS, ON_JOBS, PREFIXES, REQUESTED, TEMPLATED, TIMES
from fluence_extender.model.notation import DURATION_FORM, parse_duration

UNGROUPED = (
    f"annotation {names.GROUP_SIZE_ANNOTATION} does nothing on a pod that no controller owns and that names no group: "
    f"add the label {names.GROUP_LABEL}"
)
"""The remark on a group size above 1 where there is no group that could have this size."""

UNSIZED = (
    f"label {names.GROUP_LABEL} without the annotation {names.GROUP_SIZE_ANNOTATION}: the pods of the group start one "
    "by one, because nothing says how many they are; write the size, 1 if that is meant"
)
"""The remark on a pod without a controller that names a group and no size."""

NAME_A_GROUP = f"name the group in the label {names.GROUP_LABEL}"

OTHER_PROJECTS = {
    "scheduling.k8s.io/pod-group": NAME_A_GROUP,
    f"{names.DOMAIN}/pod-group": NAME_A_GROUP,
    "fluence.pod-group": NAME_A_GROUP,
    "fluxqueue.pod-group": NAME_A_GROUP,
    "fluxqueue.group-size": f"state the size in the annotation {names.GROUP_SIZE_ANNOTATION}",
    "fluxnetes.group-name": NAME_A_GROUP,
    "fluxnetes.group-size": f"state the size in the annotation {names.GROUP_SIZE_ANNOTATION}",
}
"""Labels and annotations of older schedulers and their documents that have no effect here, with what to do instead."""

RESULT_NOT_REQUEST = (
    f"annotation {names.BACKEND_ANNOTATION} is overwritten when the pod is bound: to request a device, write "
    f"{names.REQUIRE_BACKEND_ANNOTATION}"
)

LONGEST_SHOWN = 40
LONGEST_KEY = 63
"""Characters behind the domain of a key; the API server takes no longer ones."""

NO_SUCH_KEY = "there is no such key; kubectl fluence explain lists all"
OURS = f"{names.DOMAIN}/"


def lacks_size(labels: Mapping[str, str], annotations: Mapping[str, str]) -> bool:
    """Return whether a pod without a controller names a group by our label and says nothing of the group's size."""
    if not labels.get(names.GROUP_LABEL) or names.GROUP_SIZE_ANNOTATION in annotations:
        return False
    # A shared quantum job has two gangs, and the size of both follows from that of the group.
    return coordination.COORDINATION_ANNOTATION not in annotations


def remarks(
    labels: Mapping[str, str], annotations: Mapping[str, str], instead: Callable[[str], str] | None = None
) -> Iterator[str]:
    """Yield one sentence for each of a pod's labels and annotations that has no effect.

    ``instead`` returns what to do about an unknown key, `meant` by default.
    """
    instead = instead or meant
    for key, advice in OTHER_PROJECTS.items():
        if key in labels or key in annotations:
            yield f"{'label' if key in labels else 'annotation'} {key} does nothing: {advice}"
    if names.BACKEND_ANNOTATION in annotations and names.ALLOCATION_ANNOTATION not in annotations:
        yield RESULT_NOT_REQUEST
    for key in sorted(labels):
        if key.startswith(OURS) and key not in OTHER_PROJECTS and key not in LABELS:
            yield f"label {key} does nothing: {_elsewhere(key, _is_annotation(key), 'annotations') or instead(key)}"
    for key in sorted(annotations):
        if key.startswith(OURS) and key not in OTHER_PROJECTS and not _is_annotation(key):
            yield f"annotation {key} does nothing: {_elsewhere(key, key in LABELS, 'labels') or instead(key)}"
    for key in TIMES:
        text = annotations.get(key)
        if text is not None and parse_duration(text) is None:
            yield f"annotation {key} is {text[:LONGEST_SHOWN]!r}: it must be {DURATION_FORM}"


def coordination_remarks(
    labels: Mapping[str, str], annotations: Mapping[str, str], asks_for_qpu: bool, grouped: bool
) -> Iterator[str]:
    """Yield one sentence for each label and annotation about coordination that has no effect on a pod.

    ``grouped``: its label or its controller names a group.
    """
    mode = annotations.get(coordination.COORDINATION_ANNOTATION)
    shared = f"{coordination.COORDINATION_ANNOTATION}={coordination.SHARED}"
    if mode == coordination.SHARED and not grouped:
        yield (
            f"annotation {coordination.COORDINATION_ANNOTATION} is {mode!r}, but the pod is in no group: add the label "
            f"{names.GROUP_LABEL}"
        )
    if mode in (None, coordination.INDEPENDENT) and annotations.get(coordination.ROLE_ANNOTATION):
        yield (
            f"annotation {coordination.ROLE_ANNOTATION} has no effect, because the job isn't shared: add the "
            f"annotation {shared}"
        )
    observe = labels.get(coordination.OBSERVE_LABEL)
    if observe == "true" and mode != coordination.SHARED and not asks_for_qpu:
        yield (
            f"label {coordination.OBSERVE_LABEL} has no effect, because the pod requests no "
            f"{names.RESOURCE_PREFIX}{coordination.QPU}: request one"
        )
    if observe not in (None, "true", "false"):
        yield (
            f'label {coordination.OBSERVE_LABEL} is {observe[:LONGEST_SHOWN]!r} and counts as "false": write '
            '"true" to observe'
        )


def role_fault(role: str) -> str:
    """Return what is wrong with the role that a pod states, "" if nothing is."""
    if role in ("", coordination.PRODUCER, coordination.CONSUMER):
        return ""
    return (
        f"annotation {coordination.ROLE_ANNOTATION} is {role[:LONGEST_SHOWN]!r}, which isn't a role: write "
        f"{coordination.PRODUCER!r} or {coordination.CONSUMER!r}, or remove it"
    )


def unhonoured(labels: Mapping[str, str], annotations: Mapping[str, str], owner: str) -> str:
    """Return why the coordination that a pod asks for can't be had, "" if it can.

    Without it the pod would be another job: each pod would take a quantum device of its own. ``owner`` is the name of
    the pod's controller, "" without one.
    """
    mode = annotations.get(coordination.COORDINATION_ANNOTATION)
    if mode in (None, coordination.INDEPENDENT):
        return ""
    if mode != coordination.SHARED:
        return (
            f"annotation {coordination.COORDINATION_ANNOTATION} is {mode[:LONGEST_SHOWN]!r}, which isn't a mode: write "
            f"{coordination.SHARED!r} or {coordination.INDEPENDENT!r}"
        )
    role = annotations.get(coordination.ROLE_ANNOTATION, "")
    if fault := role_fault(role):
        return fault
    longest = names.LONGEST_LABEL - len(coordination.PRODUCER_SUFFIX)
    group = labels.get(names.GROUP_LABEL) or owner
    if role == coordination.PRODUCER:
        group = group.removesuffix(coordination.PRODUCER_SUFFIX)
    if len(group) <= longest:
        return ""
    return (
        f"the name of the shared group {group!r} is too long, because its producer is in a group of its own: label the "
        f"pods with a {names.GROUP_LABEL} of at most {longest} characters"
    )


def unprepared(labels: Mapping[str, str], annotations: Mapping[str, str], several: bool, owner: str) -> str:
    """Return why a pod with a quantum device isn't a part of the shared job that it asks for, "" if it is.

    Admission gives each pod of a shared group a role. It leaves a pod as it is whose names clash with what it adds,
    or that names two groups. ``owner`` is the controller if it names the group, and ``several`` whether the gang
    has other pods. The pods of a Job without indexes are gangs of one, and only the webhook's warning says which of
    them lack a role.
    """
    if annotations.get(coordination.COORDINATION_ANNOTATION) != coordination.SHARED:
        return ""
    left = annotations.get(names.WARNING_ANNOTATION, "").startswith(names.LEFT_AS_IT_IS)
    grouped = labels.get(names.GROUP_LABEL) or (owner and (several or left))
    if not grouped or annotations.get(names.GROUP_SIZE_ANNOTATION) == "1":
        return ""
    if coordination.ROLE_ANNOTATION in annotations or coordination.DEPENDS_ON_PRODUCER in annotations:
        return ""
    return (
        "it is to be part of a shared job, but admission has left it as it is, without a role: to read why, create "
        "the pod alone with `kubectl create --dry-run=server`, correct its template and create it anew"
    )


def ineffective(kind: str, own: Collection[str], on_pods: Collection[str]) -> Iterator[str]:
    """Yield one sentence for each key that an object of ``kind`` has itself and the pods that it creates lack."""
    for key in sorted(TEMPLATED.intersection(own).difference(on_pods)):
        if kind == "Job" and key == names.GROUP_SIZE_ANNOTATION:
            continue
        yield f"{key} does nothing on a {kind} itself: write it under the metadata of its pod template"


def _is_annotation(key: str) -> bool:
    return key in ANNOTATIONS or key.startswith(PREFIXES)


def _elsewhere(key: str, elsewhere: bool, where: str) -> str:
    if key in ON_JOBS:
        return "write it on the Job itself, or on its namespace"
    return f"write it under metadata.{where}" if elsewhere else ""


@lru_cache(maxsize=1024)
def meant(key: str) -> str:
    """Return which key a user may have meant by an unknown one. This takes time, so bound the number of calls."""
    kinds = {label.removeprefix(OURS): "label" for label in LABELS}
    kinds |= {annotation.removeprefix(OURS): "annotation" for annotation in REQUESTED}
    word = key.removeprefix(OURS).lower().replace("_", "-")
    # Comparing two words takes the product of their lengths.
    close = get_close_matches(word, kinds, n=1) if len(word) <= LONGEST_KEY else []
    if not close:
        return NO_SUCH_KEY
    return f"did you mean the {kinds[close[0]]} {OURS}{close[0]}?"
