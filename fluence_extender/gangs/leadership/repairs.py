"""Setting right what an audit has found, from what the cluster shows.

Invariant: a repair never moves a pod that is bound, and takes a planned place away only where the ledger can't stand
behind it; then the gang is planned anew.
"""

from __future__ import annotations

from fluence_extender.gangs.controller import Controller
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.ledger.allocation import Strength
from fluence_extender.ledger.audit import Drift, DriftKind


def repair(controller: Controller, drift: Drift) -> str:
    """Mend one drift; what was done, in a few words for the log."""
    ledger = controller.ledger
    match drift.kind:
        case DriftKind.FOREIGN_DIFFERS:
            return _count_foreign(controller, drift.uid)
        case DriftKind.NODE_DIFFERS:
            return _take_node(controller, drift.node)
        case DriftKind.ACCOUNT_DIFFERS | DriftKind.JOB_MISSING:
            ledger.recount(drift.node)
            return "the node was counted and booked anew"
        case DriftKind.JOB_ORPHANED:
            ledger.mirror.cancel((drift.job,))
            return "the job was cancelled"
    found = controller.member(drift.uid)
    if found is None:
        ledger.release(drift.uid)
        return "the hold was released"
    return _mend_member(controller, *found, drift)


def _mend_member(controller: Controller, gang: Gang, member: Member, drift: Drift) -> str:
    ledger, pod = controller.ledger, member.pod
    controller.registry.dirty.add(gang.key)
    if drift.kind is DriftKind.NOMINATION_UNPLANNED:
        member.clearing = False
        return "the nomination is taken back"
    if pod.finished or not pod.node:
        ledger.release(pod.uid)
        member.assignment = None
        return "the hold was released"
    member.bound = pod.node
    if drift.kind is DriftKind.WRONG_AMOUNT:
        ledger.amend(pod)
        return "counted anew"
    if drift.kind is DriftKind.WRONG_STRENGTH:
        ledger.strengthen(pod.uid, Strength.BOUND)
        return "the claim was raised"
    held = ledger.allocations.get(pod.uid)
    if drift.kind is DriftKind.PLAN_DIFFERS and held is not None:
        member.assignment = held.assignment
        return "the plan follows the hold"
    member.assignment = ledger.adopt(pod, gang.key, Strength.BOUND)
    return "taken into the ledger anew"


def _count_foreign(controller: Controller, uid: str) -> str:
    controller.ledger.drop_foreign(uid)
    pod = controller.pods.get(uid)
    if pod is None or pod.ours or not pod.node or pod.finished:
        return "not counted any more"
    controller.ledger.put_foreign(pod)
    return "counted anew"


def _take_node(controller: Controller, name: str) -> str:
    controller.ledger.drop_node(name)
    node = controller.eligibility.nodes.get(name)
    if node is None:
        return "the node was taken out"
    controller.ledger.put_node(node)
    return "the node was taken in anew"
