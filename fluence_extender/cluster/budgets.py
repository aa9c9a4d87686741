"""Decide whether PodDisruptionBudgets let several pods be evicted together.

The Eviction API judges one pod at a time, but a gang is evicted whole or not at all. So all its pods are checked before
the first eviction. The rules are those of Kubernetes 1.36, pkg/registry/core/pod/storage/eviction.go. A pod that
doesn't run yet or is terminating needs no budget. A pod that two budgets cover can't be evicted. A pod that runs and
isn't ready needs no budget if enough others are healthy, or if its budget always allows its eviction. A budget whose
status is older than its spec forbids evictions.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fluence_extender.cluster.port import EvictionBlock
from fluence_extender.model.pod import Pod
from fluence_extender.model.selectors import holds
from fluence_extender.objects.fields import LabelSelector
from fluence_extender.objects.meta import Metadata

ALWAYS_ALLOW = "AlwaysAllow"


class BudgetSpec(msgspec.Struct, frozen=True):
    """policy/v1 PodDisruptionBudgetSpec: the selection of pods, and which of them need no budget."""

    selector: LabelSelector | None = None
    unhealthy_policy: str | None = msgspec.field(name="unhealthyPodEvictionPolicy", default=None)


class BudgetStatus(msgspec.Struct, frozen=True, rename="camel"):
    """policy/v1 PodDisruptionBudgetStatus."""

    disruptions_allowed: int = 0
    observed_generation: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0


class Budget(msgspec.Struct, frozen=True):
    """policy/v1 PodDisruptionBudget."""

    metadata: Metadata
    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()

    def covers(self, pod: Pod) -> bool:
        """Return whether it is in the pod's namespace and selects the pod.

        An empty selector selects the whole namespace, no selector selects nothing.
        """
        selector = self.spec.selector
        if selector is None or pod.namespace != self.metadata.namespace:
            return False
        return all(holds(one, pod.labels) for one in selector.requirements)

    def counts(self, pod: Pod) -> bool:
        """Return whether the eviction of a pod that it covers counts.

        An unhealthy pod may be evicted without counting.
        """
        if pod.ready:
            return True
        if self.spec.unhealthy_policy == ALWAYS_ALLOW:
            return False
        return not 0 < self.status.desired_healthy <= self.status.current_healthy


class _BudgetList(msgspec.Struct, frozen=True):
    items: tuple[Budget, ...] = ()


_list = msgspec.json.Decoder(_BudgetList).decode
decode_budget = msgspec.json.Decoder(Budget).decode
"""Decode a policy/v1 PodDisruptionBudget. Raise `msgspec.MsgspecError`."""


def decode_budgets(raw: bytes) -> tuple[Budget, ...]:
    """Decode a policy/v1 PodDisruptionBudgetList. Raise `msgspec.MsgspecError`."""
    return _list(raw).items


def eviction_block(budgets: Sequence[Budget], pods: Sequence[Pod]) -> EvictionBlock | None:
    """Return what forbids evicting all ``pods`` together, None if nothing does."""
    running = [pod for pod in pods if not pod.deleting and not pod.finished and pod.phase != "Pending"]
    covering = {pod.uid: [one for one in budgets if one.covers(pod)] for pod in running}
    for pod in running:
        names = sorted(map(_name, covering[pod.uid]))
        if len(names) > 1:
            why = f"pod {pod.key} is covered by more than one PodDisruptionBudget ({', '.join(names)})"
            return EvictionBlock(why, frozenset({pod.uid}))
    for budget in sorted(budgets, key=lambda one: (one.metadata.namespace, one.metadata.name)):
        uids = frozenset(pod.uid for pod in running if budget in covering[pod.uid] and budget.counts(pod))
        lags = budget.status.observed_generation < budget.metadata.generation
        allowed = 0 if lags else max(budget.status.disruptions_allowed, 0)
        if len(uids) > allowed:
            return EvictionBlock(
                f"PodDisruptionBudget {_name(budget)} allows {allowed} of {len(uids)} evictions", uids
            )
    return None


def _name(budget: Budget) -> str:
    """Return the name of a budget in a text; without its namespace it couldn't be hidden from other users."""
    return f"{budget.metadata.namespace}/{budget.metadata.name}"
