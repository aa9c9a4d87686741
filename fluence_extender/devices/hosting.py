"""How many pods with claims a node can host.

kube-scheduler's allocator serves one pod after another, in an order that isn't known beforehand. Among the devices that
a pod may have, it takes those that it finds first, which isn't known either. So a node hosts some pods only where each
of them finds its devices whatever the others have taken before. Among pods whose requests are for the same devices, or
for entirely different ones, that is a matter of counting. Other pods are tried in every order with every choice, up to
`MOST_STATES`; beyond that the answer is no.

Source of the rules: k8s.io/dynamic-resource-allocation/structured, allocator. An expression that fails for a device
that the allocator might look at ends its attempt, so such a node hosts no pod that asks by this expression.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from fluence_extender.devices.selectors import selects
from fluence_extender.model.claims import Choice, Claims, ClaimSpec, MatchAttribute
from fluence_extender.model.devices import NodeDevice

MOST_STATES = 2_000
"""How many sets of devices the search looks at for one node."""

MOST_DEVICES = 32
"""The most devices of one claim (resource.k8s.io/v1 AllocationResultsMaxSize)."""

BLOCKING = ("NoSchedule", "NoExecute")

Free = tuple[int, ...]
"""How many devices of each kind are free."""


class _Spent(Exception):
    """The search has looked at `MOST_STATES`."""


def most_hosted(devices: Sequence[NodeDevice], waiting: Sequence[Claims], claims: Claims, most: int) -> int:
    """Return how many pods with ``claims`` a node takes, at most ``most``, beside the pods that wait for allocation."""
    node = _Node(devices, [*waiting, claims])
    counts = Counter(waiting)
    if any(one.problem for one in claims) or node.fails(claims):
        return 0
    counted = node.counted({*counts, claims})
    if counted is not None:
        return counted.room(counts, claims, most)
    hosted = 0
    while hosted < most and node.hosts(counts + Counter({claims: hosted + 1})):
        hosted += 1
    return hosted


def hosts(devices: Sequence[NodeDevice], pods: Mapping[Claims, int]) -> bool:
    """Return whether a node takes all of these pods, whatever is allocated first."""
    node = _Node(devices, list(pods))
    if any(one.problem for claims in pods for one in claims) or any(map(node.fails, pods)):
        return False
    return node.hosts(Counter(pods))


def failure(devices: Sequence[NodeDevice], claims: Claims) -> str:
    """Return why the claims can't be planned on these devices, "" where they can."""
    for claim in claims:
        if claim.problem:
            return claim.problem
        for choice in _choices((claim,)):
            for device in devices:
                found = selects(choice.selectors, device)
                if isinstance(found, str):
                    return found
    return ""


def _choices(claims: Claims) -> Iterator[Choice]:
    return (choice for claim in claims for request in claim.requests for choice in request.choices)


@dataclass(frozen=True, slots=True)
class _Counted:
    """Requests that are for sets of devices which are equal or have nothing in common."""

    free: Mapping[int, int]
    asked: Mapping[Claims, Mapping[int, int]]

    def room(self, pods: Counter[Claims], claims: Claims, most: int) -> int:
        left = dict(self.free)
        for one, count in pods.items():
            for kind, amount in self.asked[one].items():
                left[kind] -= amount * count
        room = min((left[kind] // amount for kind, amount in self.asked[claims].items()), default=most)
        return max(min(room, most), 0) if min(left.values(), default=0) >= 0 else 0


class _Node:
    """The devices of one node as some pods see them: devices that differ in nothing they ask for are of one kind."""

    def __init__(self, devices: Sequence[NodeDevice], pods: Sequence[Claims]) -> None:
        self._choices: dict[tuple[object, ...], int] = {}
        self._spent = 0
        attributes: dict[str, None] = {}
        for claims in dict.fromkeys(pods):
            for choice in _choices(claims):
                self._choices.setdefault(_key(choice), len(self._choices))
            attributes.update(dict.fromkeys(one.attribute for claim in claims for one in claim.constraints))
        self._attributes = tuple(attributes)
        self._failing = 0
        self._taken = 0
        kinds: Counter[tuple[int, tuple[object, ...]]] = Counter()
        for device in devices:
            kind = self._kind(device)
            if kind is not None:
                kinds[kind] += 1
        self._kinds = list(kinds)
        self._free: Free = tuple(kinds.values())

    def _kind(self, device: NodeDevice) -> tuple[int, tuple[object, ...]] | None:
        """Return which choices the device serves, as bits, and its values of constrained attributes; None for none.

        Note the choices that fail for it, and those that select it although it can't be had.
        """
        serves = 0
        for (selectors, tolerations), bit in self._choices.items():
            found = selects(selectors, device)  # type: ignore[arg-type]
            if isinstance(found, str):
                if not device.held:
                    self._failing |= 1 << bit
                continue
            blocked = device.held or device.problem or _tainted(device, tolerations)
            if found and blocked:
                self._taken |= 1 << bit
            elif found:
                serves |= 1 << bit
        if not serves:
            return None
        values = ((type(one), one) for one in map(device.attributes.get, self._attributes))
        return serves, tuple(values)

    def fails(self, claims: Claims) -> bool:
        """Return whether an expression of the claims fails for a device that the allocator might look at."""
        return any(self._failing >> self._bit(choice) & 1 for choice in _choices(claims))

    def _bit(self, choice: Choice) -> int:
        return self._choices[_key(choice)]

    def counted(self, pods: set[Claims]) -> _Counted | None:
        """Return the pods' requests as counts, None where counting doesn't decide."""
        used = 0
        asked: dict[Claims, Counter[int]] = {}
        for claims in pods:
            asked[claims] = Counter()
            for claim in claims:
                if claim.constraints:
                    return None
                for request in claim.requests:
                    if len(request.choices) != 1 or not request.choices[0].count:
                        return None
                    bit = self._bit(request.choices[0])
                    used |= 1 << bit
                    asked[claims][bit] += request.choices[0].count
        sets: dict[int, int] = {}
        same: dict[int, int] = {}
        for bit in _bits(used):
            members = sum(1 << at for at, (serves, _) in enumerate(self._kinds) if serves >> bit & 1)
            first = sets.setdefault(members, bit)
            same[bit] = first
            if any(other & members for other in sets if other != members):
                return None
        free = {bit: sum(self._free[at] for at in _bits(members)) for members, bit in sets.items()}
        merged: dict[Claims, Mapping[int, int]] = {}
        for claims, amounts in asked.items():
            merged[claims] = Counter()
            for bit, amount in amounts.items():
                merged[claims][same[bit]] += amount  # type: ignore[index]
        return _Counted(free, merged)

    def hosts(self, pods: Counter[Claims]) -> bool:
        """Return whether all pods find their devices in any order, whatever is taken before."""
        counted = self.counted(set(pods))
        if counted is not None:
            empty: Claims = ()
            asked = {**counted.asked, empty: {}}
            return bool(_Counted(counted.free, asked).room(pods, empty, 1))
        kinds = [claims for claims in pods if claims]
        try:
            known: dict[tuple[Free, tuple[int, ...]], bool] = {}
            return self._safe(self._free, tuple(pods[one] for one in kinds), kinds, known)
        except _Spent:
            return False

    def _safe(
        self,
        free: Free,
        left: tuple[int, ...],
        kinds: Sequence[Claims],
        known: dict[tuple[Free, tuple[int, ...]], bool],
    ) -> bool:
        if not any(left):
            return True
        key = free, left
        if key not in known:
            known[key] = all(
                self._safe_after(free, left, at, kinds, known) for at, count in enumerate(left) if count
            )
        return known[key]

    def _safe_after(
        self,
        free: Free,
        left: tuple[int, ...],
        at: int,
        kinds: Sequence[Claims],
        known: dict[tuple[Free, tuple[int, ...]], bool],
    ) -> bool:
        rest = (*left[:at], left[at] - 1, *left[at + 1 :])
        outcomes = self._outcomes(free, kinds[at])
        return bool(outcomes) and all(self._safe(one, rest, kinds, known) for one in outcomes)

    def _outcomes(self, free: Free, claims: Claims) -> set[Free]:
        """Return what may be free once one pod has got its devices; nothing where it can't get them."""
        states = {free}
        for claim in claims:
            states = {after for before in states for after in _Claim(self, claim).outcomes(before)}
        return states

    def spend(self) -> None:
        """Count a state that is looked at."""
        self._spent += 1
        if self._spent > MOST_STATES:
            raise _Spent

    def serving(self, choice: Choice) -> list[int]:
        """Return the kinds that serve a choice."""
        bit = self._bit(choice)
        return [at for at, (serves, _) in enumerate(self._kinds) if serves >> bit & 1]

    def all_of(self, choice: Choice) -> list[int] | None:
        """Return the kinds of which all devices are to be taken, None where one of them can't be had."""
        return None if self._taken >> self._bit(choice) & 1 else self.serving(choice) or None

    @property
    def whole(self) -> Free:
        """What was free in the beginning."""
        return self._free

    def value(self, kind: int, attribute: str) -> object:
        """Return the value that devices of a kind have in an attribute, with its type."""
        return self._kinds[kind][1][self._attributes.index(attribute)]


class _Claim:
    """The allocation of one claim."""

    def __init__(self, node: _Node, claim: ClaimSpec) -> None:
        self._node = node
        self._claim = claim

    @cached_property
    def _constraints(self) -> Sequence[MatchAttribute]:
        return self._claim.constraints

    def outcomes(self, free: Free) -> set[Free]:
        """Return what may be free afterwards."""
        return self._from(0, free, (None,) * len(self._constraints), 0)

    def _from(self, number: int, free: Free, values: tuple[object, ...], taken: int) -> set[Free]:
        """Serve the requests from ``number`` on; the first choice with which all of them are served counts."""
        self._node.spend()
        if number == len(self._claim.requests):
            return {free}
        request = self._claim.requests[number]
        for choice in request.choices:
            found: set[Free] = set()
            for after, bound, count in self._served(request.name, choice, free, values, taken):
                found |= self._from(number + 1, after, bound, count)
            if found:
                return found
        return set()

    def _served(
        self, request: str, choice: Choice, free: Free, values: tuple[object, ...], taken: int
    ) -> list[tuple[Free, tuple[object, ...], int]]:
        """Return what is free, which values are constrained and how many devices are taken, for each way to serve."""
        node = self._node
        bound = [one.covers(request, choice.name) for one in self._constraints]
        if choice.count:
            kinds, amounts = node.serving(choice), None
            count = choice.count
        else:
            wanted = node.all_of(choice)
            if wanted is None:
                return []
            kinds, amounts = wanted, [node.whole[kind] for kind in wanted]
            count = sum(amounts)
        if taken + count > MOST_DEVICES:
            return []
        found: dict[tuple[Free, tuple[object, ...]], None] = {}

        def take(at: int, left: int, state: Free, known: tuple[object, ...]) -> None:
            node.spend()
            if not left:
                found[state, known] = None
                return
            if at == len(kinds):
                return
            kind = kinds[at]
            after = self._agreed(kind, known, bound)
            least, most = (0, min(left, state[kind])) if amounts is None else (amounts[at], amounts[at])
            if most > state[kind]:
                return
            for amount in range(most, least - 1, -1):
                if not amount:
                    take(at + 1, left, state, known)
                elif after is not None:
                    rest = (*state[:kind], state[kind] - amount, *state[kind + 1 :])
                    take(at + 1, left - amount, rest, after)

        take(0, count, free, values)
        return [(state, known, taken + count) for state, known in found]

    def _agreed(
        self, kind: int, values: tuple[object, ...], bound: Sequence[bool]
    ) -> tuple[object, ...] | None:
        """Return the constrained values once a device of this kind is taken, None where it has others or none."""
        agreed = list(values)
        for at, constraint in enumerate(self._constraints):
            if not bound[at]:
                continue
            value = self._node.value(kind, constraint.attribute)
            if value == (type(None), None) or values[at] not in (None, value):
                return None
            agreed[at] = value
        return tuple(agreed)


def _key(choice: Choice) -> tuple[object, ...]:
    return choice.selectors, choice.tolerations


def _tainted(device: NodeDevice, tolerations: object) -> bool:
    assert isinstance(tolerations, tuple)
    return any(
        taint.effect in BLOCKING and not any(one.tolerates(taint) for one in tolerations)
        for taint in device.taints
    )


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
