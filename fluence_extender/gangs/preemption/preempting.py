"""One gang for which others make way: who they are, how far it has come, and what its users are told.

Invariant: the reason changes only when a pod goes or is late, or a trouble comes or ends; it doesn't tick.
"""

from __future__ import annotations

from collections.abc import Collection, Container
from dataclasses import dataclass, field

from fluence_extender.gangs.preemption.preemption import Victim
from fluence_extender.gangs.preemption.prospect import Prospect
from fluence_extender.model.gang import GangKey
from fluence_extender.model.notation import first_few
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode

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

    ``victims`` are the gangs, ``uids`` their pods, ``pods`` those of them that are bound; ``granted`` says that the
    budgets allow it, ``asked`` that they are or were asked, for which the decision itself (``fresh``) leaves no time;
    ``kinds`` are the device types that it asks for, ``troubles`` what keeps single pods from being evicted; ``told``
    are the nominations under way, by uid. ``hope`` is where it is to go, None where that can't be judged node by node,
    ``awaited`` are the pods that hold something there, and ``spared`` victims that need not go after all. ``busy`` is
    why it had no place when it was last planned, which isn't done again before ``plan_at`` while somebody is awaited;
    ``planned`` says that it was in this step, ``to_be_checked`` that the next is to see whether who goes is enough.
    """

    order: tuple[object, ...]
    priority: int
    victims: tuple[Victim, ...] = ()
    uids: frozenset[str] = frozenset()
    pods: dict[str, Pod] = field(default_factory=dict)
    fresh: bool = True
    asked: bool = False
    granted: bool = False
    kinds: frozenset[str] = frozenset()
    troubles: dict[str, str] = field(default_factory=dict)
    told: dict[str, str] = field(default_factory=dict)
    hope: Prospect | None = None
    awaited: list[str] = field(default_factory=list)
    spared: set[str] = field(default_factory=set)
    busy: Reason | None = None
    plan_at: float = 0.0
    planned: bool = False
    to_be_checked: bool = False
    _there: list[str] | None = None

    def awaits(self, held: Container[str]) -> bool:
        """Whether somebody is still where the gang is to go; ``held`` are the uids of pods that hold something."""
        while self.awaited and (self.awaited[-1] not in held or self.awaited[-1] in self.spared):
            self.awaited.pop()
        return bool(self.awaited)

    def spare(self, gang: GangKey) -> None:
        """Let a gang that hasn't begun to go be no victim any more."""
        uids = {uid for one in self.victims if one.gang == gang for uid in one.uids}
        self.spared |= uids
        for uid in uids:
            self.pods.pop(uid, None)
            self.troubles.pop(uid, None)
        self.victims = tuple(one for one in self.victims if one.gang != gang)

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
            return Reason(ReasonCode.PREEMPTING, "preempting: waits for pods that are being deleted")
        there = self.pods if self._there is None else self._there
        self._there = [uid for uid in there if uid in held and uid in self.pods]
        gone = len(self.pods) - len(self._there)
        text = f"preempting {first_few(names, SHOWN)}: {gone} of {len(self.pods)} pods gone"
        waited_for = sorted(self.pods[uid].key for uid in late if uid in self.pods)
        if waited_for:
            text += f"; {waited_for[0]} has not gone within {patience:g} s"
        elif self.troubles:
            text += f"; {self.troubles[min(self.troubles)]}"
        return Reason(ReasonCode.PREEMPTING, text)
