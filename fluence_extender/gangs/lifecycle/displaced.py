"""Which members have to be replaced because of the nodes that they are pinned to.

A pinned member whose gang waits holds nothing, and is placed on its nodes again when the gang is: it is left alone. It
is replaced only where the gang would have its places at once if nobody were pinned. Invariant: who has room on its
nodes beside the others is replaced only if the rest of the gang needs that room.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fluence_extender.gangs.lifecycle.pins import unpinned
from fluence_extender.placement.bonds import bonds
from fluence_extender.placement.plan import Settled, Wish
from fluence_extender.placement.trial import Trial


def displaced(
    trial: Trial, wishes: Sequence[Wish], gang: object, settled: Sequence[Settled]
) -> frozenset[str]:
    """The pods, by uid, whose pins keep ``wishes`` from being placed; none where they aren't what does.

    Those are who finds no place any more when the pinned ones are put on their nodes one by one; unless the others,
    without pins, have none beside that: then all who would be elsewhere if nobody were pinned.
    """
    free = [replace(wish, pod=unpinned(wish.pod)) for wish in wishes]
    anywhere = trial.place(free, gang, settled, frozenset())
    if anywhere is None:
        return frozenset()
    staying, others, homeless = list(settled), [], set()
    alone = [
        wish for wish in wishes if wish.pod.pinned_to and not bonds(wish.pod, wish.levels, wish.job_size)
    ]
    found = trial.put_where_confined(alone, gang)
    judged = {wish.pod.uid for wish in alone}
    for wish, unbound in zip(wishes, free, strict=True):
        uid = wish.pod.uid
        if wish.pod.pinned_to and uid not in judged:
            near = trial.put([wish], gang, staying)
            found.update({uid: near[0].node} if near is not None else {})
        if uid in found:
            staying.append(Settled(wish, found[uid]))
            continue
        others.append(unbound)
        if wish.pod.pinned_to:
            homeless.add(wish.pod.uid)
    if not others or trial.place(others, gang, staying, frozenset()) is not None:
        return frozenset(homeless)
    nodes = {one.uid: one.node for one in anywhere}
    return frozenset(
        wish.pod.uid
        for wish in wishes
        if wish.pod.pinned_to and nodes[wish.pod.uid] not in wish.pod.confined_to
    )
