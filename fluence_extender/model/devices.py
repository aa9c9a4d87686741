"""The devices of nodes: what each has, which pods hold it, and how much of it is left.

Names of attributes and capacities are full: ``domain/id``, with the driver as the default domain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace

from fluence_extender.model.quantity import up
from fluence_extender.model.taints import Taint

DeviceId = tuple[str, str, str]
"""Driver, pool and name. People see it as ``driver/pool/name``."""

CounterId = tuple[str, str, str, str]
"""Driver, pool, set and name of a counter from which devices of the pool take."""


@dataclass(frozen=True, slots=True)
class Version:
    """The value of an attribute that is a semantic version."""

    text: str


Attribute = bool | int | str | Version
"""The value of an attribute."""


@dataclass(frozen=True, slots=True)
class RequestPolicy:
    """Which amounts of a capacity claims can have, all in billionths. A claim that names none gets ``default``.

    If there are ``values``, no others are allowed. Otherwise an amount is at least ``least`` and at most ``most``, in
    steps of ``step``.
    """

    default: int | None = None
    values: tuple[int, ...] = ()
    least: int | None = None
    most: int | None = None
    step: int | None = None

    def rounded(self, requested: int) -> int:
        """Return the amount that a claim for ``requested`` gets."""
        if self.least is not None:
            over = max(requested - self.least, 0)
            return self.least + (up(over, self.step) * self.step if self.step else over)
        return next((one for one in self.values if one >= requested), requested)

    def allows(self, amount: int) -> bool:
        """Return whether a claim can have this amount."""
        if amount == self.default:
            return True
        if self.values:
            return amount in self.values
        stepped = not self.step or (amount - (self.least or 0)) % self.step == 0
        return stepped and (self.most is None or amount <= self.most)


@dataclass(frozen=True, slots=True)
class Capacity:
    """One capacity of a device, in billionths. Claims for a part of it have to keep to ``policy``."""

    value: int
    policy: RequestPolicy = RequestPolicy()


@dataclass(frozen=True, slots=True)
class Holder:
    """A claim that has a device.

    It is reserved for ``pods``, by uid. It has ``used`` these parts of the device's capacity, in billionths.
    """

    pods: frozenset[str] = frozenset()
    used: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeDevice:
    """One device of a node, or of several nodes that share it.

    ``capacity`` has the names as the driver writes them. ``held`` says that a claim has the device. ``problem`` is why
    the service never plans with it, "" for most devices. ``consumes`` is what it takes of its pool's counters while it
    is held. If ``shareable``, several claims may have it, each a part of its capacity; together they have ``used``.
    ``holders`` are the claims that have it. A ``conditional`` device has binding conditions; kube-scheduler
    goes through pools with such devices last. ``values`` stands for all that a selector can read of it.
    """

    driver: str
    pool: str
    name: str
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    capacity: Mapping[str, Capacity] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    held: bool = False
    problem: str = ""
    consumes: Mapping[CounterId, int] = field(default_factory=dict)
    shareable: bool = False
    used: Mapping[str, int] = field(default_factory=dict)
    holders: tuple[Holder, ...] = ()
    conditional: bool = False
    values: object = field(default=None, compare=False, repr=False)

    def has(self, attribute: str, value: str) -> bool:
        """Return whether an attribute has the value, whatever its domain and its type."""
        values = (one for name, one in self.attributes.items() if name.rpartition("/")[2] == attribute)
        return any(_written(one) == value for one in values)

    def share(self, requested: Mapping[str, int]) -> Mapping[str, int] | None:
        """Return the capacity that a claim for ``requested`` consumes, None if the claim can't have that.

        Source: k8s.io/dynamic-resource-allocation/structured, consumable capacity.
        """
        if any(name not in self.capacity for name in requested):
            return None
        consumed = {}
        for name, one in self.capacity.items():
            if name in requested:
                amount = one.policy.rounded(requested[name])
            else:
                amount = one.value if one.policy.default is None else one.policy.default
            if amount > one.value or not one.policy.allows(amount):
                return None
            consumed[name] = amount
        return consumed

    @property
    def amounts(self) -> Mapping[str, int]:
        """Its capacity by full names."""
        return {
            name if "/" in name else f"{self.driver}/{name}": one.value for name, one in self.capacity.items()
        }

    @property
    def as_if_free(self) -> NodeDevice:
        """The same device as if no claim had it."""
        return replace(self, held=False, used={}, holders=()) if self.held else self

    def without(self, gone: Set[str]) -> NodeDevice:
        """Return the same device as if the pods ``gone`` were gone: a claim goes with the last of its pods."""
        left = tuple(one for one in self.holders if not one.pods or not one.pods <= gone)
        if len(left) == len(self.holders):
            return self
        used: Counter[str] = Counter()
        for one in left:
            used.update(one.used)
        return replace(self, held=bool(left), used=used, holders=left)

    @property
    def id(self) -> DeviceId:
        """What identifies it in the cluster."""
        return self.driver, self.pool, self.name


def _written(value: Attribute) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.text if isinstance(value, Version) else str(value)
