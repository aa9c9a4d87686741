"""Turn a pod into its patch, by the handlers.

Invariants: a pod of another scheduler gets no patch; a pod that has been patched gets none a second time; a pod that
the API server would refuse because of the patch is left as it is, and its user is warned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fluence_extender.model.coordination import (
    CONSUMER,
    PRODUCER,
    PRODUCER_SUFFIX,
    ROLE_ANNOTATION,
    producer_group,
)
from fluence_extender.model.names import LEFT_AS_IT_IS, SCHEDULER_NAMES
from fluence_extender.webhook.contract import AdmissionRequest, Context, Json, Outcome
from fluence_extender.webhook.declaration import NUMBERED, UNDECIDED, PodDeclaration, Unfit, read_declaration
from fluence_extender.webhook.draft import Draft
from fluence_extender.webhook.handlers import HANDLERS
from fluence_extender.webhook.validity import conflicts

UNCHANGED = Outcome()
LONGEST_WHY = 120


def mutate(
    pod: Json,
    request: AdmissionRequest,
    handlers: Sequence[str],
    context: Context,
    declared: PodDeclaration | None = None,
) -> Outcome:
    """Return the changes that ``handlers`` make to the pod in this order. The pod itself isn't changed.

    ``declared`` is the pod's declaration, if the caller has already read it.
    """
    if not concerns(pod, request):
        return UNCHANGED
    try:
        settled = settle_role(declared or read_declaration(pod), request, handlers)
    except Unfit as unfit:
        return Outcome(warnings=(_not_patched(str(unfit)),))
    draft = Draft(pod)
    for text in settled.warnings:
        draft.warn(text)
    _warn_of_name_clash(draft, settled, request, context)
    for name in handlers:
        HANDLERS[name](draft, settled, request, context)
    if not draft.operations:
        return Outcome(warnings=draft.warnings)
    if found := conflicts(draft.object):
        return Outcome(warnings=(_not_patched("; ".join(found)),))
    return Outcome(tuple(draft.operations), draft.warnings, draft.object)


def is_ours(pod: Json) -> bool:
    """Return whether the pod is for our scheduler."""
    spec = pod.get("spec")
    return isinstance(spec, dict) and spec.get("schedulerName") in SCHEDULER_NAMES


def concerns(pod: Json, request: AdmissionRequest) -> bool:
    """Return whether the request may lead to a patch: it creates a pod of ours."""
    return request.operation == "CREATE" and is_ours(pod)


def settle_role(
    declared: PodDeclaration, request: AdmissionRequest, handlers: Sequence[str]
) -> PodDeclaration:
    """Return the part of the declaration that ``handlers`` use, with its role settled."""
    if "quantum" not in handlers:
        return _without_role(declared)
    if (
        declared.role
        and is_shared_by_its_job(declared)
        and request.owned is not None
        and request.owned.at_once == 1
    ):
        # A shared group of one pod needs no roles.
        return _without_role(declared)
    if declared.role == NUMBERED:
        first = request.owned is not None and request.owned.first == declared.number
        return replace(declared, role=PRODUCER if first else CONSUMER)
    if declared.role == UNDECIDED and request.produces is not None:
        return replace(declared, role=PRODUCER if request.produces else CONSUMER)
    if declared.role == UNDECIDED:
        warnings = () if request.dry_run else (_producer_unknown(declared.group, request.producer_unknown),)
        return replace(declared, role=PRODUCER, warnings=(*declared.warnings, *warnings))
    return declared


def is_shared_by_its_job(declared: PodDeclaration) -> bool:
    """Return whether the shared group is all pods of one Job, and only the Job says how many there are."""
    return not declared.named and declared.size is None and declared.owner[0] == "Job"


def _without_role(declared: PodDeclaration) -> PodDeclaration:
    return replace(declared, role="", group=declared.group if declared.named else "")


def _warn_of_name_clash(
    draft: Draft, declared: PodDeclaration, request: AdmissionRequest, context: Context
) -> None:
    """Warn if another group has the name of this producer's group, or the reverse: their pods are one gang."""
    produces = declared.role == PRODUCER
    group = producer_group(declared.group) if produces else declared.group
    groups = context.producer_like_groups if produces else context.producer_groups
    if (request.namespace, group) in groups:
        other = (
            "pods of another group"
            if produces
            else f"the producer of shared group {group[: -len(PRODUCER_SUFFIX)]!r}"
        )
        draft.warn(
            f"group {group!r} is also the group of {other}, so all their pods count as one gang: give one of the two "
            "groups another name"
        )


def _not_patched(why: str) -> str:
    return f"{LEFT_AS_IT_IS}{why}"


def _producer_unknown(group: str, why: str) -> str:
    reason = f" ({why[:LONGEST_WHY]})" if why else ""
    return (
        f"the producer of shared group {group!r} couldn't be looked up{reason}, so this pod is made one: to have "
        f"exactly one, annotate one pod with {ROLE_ANNOTATION}={PRODUCER} and the others with {CONSUMER}"
    )
