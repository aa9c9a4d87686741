"""From a pod to its patch.

Invariant: a pod of another scheduler gets none; a patched pod gets none a second time; and whatever the API server
would refuse only because of the patch isn't patched, but told.
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
from fluence_extender.model.names import GATE, SCHEDULER_NAME
from fluence_extender.webhook.contract import Context, Json, Outcome, Request
from fluence_extender.webhook.draft import Draft
from fluence_extender.webhook.handlers import HANDLERS
from fluence_extender.webhook.mark import mark
from fluence_extender.webhook.subject import NUMBERED, UNDECIDED, Subject, Unfit, read
from fluence_extender.webhook.validity import faults, shape_faults

NOTHING = Outcome()
LONGEST_WHY = 120


def mutate(
    pod: Json, request: Request, handlers: Sequence[str], context: Context, said: Subject | None = None
) -> Outcome:
    """What ``handlers``, in this order, give the pod, which isn't changed itself.

    ``said`` is what `look` has found in the pod already, if it has been asked.
    """
    if not concerns(pod, request):
        return NOTHING
    try:
        subject = decided(said or look(pod), request, handlers)
    except Unfit as unfit:
        return Outcome(warnings=(_unpatched(str(unfit)),))
    draft = Draft(pod)
    for text in subject.warnings:
        draft.warn(text)
    _tell_namesakes(draft, subject, request, context)
    if context.gate_by_webhook:
        _gate(draft)
    for name in handlers:
        HANDLERS[name](draft, subject, request, context)
    if context.gate_by_webhook:
        mark(draft)
    if not draft.operations:
        return Outcome(warnings=tuple(draft.warnings))
    broken = [fault for fault in faults(draft.pod) if fault not in faults(pod)]
    if broken:
        return Outcome(warnings=(_unpatched("; ".join(broken)),))
    return Outcome(tuple(draft.operations), tuple(draft.warnings))


def ours(pod: Json) -> bool:
    """Whether the pod is for our scheduler."""
    spec = pod.get("spec")
    return isinstance(spec, dict) and spec.get("schedulerName") == SCHEDULER_NAME


def concerns(pod: Json, request: Request) -> bool:
    """Whether there is anything to think about: a new pod of ours."""
    return request.operation == "CREATE" and ours(pod)


def look(pod: Json) -> Subject:
    """What the pod says. Raises `Unfit`."""
    misshapen = shape_faults(pod)
    if misshapen:
        raise Unfit("; ".join(misshapen))
    return read(pod)


def decided(subject: Subject, request: Request, handlers: Sequence[str]) -> Subject:
    """What the pod says as far as ``handlers`` go by it, with its role settled."""
    if "quantum" not in handlers:
        return replace(subject, role="", group=subject.group if subject.named else "")
    if subject.role and is_its_job(subject) and request.owned is not None and request.owned.at_once == 1:
        # Nobody else is there to share anything with.
        return replace(subject, role="", group=subject.group if subject.named else "")
    if subject.role == NUMBERED:
        first = request.owned is not None and request.owned.first == subject.number
        return replace(subject, role=PRODUCER if first else CONSUMER)
    if subject.role == UNDECIDED and request.leads is not None:
        return replace(subject, role=PRODUCER if request.leads else CONSUMER)
    if subject.role == UNDECIDED:
        said = () if request.dry_run else (_unclaimed(subject.group, request.unclaimed),)
        return replace(subject, role=PRODUCER, warnings=(*subject.warnings, *said))
    return subject


def is_its_job(subject: Subject) -> bool:
    """Whether the shared group is a Job's pods and no others, and nobody else says how many those are."""
    return not subject.named and subject.size is None and subject.owner[0] == "Job"


def _gate(draft: Draft) -> None:
    """Our gate, where the pod can have one."""
    gates = {gate.get("name") for gate in draft.spec.get("schedulingGates") or ()}
    if GATE not in gates and not draft.spec.get("nodeName"):
        draft.insert("spec", "schedulingGates", values=[{"name": GATE}])


def _tell_namesakes(draft: Draft, subject: Subject, request: Request, context: Context) -> None:
    """Tell of two groups that go by one name, as their pods are one gang."""
    produces = subject.role == PRODUCER
    group = producer_group(subject.group) if produces else subject.group
    if (request.namespace, group) in (context.namesakes if produces else context.producers):
        other = (
            "pods of another group"
            if produces
            else f"the producer of shared group {group[: -len(PRODUCER_SUFFIX)]!r}"
        )
        draft.warn(
            f"group {group!r} is also that of {other}, and all of them count as one gang: give one of the groups "
            "another name"
        )


def _unpatched(why: str) -> str:
    return f"fluence left the pod as it is: {why}"


def _unclaimed(group: str, why: str) -> str:
    told = f" ({why[:LONGEST_WHY]})" if why else ""
    return (
        f"nobody could be asked who produces in shared group {group!r}{told}, so this pod does: to be sure of one, "
        f"annotate one pod with {ROLE_ANNOTATION}={PRODUCER} and the others with {CONSUMER}"
    )
