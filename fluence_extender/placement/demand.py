"""The pods to be placed, and which of them are alike for placement."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fluence_extender.model.claims import Claims
from fluence_extender.model.coordination import COORDINATION_ANNOTATION, NAMING_OWNERS, QPU
from fluence_extender.model.names import DIRECT_SCHEDULER_NAME, SCHEDULER_NAME
from fluence_extender.model.pod import HostPort, Pod, Requirement
from fluence_extender.model.pod_keys import unhonoured, unprepared
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.model.resources import Resources
from fluence_extender.model.selectors import holds
from fluence_extender.placement.eligibility import Signature, signature
from fluence_extender.placement.search import Shape
from fluence_extender.placement.topology_constraints import TopologyConstraint, topology_constraints

MOST_PORTS = 50_000
"""The most host ports of the members of a gang that are planned together. Each is compared with all others."""

TOO_MANY_PORTS = (
    f"its members that need a place have more than {MOST_PORTS:,} host ports together; "
    "make smaller gangs, or give their pods fewer host ports"
)


@dataclass(frozen=True, slots=True)
class Demand:
    """A pod to be placed.

    ``barred`` are nodes that it may not use, such as those that recently refused it. ``levels`` are the node labels
    for which its PodGroup requires a single domain. ``job_size`` is how many pods its Job has at once if its topology
    constraints depend on that, else 0.
    """

    pod: Pod
    barred: frozenset[str] = frozenset()
    levels: tuple[str, ...] = ()
    job_size: int = 0

    @property
    def constraints(self) -> tuple[TopologyConstraint, ...]:
        """The pod's topology constraints, outermost first."""
        return topology_constraints(self.pod, self.levels, self.job_size)


@dataclass(frozen=True, slots=True)
class SettledMember:
    """A member that already has its node; ``demand`` has the constraints that tie the others to it."""

    demand: Demand
    node: str


class ShapeKey(NamedTuple):
    """Pods with equal keys are alike for placement; ``pin`` is the node of a pod's devices, "" for none.

    ``rules`` are its rules about other pods, and all by which such rules judge it.
    """

    requests: Resources
    signature: Signature
    barred: frozenset[str]
    ports: tuple[HostPort, ...]
    pin: str
    claims: Claims
    rules: object = None


Group = tuple[Shape, list[Pod]]
"""Pods that are alike for placement, with their shape."""


def shape_key(demand: Demand, pin: str = "", selected: object = None) -> ShapeKey:
    """Return the key of a demand; ``selected`` tells by which rules of its gang the pod is selected."""
    pod = demand.pod
    rules: object = selected
    if selected is None and pod.ruled:
        rules = frozenset(pod.labels.items())
    if rules is not None:
        rules = pod.namespace, pod.apart, pod.near, pod.spread, rules
    return ShapeKey(pod.requests, signature(pod), demand.barred, pod.host_ports, pin, pod.claims, rules)


def grouped(demands: Sequence[Demand], pins: Mapping[str, str] | None = None) -> dict[ShapeKey, list[Demand]]:
    """Return the demands by key; ``pins`` are the nodes of pods' devices, by pod uid."""
    groups: dict[ShapeKey, list[Demand]] = {}
    selectors = _selectors(demands)
    for demand in demands:
        pin = pins.get(demand.pod.uid, "") if pins else ""
        labels = demand.pod.labels
        selected = (
            tuple([all(holds(rule, labels) for rule in one) for one in selectors]) if selectors else None
        )
        groups.setdefault(shape_key(demand, pin, selected), []).append(demand)
    return groups


def _selectors(demands: Sequence[Demand]) -> list[tuple[Requirement, ...]]:
    """Return the label selectors of all rules about other pods."""
    found: dict[tuple[Requirement, ...], None] = {}
    seen: set[object] = set()
    for pod in (demand.pod for demand in demands if demand.pod.ruled):
        rules = pod.apart, pod.near, pod.spread
        if rules not in seen:
            seen.add(rules)
            found.update(dict.fromkeys(rule.selector for some in rules for rule in some if rule.selector))
    return list(found) or ([()] if seen else [])


NOT_DIRECT = (
    f"it names scheduler {DIRECT_SCHEDULER_NAME}, whose pods kube-scheduler's filters don't judge, but its volumes "
    f"with claims or its resource claims decide, too, where it may run: create it anew with schedulerName: "
    f"{SCHEDULER_NAME}"
)
"""Why a pod isn't placed that names the scheduler of direct pods, and should be a filtered one."""


MOST_RULE_SETS = 64
"""The most different sets of rules about other pods in a gang. Each member is compared with each of them."""

TOO_MANY_RULES = (
    f"its members have more than {MOST_RULE_SETS} different sets of rules about other pods (required affinity and "
    "anti-affinity, spread): give equal members equal rules"
)


def unplannable(pods: Collection[Pod]) -> Reason | None:
    """Return why some pods can't be planned as they are, or can't be planned yet; None if all can."""
    ports = 0
    if len({(pod.apart, pod.near, pod.spread) for pod in pods if pod.ruled}) > MOST_RULE_SETS:
        return Reason(ReasonCode.INVALID_REQUEST, TOO_MANY_RULES)
    for pod in pods:
        ports += len(pod.host_ports)
        if ports > MOST_PORTS:
            return Reason(ReasonCode.INVALID_REQUEST, TOO_MANY_PORTS)
        if pod.problem:
            return Reason(ReasonCode.INVALID_REQUEST, f"pod {pod.name}: {pod.problem}")
        if COORDINATION_ANNOTATION in pod.annotations:
            owner = pod.owner.name if pod.owner is not None and pod.owner.kind in NAMING_OWNERS else ""
            why = unhonoured(pod.labels, pod.annotations, owner) or (
                unprepared(pod.labels, pod.annotations, len(pods) > 1, owner) if QPU in pod.devices else ""
            )
            if why:
                return Reason(ReasonCode.INVALID_REQUEST, f"pod {pod.name}: {why}")
        if pod.direct and (pod.interdependent or pod.claims):
            return Reason(ReasonCode.INVALID_REQUEST, f"pod {pod.name}: {NOT_DIRECT}")
        if pod.undecided:
            return Reason(ReasonCode.SELECTING_DEVICES, f"pod {pod.name}: {pod.undecided}")
    return None
