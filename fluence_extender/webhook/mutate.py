"""From a pod to its patch."""

from __future__ import annotations

from collections.abc import Sequence

from fluence_extender.webhook.contract import Context, Json, Outcome, Request


def mutate(pod: Json, request: Request, handlers: Sequence[str], context: Context) -> Outcome:
    """What ``handlers``, in this order, give the pod, which isn't changed itself."""
    raise NotImplementedError
