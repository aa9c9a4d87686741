"""Three bounds on the expected pods of a namespace: its ResourceQuotas, their number, and a back-off.

**ResourceQuotas.** The API server counts a pod when it is created. Until then, an expected pod is counted here if it
has a place. So no gang holds places, or asks for nodes, for pods that would be refused.

**Number.** A Job of a few lines may announce thousands of pods. No quota counts them before they exist, but each takes
memory and time of the service. So their number is bounded, and so is the rate at which they are made.

**Back-off.** Places are held for expected pods. Mostly the service knows beforehand what the API server will refuse: it
compares quotas, and tries a pod in a dry run. Other causes (a quota that fills up meanwhile, a missing ServiceAccount,
another webhook) show only when the pods don't appear. So after each such failure the expected pods of the namespace get
no places for a while, and later places are held for half as long as before. One failure is cancelled for each hour
without a failure. Failures are kept in memory alone: after a restart, none is counted. No user can cause a restart.

Invariants: a gang's expected pods are counted as of the last look at the gang, and also as soon as it gets places.
Whatever the other namespaces have announced, a namespace without expected pods may have some.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import replace

from fluence_extender.cluster.port import Changed, Deleted, Listed, Observation
from fluence_extender.gangs.lifecycle.limits import NEVER
from fluence_extender.gangs.lifecycle.refusals import BackOff
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.model.gang import GangKey
from fluence_extender.model.pace import Pace
from fluence_extender.model.pod import Pod, QuotaCharge
from fluence_extender.model.reason import Reason, over_quota, queued
from fluence_extender.objects.resource_quota import ResourceQuota

Charges = Counter[QuotaCharge]


# ResourceQuotas.


class NamespaceQuotas:
    """The ResourceQuotas by namespace, and how much expected pods will count in them.

    ``look_at`` has gangs tried again. ``uncreated`` knows the namespaces whose expected pods weren't created.
    """

    def __init__(self, look_at: Callable[[Iterable[GangKey]], None], uncreated: UncreatedPods) -> None:
        self.uncreated = uncreated
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
                for quota in objects:
                    if isinstance(quota, ResourceQuota):
                        touched.add(quota.namespace)
                        self._quotas.setdefault(quota.namespace, {})[quota.name] = quota
            case Changed(ResourceQuota() as quota):
                quotas = self._quotas.setdefault(quota.namespace, {})
                touched = {quota.namespace} if quota.allows_more(quotas.get(quota.name)) else set()
                quotas[quota.name] = quota
            case Deleted(ResourceQuota() as quota):
                touched = {quota.namespace}
                self._quotas.get(quota.namespace, {}).pop(quota.name, None)
            case _:
                return
        self._try_again(touched)

    def note(self, gang: Gang) -> None:
        """Count a gang's expected pods in its present state, if its namespace has quotas."""
        counts = gang.key.namespace in self._quotas
        members = (member for member in gang.alive() if counts and member.assignment is not None)
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
        """Return a copy for a pass at ``now``. What the pass counts has no effect on this one."""
        copied = copy(self)
        copied.uncreated, copied._look_at = self.uncreated.copy(now), lambda _: None
        copied._quotas = {namespace: dict(quotas) for namespace, quotas in self._quotas.items()}
        copied._charged, copied._sums, copied._refused = dict(self._charged), dict(self._sums), {}
        return copied

    def note_refused(self, other: NamespaceQuotas) -> None:
        """Take over which gangs were refused in a pass."""
        for namespace, keys in other._refused.items():
            self._refused.setdefault(namespace, set()).update(keys)

    def obstacle(self, gang: Gang, ready: Sequence[Member]) -> Reason | None:
        """Return why the expected pods among ``ready`` may get no places, None if they may.

        Either a quota has no room for them, or earlier pods of the namespace had places and weren't created.
        """
        quotas = self._quotas.get(gang.key.namespace)
        if any(member.pod.expected for member in ready) and not gang.begun:
            backing_off = self.uncreated.obstacle(gang.key.namespace)
            if backing_off is not None:
                return backing_off
        if not quotas:
            return None
        own = _charges(ready)
        if not own:
            return None
        own += _charges(member for member in gang.alive() if member.assignment is not None)
        others = self._sums.get(gang.key.namespace, Charges()) - self._charged.get(gang.key, Charges())
        reason = self._exceeded(gang.key.namespace, own + others)
        if reason is not None:
            self._refused.setdefault(gang.key.namespace, set()).add(gang.key)
        return reason

    def obstacle_for_new(self, namespace: str, pods: Iterable[Pod]) -> Reason | None:
        """Return why the quotas have no room for ``pods`` of an imagined gang, None if they have room."""
        own = Charges(pod.charge for pod in pods if pod.charge is not None)
        return self._exceeded(namespace, own + self._sums.get(namespace, Charges()))

    def _exceeded(self, namespace: str, charges: Charges) -> Reason | None:
        for name, quota in sorted(self._quotas.get(namespace, {}).items()):
            if exceeded := quota.exceeded(charges):
                return over_quota(
                    f"ResourceQuota {name} has no room for all its pods ({', '.join(exceeded)})"
                )
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
    pods = (member.pod for member in members)
    return Charges(pod.charge for pod in pods if pod.expected and pod.charge is not None)


# The number of expected pods.

MOST_OF_NAMESPACE = 20_000
"""The most expected pods of a namespace. Further Jobs are resumed at once, because quotas count pods that exist."""

MOST_EXPECTED = 100_000
"""The most expected pods of all namespaces. A namespace may have at most half of what the others leave of them."""

MOST_AT_ONCE = 500
"""The most pods of one namespace that a step adds for waiting Jobs, or removes for Jobs that are gone."""

AT_FIRST, A_SECOND = 4000, 500
"""How many pods of a namespace's waiting Jobs are expected in one go after a quiet time, and then in each second."""


class Allowance:
    """Counts the expected pods of each namespace; ``clock`` gives seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._counts: Counter[str] = Counter()
        self._pace = Pace(AT_FIRST, A_SECOND, clock)

    def count(self, namespace: str, more: int) -> None:
        """Count ``more`` expected pods; a negative number if some are gone."""
        self._counts[namespace] += more
        if not self._counts[namespace]:
            del self._counts[namespace]

    def room(self, namespace: str) -> int:
        """Return how many more pods of a namespace may be expected."""
        own = self._counts[namespace]
        others = self._counts.total() - own
        return max(min(MOST_OF_NAMESPACE, (MOST_EXPECTED - others) // 2) - own, 0)

    def allowed_now(self, namespace: str) -> int:
        """Return how many more pods of waiting Jobs may be expected now: none, or at least `MOST_AT_ONCE`.

        They aren't added in small numbers, because the whole gang is looked at each time that pods join it.
        """
        left = int(self._pace.left(namespace))
        return left if left >= MOST_AT_ONCE else 0

    def spend(self, namespace: str, pods: int) -> None:
        """Count pods of waiting Jobs that are expected now."""
        self._pace.spend(namespace, pods)


# The back-off.

FIRST_PAUSE, LONGEST_PAUSE = 30.0, 1800.0
"""The shortest and the longest time without places after a failure, in seconds."""

LEAST_PATIENCE = 10.0
"""Places are held for at least so many seconds, because the Job controller needs a moment to create many pods."""

FORGIVEN_AFTER = 3600.0
"""So many seconds without a failure, counted from the end of the last pause, cancel one failure."""

REFUSED = (
    "pods of this namespace weren't created after they had got places (the Events of their Jobs say why: "
    "FailedCreate); the next ones get places after a pause, which is longer each time"
)


class UncreatedPods:
    """The back-off of each namespace whose pods weren't created although they had places; ``clock`` gives seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._back_offs: dict[str, BackOff] = {}

    def copy(self, now: float) -> UncreatedPods:
        """Return an independent copy at ``now``."""
        copied = UncreatedPods(lambda: now)
        copied._back_offs = dict(self._back_offs)
        return copied

    def failed(self, namespace: str) -> None:
        """Count a failure, unless the pause after the last one goes on: this one began before that pause."""
        if self.until(namespace) is NEVER:
            failed = self._back_off(namespace).failed(self._clock(), FIRST_PAUSE, LONGEST_PAUSE)
            self._back_offs = {
                other: back_off
                for other, back_off in self._back_offs.items()
                if self._back_off(other).failures
            }
            self._back_offs[namespace] = failed

    def until(self, namespace: str) -> float:
        """Return when expected pods of a namespace get places again, `NEVER` if nothing keeps them from that."""
        until = self._back_off(namespace).until
        return until if until > self._clock() else NEVER

    def obstacle(self, namespace: str) -> Reason | None:
        """Return why expected pods of a namespace get no places now, None if they may."""
        return None if self.until(namespace) is NEVER else queued(REFUSED)

    def patience(self, namespace: str, usual: float) -> float:
        """Return for how many seconds places are held for expected pods, which is ``usual`` without failures."""
        return min(usual, max(usual / 2.0 ** self._back_off(namespace).failures, LEAST_PATIENCE))

    def _back_off(self, namespace: str) -> BackOff:
        """Return the back-off of a namespace with the failures that still count."""
        back_off = self._back_offs.get(namespace, BackOff())
        cancelled = int(max(self._clock() - back_off.until, 0.0) / FORGIVEN_AFTER)
        return replace(back_off, failures=max(back_off.failures - cancelled, 0))
