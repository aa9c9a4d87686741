"""Which members have to be replaced because of the nodes that they are pinned to.

A pinned member whose gang waits holds nothing, and is placed on its nodes again when the gang is: it is left alone. It
is replaced only where the gang would have its places at once if nobody were pinned. Invariant: who has room on its
nodes beside the others is replaced only if the rest of the gang needs that room.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fluence_extender.gangs.lifecycle.pins import unpinned
from fluence_extender.placement.demand import Demand, SettledMember
from fluence_extender.placement.topology_constraints import topology_constraints
from fluence_extender.placement.trial import Trial


def displaced(
    trial: Trial, demands: Sequence[Demand], gang: object, settled: Sequence[SettledMember]
) -> frozenset[str]:
    """The pods, by uid, whose pins keep ``demands`` from being placed; none where they aren't what does.

    Those are who finds no place any more when the pinned ones are put on their nodes one by one; unless the others,
    without pins, have none beside that: then all who would be elsewhere if nobody were pinned.
    """
    free = [replace(demand, pod=unpinned(demand.pod)) for demand in demands]
    anywhere = trial.place(free, gang, settled, frozenset())
    if anywhere is None:
        return frozenset()
    staying, others, homeless = list(settled), [], set()
    alone = [
        demand
        for demand in demands
        if demand.pod.pinned_to and not topology_constraints(demand.pod, demand.levels, demand.job_size)
    ]
    found = trial.put_where_confined(alone, gang)
    judged = {demand.pod.uid for demand in alone}
    for demand, unbound in zip(demands, free, strict=True):
        uid = demand.pod.uid
        if demand.pod.pinned_to and uid not in judged:
            near = trial.put([demand], gang, staying)
            found.update({uid: near[0].node} if near is not None else {})
        if uid in found:
            staying.append(SettledMember(demand, found[uid]))
            continue
        others.append(unbound)
        if demand.pod.pinned_to:
            homeless.add(demand.pod.uid)
    if not others or trial.place(others, gang, staying, frozenset()) is not None:
        return frozenset(homeless)
    nodes = {one.uid: one.node for one in anywhere}
    return frozenset(
        demand.pod.uid
        for demand in demands
        if demand.pod.pinned_to and nodes[demand.pod.uid] not in demand.pod.confined_to
    )
