"""What ResourceQuotas leave for pods that don't exist yet.

The API server counts a pod when it is created. Until then, a expected pod is counted here if it has a place. So no gang
holds places, or asks for nodes, for pods that would be refused.

Invariant: a gang's expected pods are counted as of the last look at the gang, and also as soon as it gets places.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from copy import copy

from fluence_extender.cluster.port import Changed, Deleted, Listed, Observation
from fluence_extender.gangs.lifecycle.expected_allowance import UncreatedPods
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.model.gang import GangKey
from fluence_extender.model.pod import Pod, QuotaCharge
from fluence_extender.model.reason import Reason, over_quota
from fluence_extender.model.resource_quota import ResourceQuota

Charges = Counter[QuotaCharge]


class NamespaceQuotas:
    """The ResourceQuotas by namespace, and what expected pods will count for in them.

    ``look_at`` has gangs tried again. ``refused`` knows the namespaces whose pods weren't created before.
    """

    def __init__(self, look_at: Callable[[Iterable[GangKey]], None], refused: UncreatedPods) -> None:
        self.refused = refused
        self._look_at = look_at
        self._quotas: dict[str, dict[str, ResourceQuota]] = {}
        self._charged: dict[GangKey, Charges] = {}
        self._sums: dict[str, Charges] = {}
        self._refused: dict[str, set[GangKey]] = {}
        """The gangs of each namespace that were refused since its quotas or sums last changed."""

    def observe(self, seen: Observation) -> None:
        """Take in an observation of a ResourceQuota, and have refused gangs of its namespace tried again."""
        match seen:
            case Listed(_, objects):
                touched = set(self._quotas)
                self._quotas.clear()
                for one in objects:
                    if isinstance(one, ResourceQuota):
                        touched.add(one.namespace)
                        self._quotas.setdefault(one.namespace, {})[one.name] = one
            case Changed(_, ResourceQuota() as one):
                quotas = self._quotas.setdefault(one.namespace, {})
                touched = {one.namespace} if one.allows_more(quotas.get(one.name)) else set()
                quotas[one.name] = one
            case Deleted(_, ResourceQuota() as one):
                touched = {one.namespace}
                self._quotas.get(one.namespace, {}).pop(one.name, None)
            case _:
                return
        self._try_again(touched)

    def note(self, gang: Gang) -> None:
        """Count a gang's expected pods in its present state, if its namespace has quotas."""
        counts = gang.key.namespace in self._quotas
        members = (one for one in gang.alive() if counts and one.assignment is not None)
        self._charge(gang.key, _charges(members))

    def forget(self, keys: Iterable[GangKey]) -> None:
        """Stop counting gangs that are gone."""
        for key in keys:
            self._charge(key, Charges())
            self._refused.get(key.namespace, set()).discard(key)

    def forget_all(self) -> None:
        """Stop counting all gangs. A new leader counts each gang again when it looks at it."""
        self._charged.clear()
        self._sums.clear()

    def for_pass(self, now: float) -> NamespaceQuotas:
        """Return a copy for a pass at ``now``, which counts what it decides without an effect on this one."""
        copied = copy(self)
        copied.refused, copied._look_at = self.refused.copy(now), lambda _: None
        copied._quotas = {namespace: dict(quotas) for namespace, quotas in self._quotas.items()}
        copied._charged, copied._sums, copied._refused = dict(self._charged), dict(self._sums), {}
        return copied

    def note_refused(self, other: NamespaceQuotas) -> None:
        """Take over which gangs were refused in a pass."""
        for namespace, keys in other._refused.items():
            self._refused.setdefault(namespace, set()).update(keys)

    def obstacle(self, gang: Gang, ready: Sequence[Member]) -> Reason | None:
        """Return why the pods of ``ready`` that don't exist yet may get no places, None if they may.

        Either a quota has no room for them, or earlier pods of the namespace had places and weren't created.
        """
        quotas = self._quotas.get(gang.key.namespace)
        if any(one.pod.expected for one in ready) and not gang.begun:
            barred = self.refused.obstacle(gang.key.namespace)
            if barred is not None:
                return barred
        if not quotas:
            return None
        own = _charges(ready)
        if not own:
            return None
        own += _charges(one for one in gang.alive() if one.assignment is not None)
        charged = self._sums.get(gang.key.namespace, Charges()) - self._charged.get(gang.key, Charges())
        reason = self._exceeded(gang.key.namespace, own + charged)
        if reason is not None:
            self._refused.setdefault(gang.key.namespace, set()).add(gang.key)
        return reason

    def newcomer(self, namespace: str, pods: Iterable[Pod]) -> Reason | None:
        """Return why a quota has no room for new ``pods`` with their charges, None if it has."""
        own = Charges(pod.charge for pod in pods if pod.charge is not None)
        return self._exceeded(namespace, own + self._sums.get(namespace, Charges()))

    def _exceeded(self, namespace: str, charges: Charges) -> Reason | None:
        for name, quota in sorted(self._quotas.get(namespace, {}).items()):
            if over := quota.exceeded(charges):
                return over_quota(f"ResourceQuota {name} has no room for all its pods ({', '.join(over)})")
        return None

    def _charge(self, key: GangKey, wanted: Charges) -> None:
        before = self._charged.pop(key, Charges())
        if wanted:
            self._charged[key] = wanted
        if before != wanted:
            self._sums[key.namespace] = self._sums.get(key.namespace, Charges()) - before + wanted
            if before - wanted:
                self._try_again({key.namespace})

    def _try_again(self, namespaces: set[str]) -> None:
        for namespace in namespaces:
            self._look_at(self._refused.pop(namespace, ()))


def _charges(members: Iterable[Member]) -> Charges:
    """Count the charges of the members that don't exist yet."""
    return Charges(one.pod.charge for one in members if one.pod.expected and one.pod.charge is not None)
