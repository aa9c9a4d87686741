"""What preemption would do for a gang that has no place now, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from fluence_extender.cluster.budgets import Budget, eviction_block
from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.gangs.preemption.preempting import OTHERS_BUDGETS
from fluence_extender.gangs.preemption.search import Victim
from fluence_extender.model.assignment import Assignment
from fluence_extender.model.gang import GangKey
from fluence_extender.model.notation import first_few
from fluence_extender.model.pod import Pod
from fluence_extender.model.wording import WithNames

NAMED_GANGS = 8
"""The most victims that a sentence names."""


class PreemptionOutcome(StrEnum):
    """What preemption would do for a gang that has no place now."""

    PREEMPTS = "Preempts"
    WAITS = "WaitsForThoseGoing"
    IN_VAIN = "InVain"
    NEVER = "Never"
    SIZE_FITS = "SizeFits"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class VictimSummary:
    """The loss of one gang: ``pods`` of its ``members``. ``surplus`` means that it keeps running without them."""

    gang: GangKey
    priority: int
    pods: int
    members: int
    surplus: bool


@dataclass(frozen=True, slots=True)
class PreemptionPreview:
    """What preemption would do, also as a sentence.

    ``text`` names no object of another namespace; ``with_names`` is the sentence with those names, None if there are
    none. ``placed`` has the gang's places after that, by pod name.
    """

    outcome: PreemptionOutcome
    text: str
    victims: tuple[VictimSummary, ...] = ()
    placed: tuple[tuple[str, Assignment], ...] = ()
    with_names: WithNames | None = None


def forbidden_by(
    budgets: Sequence[Budget], evicted: Mapping[GangKey, Sequence[Pod]]
) -> tuple[GangKey, str] | None:
    """Return a gang that budgets forbid to evict together with the others, and why; None if they allow it."""
    refused = eviction_block(budgets, [pod for pods in evicted.values() for pod in pods])
    return None if refused is None else (refused.last_concerned(evicted), refused.reason)


def would_preempt(
    victims: Sequence[Victim],
    gangs: Mapping[GangKey, Gang],
    placed: tuple[tuple[str, Assignment], ...],
    namespace: str,
) -> PreemptionPreview:
    """Return that ``victims`` among ``gangs`` are evicted for a gang of ``namespace``, which is then ``placed``."""
    losses: dict[GangKey, VictimSummary] = {}
    for victim in victims:
        before = losses.get(victim.gang)
        pods = len(victim.uids) + (before.pods if before is not None else 0)
        members = len(gangs[victim.gang].alive())
        losses[victim.gang] = VictimSummary(victim.gang, victim.priority, pods, members, victim.surplus)
    summaries = tuple(losses[key] for key in sorted(losses))
    text, names = _would_preempt(summaries, namespace)
    return PreemptionPreview(PreemptionOutcome.PREEMPTS, text, summaries, placed, names)


def _would_preempt(victims: Sequence[VictimSummary], namespace: str) -> tuple[str, WithNames | None]:
    """Return a sentence such as ``would preempt 2 gangs (12 pods): default/low-1 (8), default/low-2 (4)``.

    The first form is for users of ``namespace``. It counts the gangs of others, which the second form names.
    """
    begin = (
        f"would preempt {_count(len(victims), 'gang')} ({_count(sum(one.pods for one in victims), 'pod')})"
    )
    named = first_few(list(map(_loss, victims)), NAMED_GANGS)
    own = [one for one in victims if one.gang.namespace == namespace]
    if len(own) == len(victims):
        return f"{begin}: {named}", None
    others = len(victims) - len(own)
    counted = f"{others} of {'another namespace' if others == 1 else 'other namespaces'}"
    listed = f"{first_few(list(map(_loss, own)), NAMED_GANGS)}, and {counted}" if own else counted
    namespaces = frozenset(one.gang.namespace for one in victims[:NAMED_GANGS])
    return f"{begin}: {listed}", WithNames(f"{begin}: {named}", namespaces)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _loss(victim: VictimSummary) -> str:
    pods = f"{victim.pods} of {victim.members}" if victim.surplus else str(victim.pods)
    return f"{victim.gang} ({pods})"


def in_vain(priority: int, forbidden: Sequence[WithNames], namespace: str) -> PreemptionPreview:
    """Return that no eviction helps a gang of ``namespace``, and which disruption budgets are in the way."""
    text = f"would preempt no gang: evicting gangs of lower priority (below {priority}) would not make enough room"
    if not forbidden:
        return PreemptionPreview(PreemptionOutcome.IN_VAIN, text)
    own = {one.text for one in forbidden if namespace in one.namespaces}
    all_of_them = {one.text for one in forbidden}
    names = WithNames(
        "; ".join([text, *sorted(all_of_them)]), frozenset().union(*(one.namespaces for one in forbidden))
    )
    others = [OTHERS_BUDGETS] if own != all_of_them else []
    shown = "; ".join([text, *sorted(own), *others])
    return PreemptionPreview(PreemptionOutcome.IN_VAIN, shown, with_names=names)
