"""The reasons for which gangs find no place on given ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.placement.demand import Group, NoPlace
from fluence_extender.placement.device_reasons import devices_in_use, refusals_among, tied_to, too_few
from fluence_extender.placement.eligibility import EligibilityIndex
from fluence_extender.placement.explain import Asked, never_a_place, no_place_now
from fluence_extender.placement.ledger_port import LedgerPort
from fluence_extender.placement.shortage import part_that_fits

MOST_REMEMBERED = 128
"""How many kinds of gangs are remembered as such that could be placed if nothing ran, or not."""


class Reasons:
    """Explains on ``ledger``."""

    def __init__(self, ledger: LedgerPort, eligibility: EligibilityIndex) -> None:
        self._ledger = ledger
        self._eligibility = eligibility
        self._nevers: dict[object, Reason | None] = {}
        self._nevers_at = -1

    def possible(self, groups: Sequence[Group]) -> list[tuple[str, ...]]:
        """For each shape the nodes that it could ever use, cordoned and not ready ones included."""
        return [self._ledger.in_order(self._eligibility.possible(pods[0])) for _, pods in groups]

    def why(self, no: NoPlace) -> Reason:
        """Why the shapes have no place."""
        asked = self._asked(no.groups)
        never = self._never(asked)
        if never is not None:
            return never
        found = no_place_now(asked, self._ledger.free.now())
        if no.devices is not None and all(one.shape.nodes or not one.tie for one in asked):
            pods = [pod for _, pods in no.groups for pod in pods]
            fitting = part_that_fits([one.shape for one in asked], self._ledger.free.now()).members
            in_use = devices_in_use(self._ledger)
            return too_few(pods, fitting, self._ledger.graph.catalogue, in_use) or no.devices
        if no.fallback is not None:
            return Reason(ReasonCode.BUSY, f"busy: {no.fallback}")
        return found

    def _never(self, asked: Sequence[Asked]) -> Reason | None:
        """`never_a_place`, remembered until a node has something else: many that wait are alike."""
        whole = self._ledger.whole.now()
        if self._ledger.whole.revision != self._nevers_at or len(self._nevers) >= MOST_REMEMBERED:
            self._nevers.clear()
            self._nevers_at = self._ledger.whole.revision
        key = tuple(
            (replace(one.shape, nodes=()), one.possible, one.tie, tuple(one.refusals.items()))
            for one in asked
        )
        if key not in self._nevers:
            self._nevers[key] = never_a_place(asked, whole)
        return self._nevers[key]

    def _asked(self, groups: Sequence[Group]) -> list[Asked]:
        """The shapes with what is known of their nodes, those apart that their devices tie to some nodes."""
        catalogue, known = self._ledger.graph.catalogue, self._eligibility.nodes
        found = []
        for (shape, pods), possible in zip(groups, self.possible(groups), strict=True):
            by_tie: dict[tuple[frozenset[str] | None, str], list[Pod]] = {}
            for pod in pods:
                tied = tied_to(catalogue, pod) if pod.devices else None
                kinds = " and ".join(sorted(pod.devices)) if tied is not None else ""
                by_tie.setdefault((tied, kinds), []).append(pod)
            for (tied, kinds), some in by_tie.items():
                if tied is None:
                    refusals = self._eligibility.refusals(some[0])
                    found.append(Asked(replace(shape, count=len(some)), possible, refusals))
                    continue
                nodes = tuple(name for name in shape.nodes if name in tied)
                there = [known[name] for name in tied if name in known]
                found.append(
                    Asked(
                        replace(shape, count=len(some), nodes=nodes),
                        tuple(name for name in possible if name in tied),
                        refusals_among(there, some[0]),
                        kinds,
                    )
                )
        return found
