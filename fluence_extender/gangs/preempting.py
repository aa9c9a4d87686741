"""One gang for which others make way: who they are, how far it has come, and what its users are told.

Invariant: the reason changes only when a pod goes or is late, or a trouble comes or ends; it doesn't tick.
"""

from __future__ import annotations

from collections.abc import Collection, Container
from dataclasses import dataclass, field

from fluence_extender.gangs.preemption import Victim
from fluence_extender.model.gang import GangKey
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, Why

SHOWN = 4
"""So many of the gangs that make way are named."""


@dataclass(frozen=True, slots=True)
class Pressing:
    """A gang for which others make way: its priority, and the kinds of devices that it asks for."""

    priority: int
    kinds: frozenset[str] = frozenset()


@dataclass(slots=True)
class Preempting:
    """A gang for which others make way.

    ``victims`` are the gangs, ``pods`` those of their pods that are bound; ``granted`` says that the budgets allow it;
    ``kinds`` are the device types that it asks for, ``troubles`` what keeps single pods from being evicted;
    ``told`` are the nominations under way, by uid.
    """

    order: tuple[object, ...]
    priority: int
    victims: tuple[Victim, ...] = ()
    pods: dict[str, Pod] = field(default_factory=dict)
    asked: bool = False
    granted: bool = False
    kinds: frozenset[str] = frozenset()
    troubles: dict[str, str] = field(default_factory=dict)
    told: dict[str, str] = field(default_factory=dict)

    def bound_victims(self) -> dict[GangKey, tuple[Pod, ...]]:
        """The pods to evict, by their gang."""
        found: dict[GangKey, tuple[Pod, ...]] = {}
        for victim in self.victims:
            pods = tuple(self.pods[uid] for uid in sorted(victim.uids) if uid in self.pods)
            if pods:
                found[victim.gang] = found.get(victim.gang, ()) + pods
        return found

    def reason(self, held: Container[str], late: Collection[str], patience: float) -> Reason:
        """Why the gang waits.

        ``held`` are the uids of pods that hold something, ``late`` those that are being deleted for longer than
        ``patience`` seconds.
        """
        names = sorted({str(one.gang) for one in self.victims})
        if not names:
            return Reason(Why.PREEMPTING, "preempting: waits for pods that are being deleted")
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        gone = sum(1 for uid in self.pods if uid not in held)
        text = f"preempting {', '.join(names[:SHOWN])}{more}: {gone} of {len(self.pods)} pods gone"
        waited_for = sorted(self.pods[uid].key for uid in late if uid in self.pods)
        if waited_for:
            text += f"; {waited_for[0]} has not gone within {patience:g} s"
        elif self.troubles:
            text += f"; {self.troubles[min(self.troubles)]}"
        return Reason(Why.PREEMPTING, text)
