"""Taking over what runs in the cluster, after a start or from the previous leader.

Bound pods are facts and come first; among them those whose recorded devices exist. Then pods that were steered get
their node again if it still suits them. All other pods are planned anew.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from fluence_extender.gangs.lifecycle.limits import NEVER
from fluence_extender.gangs.membership.assembly import foreign_gates
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.membership.job_pods import completion_index
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.gangs.queue.admission import QueueAdmission
from fluence_extender.model.gang import GangKey, GangState, HistoryKind
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.placement.eligibility import refusal
from fluence_extender.room.devices import all_recorded_exist
from fluence_extender.room.holdings import Firmness
from fluence_extender.room.ledger import Ledger


def take_over_bound(registry: Registry, ledger: Ledger) -> list[Member]:
    """Have the ledger hold what the bound pods use, all at once, those that are sure first. Return their members."""
    gangs = {member.pod.uid: gang for gang, member in registry.members()}
    living = [member for _, member in registry.members() if not member.pod.finished]
    bound = in_order_of_certainty(living, lambda pod: all_recorded_exist(ledger.graph.catalogue, pod))
    held = ledger.adopt_all(((one.pod, gangs[one.pod.uid].key) for one in bound), Firmness.BOUND)
    for member, assignment in zip(bound, held, strict=True):
        pod = member.pod
        gang, detail = gangs[pod.uid], f"bound to {pod.node} before this service started"
        gang.note(HistoryKind.TAKEN_OVER, pod.name, detail)
        gang.bind(pod.uid, assignment)
    return [gangs[member.pod.uid].members[member.pod.uid] for member in bound]


def resume_steered(
    registry: Registry, ledger: Ledger, node: Callable[[str], Node | None], admission: QueueAdmission
) -> None:
    """Have the ledger hold the nodes to which members of committed gangs were steered, the oldest members first.

    A gang is committed once one of its members was placed with it and is bound, or was steered. In such a gang, a
    nomination counts even if the member still has our gate. A gang without any bound member needs room in its queue:
    its place may have been dropped since, and given to another gang. An index of a Job has one place, because the plan
    on the Job's template counts for each pod that says it has that index.
    """
    pending: list[tuple[Gang, Member]] = []
    taken: set[tuple[str, int]] = set()
    admission.take_up()
    for gang in registry.gangs.values():
        alive = gang.alive()
        gang.whole = gang.whole or _has_begun(gang)
        admission.note(gang)
        if gang.begun or any(member.steered_to for member in alive):
            pending += ((gang, member) for member in gang.pending())
        taken.update(filter(None, (completion_index(member.pod) for member in alive if member.bound)))
    pending.sort(key=lambda one: (one[1].pod.created, one[1].pod.uid))
    resume_all(pending, ledger, node, admission, taken)


def _has_begun(gang: Gang) -> bool:
    """Return whether no member waits, or only members that were created after others had started.

    Members that begin together are created before any of them is bound. So these have had their nodes, and a member
    that waits now came later or replaces a lost one.
    """
    started = (member.pod.started for member in gang.alive() if member.bound and member.pod.started)
    earliest = min(started, default=NEVER)
    return all(member.pod.created > earliest for member in gang.pending())


def in_order_of_certainty(members: Iterable[Member], recorded: Callable[[Pod], bool]) -> list[Member]:
    """Return the bound members: first those whose recorded devices exist, then by age."""
    bound = [member for member in members if member.pod.node]
    return sorted(bound, key=lambda one: (not recorded(one.pod), one.pod.created, one.pod.uid))


def take_up_devices(registry: Registry, ledger: Ledger) -> None:
    """Let bound pods hold devices that were unknown when the pods were taken over and are there now.

    If the service starts while a device isn't configured, or while its node is gone, the device must not go to another
    pod once it is back. Until then the pod may hold another device of that type, because an annotation isn't proof.
    """
    members = {uid: found for uid in ledger.lacking_devices if (found := registry.member(uid)) is not None}
    holders = [member for _, member in members.values() if not member.pod.finished]
    for member in in_order_of_certainty(holders, lambda pod: all_recorded_exist(ledger.graph.catalogue, pod)):
        gang, _ = members[member.pod.uid]
        assignment = ledger.adopt(member.pod, gang.key, Firmness.BOUND)
        gang.bind(member.pod.uid, assignment)


def resume_all(
    members: Iterable[tuple[Gang, Member]],
    ledger: Ledger,
    node: Callable[[str], Node | None],
    admission: QueueAdmission,
    taken: Collection[tuple[str, int]] = (),
) -> None:
    """Have the ledger hold the nodes to which members without a place were steered, where their gangs may run.

    Gangs that have begun are completed. Other gangs need room in their queues: a Job's plan stays on its template while
    a user suspends the Job, and such a plan may be old. ``taken`` are the indexes of Jobs that have pods with places.
    """
    used, may_run = set(taken), dict[GangKey, bool]()
    for gang, member in members:
        index = completion_index(member.pod)
        if gang.key not in may_run:
            may_run[gang.key] = gang.begun or admission.has_room_to_run(gang)
        if member.assignment is not None or index in used or not may_run[gang.key]:
            continue
        if resume(ledger, node, gang, member):
            if index is not None:
                used.add(index)
            if not admission.runs(gang.key):
                admission.note(gang)


def resume(ledger: Ledger, find: Callable[[str], Node | None], gang: Gang, member: Member) -> bool:
    """Have the ledger hold the node to which the member was steered, and return whether that is still possible."""
    pod = member.pod
    if foreign_gates(pod) or pod.problem or not pod.nominated:
        return False
    node = find(pod.nominated)
    if node is None or refusal(pod, node) is not None or node.name in ledger.room().open_to(gang.key).closed:
        return False
    if ledger.kept_apart.keeper(pod, node.name):
        return False
    assignment = ledger.resume(pod, gang.key)
    if assignment is None:
        return False
    if member.withheld:
        gang.place(pod.uid, assignment)
    else:
        gang.resume(pod.uid, assignment)
    gang.state = GangState.COMMITTED
    return True
