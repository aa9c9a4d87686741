"""A gang that makes way for another: what may be taken from it, and what still has to go."""

from __future__ import annotations

from dataclasses import dataclass, field

from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.preemption.preemption import Victim
from fluence_extender.model.gang import GangKey
from fluence_extender.placement.ranks import rank_key


@dataclass(slots=True)
class MakingWay:
    """``why`` is what its users are told, ``uids`` are the pods that go, ``sent`` those whose eviction is under way.

    ``surplus`` says that the gang goes on without these pods; else it goes whole, whoever it has been joined by.
    ``begun`` says that it has been asked to, ``refused`` since when the eviction of which pods fails.
    """

    why: str
    preemptor: GangKey
    surplus: bool
    uids: frozenset[str] = frozenset()
    sent: set[str] = field(default_factory=set)
    begun: bool = False
    refused: dict[str, float] = field(default_factory=dict)

    def members(self, gang: Gang) -> list[Member]:
        """The members that still have to go, in the order of their names; none that the gang can't do without."""
        holding = [one for one in gang.alive() if one.bound or one.binding or one.assignment is not None]
        staying = sum(1 for one in holding if one.bound and one.pod.uid not in self.uids)
        if self.surplus and staying + gang.ended < gang.size:
            return []
        found = (one for one in holding if not self.surplus or one.pod.uid in self.uids)
        return sorted(found, key=lambda one: one.pod.name)


def full_order(gang: Gang) -> tuple[int, float, GangKey]:
    """The order in which gangs are served: by priority, then age."""
    return (-gang.priority, gang.created, gang.key)


def still_offers(gang: Gang, victim: Victim) -> bool:
    """Whether ``victim`` is still one of `victims_of` the gang."""
    if victim.surplus:
        return victim in victims_of(gang)
    holding = [one for one in gang.members.values() if one.assignment is not None and one.alive]
    return (
        len(holding) == len(victim.uids)
        and gang.priority == victim.priority
        and all(one.pod.uid in victim.uids and not one.binding for one in holding)
    )


def victims_of(gang: Gang) -> list[Victim]:
    """What may be taken from ``gang``, if it holds anything.

    Its surplus members, the last ones first to go, each on its own; and the whole gang. Nothing while a Binding of
    it is under way, whose outcome nobody knows.
    """
    alive = [one for one in gang.members.values() if one.alive]
    holding = [one for one in alive if one.assignment is not None]
    if not holding or any(one.binding for one in holding):
        return []
    created = min(one.pod.created for one in alive)
    priority = max(one.pod.priority for one in alive)
    found = [Victim(gang.key, priority, created, frozenset([one.pod.uid for one in holding]))]
    if not gang.whole or len(holding) <= gang.size - gang.ended:
        return found
    bound = [one for one in holding if one.bound]
    spare = len(bound) + gang.ended - gang.size
    if spare > 0:
        bound.sort(key=lambda one: rank_key(one.pod))
        found.extend(
            Victim(gang.key, priority, created, frozenset({one.pod.uid}), surplus=True)
            for one in reversed(bound[-spare:])
        )
    return found
