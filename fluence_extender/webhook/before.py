"""What must be settled with the API server before a pod can be patched.

Two things can't wait for a controller. The sidecar's account must exist when its pod is created, or the API server
refuses the pod. And among pods that are all alike exactly one produces, however many replicas of ours admit them at
once, so that one is found by a claim that only one of them can make.

Invariant: nothing is made for a dry run, for pods of others, or twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from fluence_extender.webhook.contract import Context, Json, Request


class Accounts(Protocol):
    """Where the sidecar's ServiceAccount, Role and RoleBinding are made."""

    async def ensure(self, namespace: str) -> bool:
        """Whether they are there now; made where they aren't. Doesn't raise."""
        ...


class Claims(Protocol):
    """Who produces in a shared group whose pods are all alike."""

    async def claim(self, namespace: str, group: str, uid: str) -> bool | None:
        """Whether the request ``uid`` is the group's producer; None where that can't be found out. Doesn't raise."""
        ...


@dataclass(frozen=True, slots=True)
class Needs:
    """What a pod needs settled: the sidecar's account in its namespace, a producer claim for the shared ``group``."""

    account: bool = False
    group: str = ""


def needs(pod: Json, request: Request, handlers: Sequence[str], context: Context) -> Needs:
    """What has to be settled before this pod is patched."""
    raise NotImplementedError


async def settle(
    pod: Json, request: Request, handlers: Sequence[str], context: Context, accounts: Accounts, claims: Claims
) -> tuple[Request, Context]:
    """The request and context with what this pod needs settled; the same ones for most pods and all dry runs."""
    if request.dry_run:
        return request, context
    asked = needs(pod, request, handlers, context)
    if asked.group:
        request = replace(request, leads=await claims.claim(request.namespace, asked.group, request.uid))
        asked = needs(pod, request, handlers, context)
    if asked.account and await accounts.ensure(request.namespace):
        context = replace(context, accounts=context.accounts | {request.namespace})
    return request, context
