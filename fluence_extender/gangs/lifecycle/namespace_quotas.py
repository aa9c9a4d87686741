"""What ResourceQuotas leave for pods that don't exist yet.

The API server counts a pod when it is created. A foreseen pod that has a place, or for which an autoscaler is asked,
is counted here until then. So no gang holds places, or asks for nodes, for pods that would be refused.

Invariant: a gang's foreseen pods are counted as of the last look at it, and at once when it gets places or asks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from fluence_extender.cluster.port import Changed, Deleted, Listed, Observation
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.ledger.ledger import Ledger
from fluence_extender.model.gang import GangKey
from fluence_extender.model.pod import QuotaCharge
from fluence_extender.model.reason import Reason, over_quota
from fluence_extender.model.resource_quota import ResourceQuota

Charges = Counter[QuotaCharge]


class NamespaceQuotas:
    """The ResourceQuotas by namespace, and what foreseen pods will count for in them."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._quotas: dict[str, dict[str, ResourceQuota]] = {}
        self._charged: dict[GangKey, Charges] = {}
        self._sums: dict[str, Charges] = {}
        self._refused: set[str] = set()
        """The namespaces of gangs that were refused since their quotas or sums have changed last."""

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
                there = self._quotas.setdefault(one.namespace, {})
                touched = {one.namespace} if one.allows_more(there.get(one.name)) else set()
                there[one.name] = one
            case Deleted(_, ResourceQuota() as one):
                touched = {one.namespace}
                self._quotas.get(one.namespace, {}).pop(one.name, None)
            case _:
                return
        self._try_again(touched)

    def note(self, gang: Gang) -> None:
        """Count a gang's foreseen pods as it is now, if its namespace has quotas."""
        counts = gang.key.namespace in self._quotas
        members = (one for one in gang.alive() if counts and (one.assignment is not None or gang.consumes))
        self._charge(gang.key, _charges(members))

    def forget(self, keys: Iterable[GangKey]) -> None:
        """Stop counting gangs that are gone."""
        for key in keys:
            self._charge(key, Charges())

    def forget_all(self) -> None:
        """Stop counting all gangs: those that a new leader looks at are counted again."""
        self._charged.clear()
        self._sums.clear()

    def obstacle(self, gang: Gang, ready: Sequence[Member]) -> Reason | None:
        """Return which quota has no room for the pods of ``ready`` that don't exist yet, None where all have."""
        quotas = self._quotas.get(gang.key.namespace)
        if not quotas:
            return None
        own = _charges(ready)
        if not own:
            return None
        own += _charges(one for one in gang.alive() if one.assignment is not None)
        others = self._sums.get(gang.key.namespace, Charges()) - self._charged.get(gang.key, Charges())
        for name, quota in sorted(quotas.items()):
            if over := quota.exceeded(own + others):
                self._refused.add(gang.key.namespace)
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
        if namespaces & self._refused:
            self._refused -= namespaces
            self._ledger.changed()


def _charges(members: Iterable[Member]) -> Charges:
    """Count the charges of the members that don't exist yet."""
    return Charges(one.pod.charge for one in members if one.pod.foreseen and one.pod.charge is not None)
