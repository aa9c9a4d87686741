"""What must be asked of the API server before a pod can be patched.

The sidecar's account must exist when its pod is created, or the API server refuses the pod. Among pods that are all
alike exactly one produces, however many replicas of ours admit them at once. And how many pods there are is said by
their owner alone: how large the gang of a ReplicaSet or StatefulSet is, whether a Job has more than one pod, and which
pod of a StatefulSet is its first. And containers of ours must ask for what the LimitRanges of the namespace allow.

Invariant: nothing is made for a dry run or for pods of others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from fluence_extender.model.coordination import CONSUMER, PRODUCER
from fluence_extender.webhook.contract import Bounds, Context, Json, Owned, Request, Unclaimed
from fluence_extender.webhook.handlers.gang import SIZING_OWNERS
from fluence_extender.webhook.handlers.sidecar import USUAL_ACCOUNTS
from fluence_extender.webhook.mutate import concerns, decided, is_its_job, look
from fluence_extender.webhook.subject import NUMBERED, UNDECIDED, Subject, Unfit


class Accounts(Protocol):
    """Where the sidecar's ServiceAccount, Role and RoleBinding are made."""

    async def ensure(self, namespace: str) -> bool:
        """Whether they are there now; made where they aren't. Doesn't raise."""
        ...


class LimitRanges(Protocol):
    """Where it is said what containers may ask for."""

    async def bounds(self, namespace: str) -> Bounds:
        """What containers in ``namespace`` are bound to; nothing where that can't be found out. Doesn't raise."""
        ...


class Claims(Protocol):
    """What is asked about a pod's group."""

    async def claim(self, namespace: str, group: str, uid: str) -> bool:
        """Whether the request ``uid`` is the producer of ``group``. Raises `Unclaimed`."""
        ...

    async def owned(self, namespace: str, kind: str, name: str) -> Owned | None:
        """What a Job, ReplicaSet or StatefulSet wants; None where that can't be found out. Doesn't raise."""
        ...


@dataclass(frozen=True, slots=True)
class Needs:
    """What a pod needs.

    The sidecar's account, what the namespace's LimitRanges say, a claim in the shared ``group``, what its owner (kind,
    name) wants.
    """

    account: bool = False
    bounds: bool = False
    group: str = ""
    owner: tuple[str, str] = ("", "")


def needs(pod: Json, said: Subject, request: Request, handlers: Sequence[str], context: Context) -> Needs:
    """What has to be asked before this pod, which says what `look` has found in it, is patched."""
    subject = decided(said, request, handlers)
    undecided = said.role == UNDECIDED and subject.role and request.leads is None
    consumes = bool(subject.role) and said.role in (UNDECIDED, NUMBERED, CONSUMER)
    gangs = "gang" in handlers and subject.size is None and (consumes if subject.role else subject.named)
    sized = (gangs and subject.owner[0] in SIZING_OWNERS) or (subject.role and is_its_job(subject))
    numbered = bool(subject.role) and said.role == NUMBERED
    asks_owner = (sized or numbered) and request.owned is None
    return Needs(
        account=_needs_account(pod, subject, handlers) and request.namespace not in context.accounts,
        bounds=subject.quantum and "quantum" in handlers and request.bounds is None,
        group=subject.group if undecided else "",
        owner=subject.owner if asks_owner else ("", ""),
    )


def _needs_account(pod: Json, subject: Subject, handlers: Sequence[str]) -> bool:
    watched = subject.quantum and (subject.role == PRODUCER or subject.observed)
    return watched and "quantum" in handlers and pod["spec"].get("serviceAccountName") in USUAL_ACCOUNTS


async def settle(
    pod: Json,
    request: Request,
    handlers: Sequence[str],
    context: Context,
    accounts: Accounts,
    claims: Claims,
    limits: LimitRanges,
    said: Subject | None = None,
) -> tuple[Request, Context]:
    """The request and context with what this pod needs; the same ones for most pods.

    ``said`` is what `look` has found in the pod already, if it has been asked.
    """
    if not concerns(pod, request):
        return request, context
    try:
        said = said or look(pod)
    except Unfit:
        return request, context
    wanted = needs(pod, said, request, handlers, context)
    if wanted.owner[0]:
        request = replace(request, owned=await claims.owned(request.namespace, *wanted.owner))
        wanted = needs(pod, said, request, handlers, context)
    if wanted.group and not request.dry_run:
        try:
            leads = await claims.claim(request.namespace, wanted.group, request.uid)
            request = replace(request, leads=leads)
        except Unclaimed as error:
            request = replace(request, unclaimed=str(error))
        wanted = needs(pod, said, request, handlers, context)
    if wanted.bounds:
        request = replace(request, bounds=await limits.bounds(request.namespace))
    if wanted.account and not request.dry_run and await accounts.ensure(request.namespace):
        context = replace(context, accounts=context.accounts | {request.namespace})
    return request, context
