"""What the controller wants done to the cluster, as values; the driver does them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fluence_extender.cluster.port import Pin, Regarding
from fluence_extender.model.gang import GangKey
from fluence_extender.model.pod import Pod
from fluence_extender.model.workload import CoschedulingGroup, MemberStatus, PodGroup


@dataclass(frozen=True, slots=True)
class Clear:
    """Take our nomination back from a pod whose plan was dropped."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class Steer:
    """Tell the pod its ``node`` and remove our gate; with a ``pin`` in one write, else by a nomination before."""

    pod: Pod
    node: str
    pin: Pin | None = None


@dataclass(frozen=True, slots=True)
class Keep:
    """Nominate ``node``, on which others make way, for a pod that stays gated."""

    pod: Pod
    node: str


@dataclass(frozen=True, slots=True)
class AskBudgets:
    """Ask whether all of ``pods``, those of each gang to be evicted for ``preemptor``, may be evicted together."""

    preemptor: GangKey
    pods: Mapping[GangKey, tuple[Pod, ...]]


@dataclass(frozen=True, slots=True)
class Tell:
    """Tell users something about an object, as an Event (a warning)."""

    regarding: Regarding
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Evict:
    """Evict a bound member of a gang that can't be completed, or that makes way (``again``: until it has gone)."""

    pod: Pod
    reason: str
    again: bool = False


@dataclass(frozen=True, slots=True)
class ReportPod:
    """Write into a gated pod's condition why it waits."""

    pod: Pod
    message: str


@dataclass(frozen=True, slots=True)
class ReportGroup:
    """Write into a PodGroup's conditions whether it is scheduled."""

    group: PodGroup
    scheduled: bool
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class ReportMembers:
    """Write the status of a PodGroup of scheduling.x-k8s.io."""

    group: CoschedulingGroup
    status: MemberStatus


Action = Clear | Steer | Keep | AskBudgets | Tell | Evict | ReportPod | ReportGroup | ReportMembers
