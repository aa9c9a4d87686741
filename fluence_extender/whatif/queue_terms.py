"""The terms on which the queue would let the gangs of a question start now, if they were created now.

They are read from the live queue on the event loop. The plan on these terms is made in another thread. Invariant: no
gang of a question is counted or has reservations in the queue.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fluence_extender.gangs.controller import Controller
from fluence_extender.gangs.membership.gang import priority_of
from fluence_extender.gangs.membership.workloads import WorkloadIndex
from fluence_extender.gangs.queue.admission import user_for
from fluence_extender.gangs.queue.beside import Beside
from fluence_extender.gangs.queue.ends import Ends
from fluence_extender.gangs.queue.settings import usual_seconds
from fluence_extender.gangs.queue.turns import newcomer
from fluence_extender.model.dependency import Target
from fluence_extender.model.gang import GangKey
from fluence_extender.model.queue import Queue
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.model.resources import Resources
from fluence_extender.queueing.entry import Entitlement
from fluence_extender.whatif.manifests import RequestedGang, SimulationRequest


def queue_terms(
    controller: Controller, request: SimulationRequest, now: float
) -> Iterator[tuple[GangKey, Beside | Reason]]:
    """Yield, for each gang, how it could start ``now`` or why it would not be tried; equal gangs share the terms."""
    book, together = controller.queue, _targets(request)
    known: dict[tuple[str, int, float, Entitlement], Beside | Reason] = {}
    for gang in request.gangs:
        queue = book.admission.queue_for(
            gang.key, gang.pods, gang.submission, now, together[gang.key.namespace]
        )
        if isinstance(queue, Reason):
            yield gang.key, queue
            continue
        refused = controller.lifecycle.namespace_quotas.newcomer(gang.key.namespace, gang.pods)
        if refused is not None:
            yield gang.key, refused
            continue
        asks = Resources.total(pod.amounts for pod in gang.pods)
        user = user_for(gang.key, gang.submission)
        entitlement = book.admission.shares.newcomer(queue.name, user, asks)
        priority = priority_of(gang.pods, book.settings.usual_priority(queue))
        key = queue.name, priority, _duration(gang, queue), entitlement
        turn = newcomer(gang.key, priority, entitlement=entitlement)
        if key not in known:
            known[key] = book.terms(queue, turn, key[2])
        terms = known[key]
        short = None if isinstance(terms, Reason) else book.pool_terms(queue, gang.pods, turn, key[2])
        if short is None or isinstance(terms, Reason):
            yield gang.key, terms
        else:
            yield gang.key, short if short.code is ReasonCode.UNSATISFIABLE else replace(terms, short=short)


def _targets(request: SimulationRequest) -> dict[str, set[Target]]:
    """Return the Jobs and gangs of a question by namespace."""
    targets: dict[str, set[Target]] = {}
    for gang in request.gangs:
        jobs = {pod.owner.name for pod in gang.pods if pod.owner is not None and pod.owner.kind == "Job"}
        targets.setdefault(gang.key.namespace, set()).update(
            {Target("gang", gang.key.name)}, (Target("job", name) for name in jobs)
        )
    return targets


def _duration(gang: RequestedGang, queue: Queue) -> float:
    """Return for how many seconds the gang would run, `NEVER` if nothing declares it."""
    # Its Job doesn't exist yet, so it has no end.
    return Ends(WorkloadIndex(), lambda _: usual_seconds(queue)).duration(gang.pods, 0.0)
