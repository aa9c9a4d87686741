"""Packing slots: how many whole slots the members found below a vertex make, and which members go into which.

Members are taken whole and in sorted order, each into one slot only; what a slot gets above its count is not handed on
(fluxion reference 4.4).
"""

from __future__ import annotations

from collections.abc import Iterator

from fluence_extender.matcher.embedded.jobspec import SLOT
from fluence_extender.matcher.embedded.request import Level
from fluence_extender.matcher.embedded.scores import Group, Member, Scores

_MET = 1


def pack_slots(shape: Level, members: Scores, scores: Scores) -> None:
    """Add a group to ``scores`` for every slot of that shape that the sorted ``members`` make."""
    per_slot = [
        (iter(members.of(wanted.type).groups), wanted.count.within(members.qualified(wanted.type)))
        for wanted in shape.resources
    ]
    slots = min(
        (
            _count(members.of(wanted.type).groups, count)
            for wanted, (_, count) in zip(shape.resources, per_slot, strict=True)
        ),
        default=0,
    )
    found = scores.of(SLOT) if slots else None
    for _ in range(slots):
        score = _MET
        taken: list[Member] = []
        for groups, count in per_slot:
            score += _fill(groups, count, taken)
        if found is not None:
            found.add(Group(score, 1, taken))


def _count(groups: list[Group], per_slot: int) -> int:
    """How many slots of ``per_slot`` units the groups fill."""
    if per_slot == 0:
        return 0
    slots = units = 0
    for group in groups:
        units += group.members[0][1]
        if units >= per_slot:
            slots += 1
            units = 0
    return slots


def _fill(groups: Iterator[Group], per_slot: int, taken: list[Member]) -> int:
    """Take groups until they hold ``per_slot`` units; returns the sum of their scores."""
    score = units = 0
    while units < per_slot:
        group = next(groups)
        edge, count, _ = group.members[0]
        taken.append((edge, count, True))
        score += group.score
        units += count
    return score
