"""What must hold of the core whenever it has had a moment to look.

Each check reads the cluster and computes from scratch what the ledger should say.
"""

from __future__ import annotations

from collections import Counter

from fluence_extender.gangs.leadership.audit import Auditor
from fluence_extender.gangs.lifecycle.rules import size_of
from fluence_extender.gangs.membership.gang import foreign_gates
from fluence_extender.graph.catalogue import Device
from fluence_extender.graph.containment import without_levels
from fluence_extender.kinds.mpijob import MpiJob
from fluence_extender.kinds.ray import RayCluster
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.model.resources import NOTHING, Resources
from fluence_extender.placement.demand import Demand
from fluence_extender.room.holdings import Firmness, Holding
from tests.core.job_controller import index_of
from tests.core.planning import planner_for
from tests.core.queue_laws import (
    cores_left,
    kept_turns_are_those_of_the_gangs,
    nobody_is_stopped_by_nothing,
    those_who_wait_are_in_line,
)
from tests.core.state_api import documents
from tests.core.world import World


def check(world: World) -> None:
    """All that holds after every step."""
    holdings_are_those_of_living_pods(world)
    accounts_equal_the_cluster(world)
    no_device_is_held_twice(world)
    member_states_agree_with_ledger_and_cluster(world)
    no_gang_breaks_the_planning(world)
    kept_turns_are_those_of_the_gangs(world)
    those_who_wait_are_in_line(world)
    an_audit_finds_nothing(world)
    equal_revisions_are_equal_answers(world)
    texts_name_what_their_readers_may_see(world)
    assert not world.scheduler.premature, world.scheduler.premature
    assert not world.scheduler.overcommitted, world.scheduler.overcommitted


def equal_revisions_are_equal_answers(world: World) -> None:
    """An answer of the state API that has changed has another revision than before."""
    if world.placements.not_ready_reason:
        return
    found = documents(world)
    told_by, before = world.shown
    if told_by is not world.controller:
        before = {}
    for path, (revision, content) in found.items():
        if path in before and before[path][0] == revision:
            assert before[path][1] == content, f"{path} has changed and is still of revision {revision}"
    world.shown = (world.controller, found)


def an_audit_finds_nothing(world: World) -> None:
    """What the service itself compares while it runs agrees as well."""
    auditor = Auditor(world.controller, world.drifted.append)
    drift = [one for one in auditor.comparisons() if one is not None]
    assert not drift, drift


def texts_name_what_their_readers_may_see(world: World) -> None:
    """Texts for everyone name their own namespace alone. The other form says of which namespaces it names something."""
    pods, gangs = world.cluster.pods(), world.controller.registry.gangs
    namespaces = {pod.namespace for pod in pods} | {key.namespace for key in gangs}
    for key, gang in gangs.items():
        told = [(one.detail, one.with_names) for one in gang.history.entries]
        told += [(gang.reason.text, gang.reason.with_names)] if gang.reason is not None else []
        for text, with_names in told:
            assert _named(text, namespaces) <= {key.namespace}, text
            if with_names is not None:
                assert _named(with_names.text, namespaces) <= with_names.namespaces | {key.namespace}, (
                    with_names
                )
    for event in world.cluster.events:
        assert _named(event.message, namespaces) <= {event.regarding.namespace}, event
    for pod in pods:
        assert _named(world.cluster.waiting.get(pod.uid, ""), namespaces) <= {pod.namespace}, pod.key


def _named(text: str, namespaces: set[str]) -> set[str]:
    """Return those of the namespaces of which a text names an object as NAMESPACE/NAME."""
    return {word.partition("/")[0].lstrip("(") for word in text.split() if "/" in word} & namespaces


def no_gang_breaks_the_planning(world: World) -> None:
    """A gang that can't be planned because of a defect of ours says so; there must be none."""
    reasons = [gang.reason for gang in world.controller.registry.gangs.values() if gang.reason is not None]
    assert not [reason.text for reason in reasons if reason.code is ReasonCode.PLANNING_FAILED]


def holdings_are_those_of_living_pods(world: World) -> None:
    """A bound pod of ours holds its share on its node until it is gone; nothing else is held but plans."""
    allocations = world.ledger.holdings
    pods = {pod.uid: pod for pod in world.cluster.pods() if pod.ours and not pod.finished}
    for uid, pod in pods.items():
        if pod.node:
            assert uid in allocations, f"{pod.key} is bound to {pod.node} and holds nothing"
            assert allocations[uid].assignment.node == pod.node
            assert allocations[uid].firmness is Firmness.BOUND
    expected = expected_pods_of(world)
    for uid, held in allocations.items():
        if uid in expected:
            continue
        assert uid in pods, f"{held.namespace}/{held.name} is gone and holds {held.assignment}"
        if not pods[uid].node:
            found = world.controller.member(uid)
            assert found is not None
            assert found[1].assignment == held.assignment, f"{held.name} holds what isn't its place"


def expected_pods_of(world: World) -> set[str]:
    """The uids of the pods that the cluster's Jobs will have: each index without a pod has at most one.

    A Job of a suspended JobSet has none. Of a Job whose pods aren't pinned, any may take over any of the expected ones.
    """
    found = claims_of_operators(world)
    for job in world.cluster.jobs():
        if not job.ours or job.finished or (job.suspended and not job.held_for_placement):
            continue
        if job.queued or not job.all_at_once:
            claims = {
                f"{job.uid}/{number}" for number in range(job.parallelism)
            } & world.ledger.holdings.keys()
            # Pods that end hold their places until they are gone, and another hand may bind one beside its claim.
            planned = [
                pod
                for pod in world.jobs.pods(job)
                if pod.uid in world.ledger.holdings and not (pod.deleting or pod.node)
            ]
            assert len(claims) + len(planned) <= job.width, f"{job.name} plans more than its parallelism"
            found |= claims
            continue
        taken = {index_of(pod) for pod in world.jobs.pods(job) if pod.phase != "Failed"}
        done = {index for first, last in job.done for index in range(first, last + 1)}
        found |= {f"{job.uid}/{index}" for index in range(job.pods) if index not in taken | done}
    return found


def claims_of_operators(world: World) -> set[str]:
    """The uids of the pods that MPIJobs and RayClusters will have, and that have places."""
    workloads = world.controller.registry.workloads
    things: list[MpiJob | RayCluster] = []
    for kind in (MpiJob, RayCluster):
        things += [one for one in workloads.all(kind).values() if isinstance(one, MpiJob | RayCluster)]
    waiting = [one for one in things if one.ours and (one.held_for_placement or not one.suspended)]
    return {
        uid
        for uid in world.ledger.holdings
        for one in waiting
        if uid in (f"{one.uid}/{number}" for number in range(one.width))
    }


def member_states_agree_with_ledger_and_cluster(world: World) -> None:
    """A member has the place that the ledger holds for it, and a bound one holds it where it is bound."""
    for _, member in world.controller.registry.members():
        name, pod = member.pod.key, member.pod
        held = world.ledger.holdings.get(pod.uid)
        assert (held.assignment if held is not None else None) == member.assignment, f"{name} holds {held}"
        if pod.finished:
            assert held is None, f"{name} has ended and holds {held}"
        elif member.bound:
            assert held is not None, f"{name} is bound and holds nothing"
            assert held.firmness is Firmness.BOUND, f"{name} is bound and its place is {held.firmness}"
            assert member.bound == held.assignment.node, f"{name} is bound to {member.bound} and holds {held}"
            assert pod.node in ("", member.bound), f"{name} is bound to {member.bound}"
        else:
            assert not pod.node, f"{name} isn't bound, on {pod.node}"
            if member.binding:
                assert held is not None, f"{name} is being bound and holds nothing"
                assert held.firmness is not Firmness.PLANNED, f"{name} is being bound and only planned"


def accounts_equal_the_cluster(world: World) -> None:
    """Each account is the node's allocatable less others' exact requests less ours."""
    used: dict[str, Resources] = {}
    for pod in world.cluster.pods():
        if pod.node and not pod.ours and not pod.finished:
            used[pod.node] = used.get(pod.node, NOTHING) + pod.requests
    for held in world.ledger.holdings.values():
        node = held.assignment.node
        used[node] = used.get(node, NOTHING) + held.requests
    whole = {node.name: node.allocatable for node in world.cluster.nodes()}
    assert set(world.ledger.accounts) == set(whole) | set(used)
    for name, account in world.ledger.accounts.items():
        expected = whole.get(name, NOTHING) - used.get(name, NOTHING)
        assert account.free == expected, f"{name}: {account.free} is said to be free, {expected} is"


def no_device_is_held_twice(world: World) -> None:
    """No pool gives more than it has, no whole device is given twice, nor together with a part of it.

    And exactly the rest is free. A device that has become smaller while it was held may be held beyond its
    size, by pods that are bound or whose Binding is on its way; one that was taken out is nobody's concern.
    """
    taken: Counter[str] = Counter()
    kinds = {device.place: device.type for device in world.ledger.graph.catalogue.devices}
    holders = [held for held in world.ledger.holdings.values() if held.assignment.devices]
    given = [held for held in holders if _is_given(world, held)]
    for held in holders:
        for share in held.assignment.devices:
            if kinds.get(without_levels(share.path)) == share.type:
                taken[without_levels(share.path)] += share.amount
            else:
                assert held in given, f"{held.name} is planned on {share.path}, which is gone"
    use = world.ledger.room().devices
    for device in world.ledger.graph.catalogue.devices:
        above = sum(taken[place] for place in taken if device.place.startswith(f"{place}/"))
        below = sum(taken[place] for place in taken if place.startswith(f"{device.place}/"))
        here = taken[device.place]
        if here > device.count:
            sharers = [held for held in holders if _has_share(held, device)]
            by_given = sum(_share(held, device) for held in given)
            assert by_given > device.count or len(sharers) == 1 or all(held in given for held in sharers), (
                f"{here} of {device.count} held of {device.path}"
            )
            assert not use.free(device), f"{device.path} has some free"
            continue
        assert not (here and above), f"{device.path} is held and what it is a part of as well"
        rest = 0 if above or (below and not device.leaf) else device.count - here
        assert use.free(device) == rest, f"{device.path} has {use.free(device)} free, not {rest}"


def _share(held: Holding, device: Device) -> int:
    own = (share for share in held.assignment.devices if without_levels(share.path) == device.place)
    return sum(share.amount for share in own)


def _has_share(held: Holding, device: Device) -> bool:
    return _share(held, device) > 0


def _is_given(world: World, held: Holding) -> bool:
    """Whether the share can't be taken back: the pod is bound, or its Binding is on its way."""
    found = world.controller.registry.member(held.uid)
    return held.firmness is Firmness.BOUND or (found is not None and found[1].binding)


def check_at_rest(world: World) -> None:
    """What holds when nothing has happened for long: nobody waits who could go on."""
    check(world)
    gangs_are_whole_or_not_begun(world)
    every_place_is_taken(world)
    nobody_waits_who_fits(world)
    nobody_is_stopped_by_nothing(world)
    for pod in world.cluster.pods():
        if pod.ours and not pod.node and not pod.finished:
            assert not pod.nominated, f"{pod.key} is still nominated to {pod.nominated}"


def gangs_are_whole_or_not_begun(world: World) -> None:
    """No gang runs with a part of its members, unless it lost the others after it had been complete."""
    for gang in world.controller.registry.gangs.values():
        size = size_of(gang)
        if isinstance(size, Reason) or gang.was_complete:
            continue
        bound = sum(1 for member in gang.alive() if member.pod.node)
        assert bound == 0 or bound + gang.ended >= size, f"{gang.key}: {bound} of {size} bound"


def every_place_is_taken(world: World) -> None:
    """Whoever has a place has been bound to it."""
    for gang, member in world.controller.registry.members():
        if member.pending and not member.pod.expected:
            assert member.assignment is None, f"{member.pod.key} of {gang.key} has a place and isn't bound"


def nobody_waits_who_fits(world: World) -> None:
    """No whole gang waits that a fresh plan has a place for, pinned elsewhere or not.

    It may wait behind a reservation, or because its queue has no room for it.
    """
    planner = planner_for(world.ledger, world.controller.eligibility)
    for gang in world.controller.registry.gangs.values():
        if gang.reason is not None and gang.reason.code is ReasonCode.BEHIND_RESERVATION:
            continue
        size = size_of(gang)
        ready = [one for one in gang.placeless() if not foreign_gates(one.pod) and not one.pod.problem]
        if isinstance(size, Reason) or not ready or any(one.pod.problem for one in gang.placeless()):
            continue
        if sum(one.pod.amounts["cpu"] for one in ready) > cores_left(world):
            continue
        settled = sum(1 for member in gang.alive() if member.bound)
        if len(ready) + settled + gang.ended < size:
            continue
        room = world.ledger.room().open_to(gang.key)
        fits = planner.find(room, [Demand(member.pod) for member in ready])
        assert fits is None, f"{gang.key} waits ({gang.reason}) although it fits"
