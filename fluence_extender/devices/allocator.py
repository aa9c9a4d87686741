"""The devices of a node from the view of some claims, and which of them a pod gets.

kube-scheduler's allocator serves claim after claim and request after request. For each it goes through drivers, pools,
slices and devices in the order of their names, and it takes the first devices with which all of the pod's claims are
served. So the free devices determine what a pod gets. Devices that look alike to the claims are interchangeable here.

Source: k8s.io/dynamic-resource-allocation/structured, allocator (1.36).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from fluence_extender.devices.selectors import selects
from fluence_extender.model.claims import AttributeConstraint, Choice, Claims
from fluence_extender.model.devices import Attribute, CounterId, NodeDevice
from fluence_extender.model.node import Node
from fluence_extender.model.selectors import untolerated

MOST_DEVICES = 32
"""The most devices of one claim (resource.k8s.io/v1 AllocationResultsMaxSize)."""

MOST_WAYS = 128
"""Pods with more different choices and selectors aren't planned, because each device is checked for all of them."""

COMPARED_PER_STATE = 8
"""So many devices that are compared with the constraints of a claim count as one more state."""

MOST_LENSES = 256
"""The most sets of claims whose lenses are cached."""

MOST_VIEWS = 4096
"""The most views that one lens caches."""

Amounts = tuple[tuple[int, int], ...]
"""Amounts by their position in `State.left`."""

Value = int | None
"""The number of an attribute's value among its values on the node, None for none.

Only equality of values matters. So the views of two nodes are equal if their devices' values are equal or different in
the same way.
"""


class Work(threading.local):
    """Counts this thread's work for claims: selectors compared with a device, and states that searches examine."""

    done = 0


work = Work()


class Spent(Exception):
    """The search has examined its limit of states."""


class _GivenUp(Exception):
    """A constraint forbids taking all devices of a request. In this case kube-scheduler's allocator gives up."""


@dataclass(frozen=True, slots=True)
class DevicePart:
    """A device from the view of the claims.

    ``serves`` are the choices that it can serve, as bits. ``values`` are its values of the constrained attributes.
    ``consumes`` is taken once, however many claims have the device. ``shares`` is what each of the choices consumes of
    a device that several claims may have, None for other devices.
    """

    serves: int
    values: tuple[Value, ...]
    consumes: Amounts = ()
    shares: tuple[Amounts, ...] | None = None


@dataclass(frozen=True, slots=True)
class State:
    """What is left on a node: ``taken`` are the devices in use, as bits, and ``left`` the free amounts.

    ``shared`` are the claims of several pods that have their devices. While a pod is served, ``mine`` are the devices
    of its present claim, and ``lent`` are the devices that it has with admin access. ``owed`` is what the lent devices
    take; it is free again once the pod is served.
    """

    taken: int
    left: tuple[int, ...]
    shared: frozenset[str] = frozenset()
    mine: int = 0
    lent: int = 0
    owed: Amounts = ()

    @property
    def settled(self) -> State:
        """What is left once the pod is served."""
        left = list(self.left)
        for place, amount in self.owed:
            left[place] += amount
        return State(self.taken, tuple(left), self.shared)


@dataclass(frozen=True, slots=True, eq=False)
class DeviceView:
    """The devices of a node from the view of the claims, in the allocator's order. A lens makes equal views once.

    Three fields are sets of choices, as bits: the selectors of ``failing`` fail for some device, ``unfit`` could get a
    device without the required attributes, and ``blocked`` select a device that can't be allocated. ``given`` are the
    extended resources that the node has by itself.
    """

    parts: tuple[DevicePart, ...]
    start: State
    failing: int = 0
    unfit: int = 0
    blocked: int = 0
    given: frozenset[str] = frozenset()


class Lens:
    """Makes and caches the views of nodes for some sets of claims."""

    def __init__(self, sets: tuple[Claims, ...]) -> None:
        self.bits: dict[Choice, int] = {}
        kinds: dict[Choice, int] = {}
        attributes: dict[str, int] = {}
        self.extended: dict[str, None] = {}
        for claims in sets:
            for choice in choices(claims):
                kind = replace(choice, device_class="", count=min(choice.count, 1), name="")
                self.bits[choice] = kinds.setdefault(kind, len(kinds))
            for claim in claims:
                for constraint in claim.constraints:
                    attributes.setdefault(constraint.attribute, len(attributes))
                if claim.extended:
                    self.extended[claim.extended] = None
        self._kinds = tuple((kind, dict(kind.capacity)) for kind in kinds)
        self._looks = sum(max(len(kind.selectors), 1) for kind in kinds)
        self.attributes: Mapping[str, int] = attributes
        self._views: dict[object, DeviceView] = {}
        self._seen: dict[str, tuple[Node, DeviceView]] = {}

    def view(self, node: Node) -> DeviceView:
        """Return the view of a node for these claims. It is cached until the node changes."""
        known = self._seen.get(node.name)
        if known is not None and known[0] is node:
            return known[1]
        view, is_certain = self._view(node)
        if is_certain:
            self._seen[node.name] = node, view
        return view

    def _view(self, node: Node) -> tuple[DeviceView, bool]:
        """Return the view of a node, and whether all verdicts that it needs are known."""
        given = frozenset(name for name in self.extended if node.has_by_itself(name))
        build = _Building(dict(node.counters))
        work.done += len(node.devices) * self._looks
        for device in node.devices:
            self._see(device, build)
        start = State(build.taken, tuple(build.left))
        if len(self._views) >= MOST_VIEWS:
            self._views.clear()
        made = tuple(build.parts), start, build.failing, build.unfit, build.blocked, given
        return self._views.setdefault(made, DeviceView(*made)), build.certain

    def _see(self, device: NodeDevice, build: _Building) -> None:
        serves = 0
        shares: list[Amounts] = []
        for bit, (kind, wanted) in enumerate(self._kinds):
            had = device.held and not device.shareable and not kind.admin
            shares.append(())
            found = selects(kind.selectors, device)
            build.certain = build.certain and found is not None
            if found is not True:
                if found is not False and not (had and kind.count):
                    build.failing |= 1 << bit
                continue
            if any(not device.has(name, value) for name, value in kind.requires):
                build.unfit |= 1 << bit
            share: Mapping[str, int] | None = {}
            if wanted or device.shareable:
                share = device.share(wanted)
            if share is None:
                continue
            if had or device.problem or untolerated(device.taints, kind.tolerations) is not None:
                build.blocked |= 1 << bit
                continue
            serves |= 1 << bit
            if device.shareable:
                shares[bit] = build.amounts(device.id, share)
        if device.held:
            build.consume(device)
        if not serves:
            return
        if device.shareable:
            build.limit(device)
            build.taken |= device.held << len(build.parts)
        values = tuple(build.value(name, device.attributes.get(name)) for name in self.attributes)
        consumes = build.counters(device.consumes)
        build.parts.append(DevicePart(serves, values, consumes, tuple(shares) if device.shareable else None))


class _Building:
    """A view under construction; ``left`` are the free amounts of counters and of capacity."""

    def __init__(self, counters: dict[CounterId, int]) -> None:
        self.parts: list[DevicePart] = []
        self.left: list[int] = []
        self.taken = self.failing = self.unfit = self.blocked = 0
        self.certain = True
        self._counters = counters
        self._places: dict[object, int] = {}
        self._values: dict[object, int] = {}

    def value(self, name: str, one: Attribute | None) -> Value:
        """Return the number of this value of the attribute. Values of different types aren't equal."""
        return None if one is None else self._values.setdefault((name, type(one), one), len(self._values))

    def counters(self, consumed: Mapping[CounterId, int]) -> Amounts:
        """Return the consumed amounts of counters by position; a counter that doesn't exist has nothing left."""
        return tuple(
            (self._place(one, self._counters.get(one, 0)), amount) for one, amount in consumed.items()
        )

    def consume(self, device: NodeDevice) -> None:
        """Subtract the amounts of counters that a device in use consumes."""
        for place, amount in self.counters(device.consumes):
            self.left[place] -= amount

    def amounts(self, device: object, share: Mapping[str, int]) -> Amounts:
        """Return a share of a device's capacity by position."""
        return tuple((self._place((device, name), 0), amount) for name, amount in share.items())

    def limit(self, device: NodeDevice) -> None:
        """Record the remaining capacity of a device that several claims may have."""
        for name, one in device.capacity.items():
            self.left[self._place((device.id, name), 0)] = one.value - device.used.get(name, 0)

    def _place(self, key: object, amount: int) -> int:
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = len(self.left)
            self.left.append(amount)
        return place


@lru_cache(maxsize=MOST_LENSES)
def lens(sets: tuple[Claims, ...]) -> Lens:
    """Return the lens for these sets of claims."""
    return Lens(sets)


class DeviceAllocator:
    """Serves pods on a view. All of its searches together examine at most ``most`` states."""

    def __init__(self, lens: Lens, view: DeviceView, most: int) -> None:
        self._lens = lens
        self._view = view
        self._most = most
        self._compared = 0
        self._begun = view.start

    def after(self, state: State, claims: Claims) -> State | None:
        """Return what is left once a pod has its devices, None if it can't get them.

        Raises `Spent` once the searches have looked at too many states.
        """
        self._begun = state
        try:
            found = self._claim(claims, 0, state)
        except _GivenUp:
            return None
        return found and found.settled

    def _claim(self, claims: Claims, at: int, state: State) -> State | None:
        """Serve the claims from ``at`` on."""
        while at < len(claims) and (
            claims[at].extended in self._view.given
            or (claims[at].shared and claims[at].shared in state.shared)
        ):
            at += 1
        if at == len(claims):
            return state
        constraints = tuple((one, self._lens.attributes[one.attribute]) for one in claims[at].constraints)
        begun = replace(state, mine=0)
        return _Serving(self, claims, at, constraints).request(0, begun, (frozenset(),) * len(constraints), 0)

    def done(self, claims: Claims, at: int, state: State) -> State | None:
        """Serve the claims after the one at ``at``, which has its devices."""
        if claims[at].shared:
            state = replace(state, shared=state.shared | {claims[at].shared})
        return self._claim(claims, at + 1, state)

    def spend(self) -> None:
        """Count one more state. Raises `Spent` if there were too many."""
        work.done += 1
        self._most -= 1
        if self._most < 0:
            raise Spent

    def compare(self) -> None:
        """Count one more device that is compared with the constraints of a claim; several count as one state."""
        self._compared += 1
        if self._compared % COMPARED_PER_STATE == 0:
            self.spend()

    @property
    def parts(self) -> tuple[DevicePart, ...]:
        """The devices."""
        return self._view.parts

    def bit(self, choice: Choice) -> int:
        """Return the position of a choice among the bits."""
        return self._lens.bits[choice]

    def all_of(self, bit: int) -> list[int]:
        """Return the devices that a request for all has to take, none if one of them can't be allocated.

        Devices that several claims may have count only if enough of them was left before the pod was served.
        """
        if self._view.blocked >> bit & 1:
            return []
        left = self._begun.left
        return [
            at
            for at, part in enumerate(self.parts)
            if part.serves >> bit & 1
            and (part.shares is None or all(left[place] >= amount for place, amount in part.shares[bit]))
        ]

    def without(self, at: int, choice: Choice, state: State) -> State | None:
        """Return what is left once a device is taken for a choice, None if that is impossible.

        A request with admin access gets devices that others have, but none of them twice for one claim.
        """
        part, mark = self.parts[at], 1 << at
        if part.shares is None:
            if mark & (state.mine if choice.admin else state.taken | state.lent):
                return None
            consumed = part.consumes
        else:
            share = part.shares[self.bit(choice)]
            consumed = share if state.taken & mark else (*part.consumes, *share)
        left = list(state.left)
        for place, amount in consumed:
            left[place] -= amount
            if left[place] < 0:
                return None
        mine, amounts = state.mine | mark, tuple(left) if consumed else state.left
        if choice.admin:
            owed = (*state.owed, *consumed)
            return State(state.taken, amounts, state.shared, mine, state.lent | mark, owed)
        return State(state.taken | mark, amounts, state.shared, mine, state.lent, state.owed)


Bound = tuple[frozenset[tuple[str, Value]], ...]
"""For each constraint of a claim: the requests served so far, with the value that their devices have.

If the values have to be distinct, only the last device of each request counts, as for kube-scheduler's allocator.
"""


class _Serving:
    """The search for the devices of one claim, and then of those after it."""

    def __init__(
        self,
        allocator: DeviceAllocator,
        claims: Claims,
        at: int,
        constraints: Sequence[tuple[AttributeConstraint, int]],
    ) -> None:
        self._allocator = allocator
        self._claims = claims
        self._at = at
        self._constraints = constraints

    def request(self, number: int, state: State, bound: Bound, taken: int) -> State | None:
        """Serve the requests from ``number`` on; the first choice with which all else is served counts."""
        requests = self._claims[self._at].requests
        if number == len(requests):
            return self._allocator.done(self._claims, self._at, state)
        for choice in requests[number].choices:
            bit = self._allocator.bit(choice)
            every = None if choice.count else self._allocator.all_of(bit)
            count = choice.count if every is None else len(every)
            if count and taken + count <= MOST_DEVICES:
                found = self._take(number, choice, bit, every, count, 0, state, bound, taken)
                if found is not None:
                    return found
        return None

    def _take(
        self,
        number: int,
        choice: Choice,
        bit: int,
        every: Sequence[int] | None,
        left: int,
        start: int,
        state: State,
        bound: Bound,
        taken: int,
    ) -> State | None:
        """Take ``left`` more devices for a choice, and serve all that follows.

        A request for all takes the devices ``every``. Other requests take the first devices from ``start`` on with
        which all that follows is served. ``taken`` counts the devices that the claim has.
        """
        self._allocator.spend()
        if not left:
            return self.request(number + 1, state, bound, taken)
        parts = self._allocator.parts
        failed: set[tuple[DevicePart, int]] = set()
        among = range(start, len(parts)) if every is None else every[len(every) - left :][:1]
        for at in among:
            part = parts[at]
            kind = part, state.taken >> at & 1
            if not part.serves >> bit & 1 or kind in failed:
                continue
            after = self._allocator.without(at, choice, state)
            agreed = None if after is None else self._agreed(number, choice, part, bound)
            if after is not None and agreed is None and every is not None:
                raise _GivenUp
            if after is not None and agreed is not None:
                found = self._take(number, choice, bit, every, left - 1, at + 1, after, agreed, taken + 1)
                if found is not None:
                    return found
                # A device like this one would fail as well.
                failed.add(kind)
        return None

    def _agreed(self, number: int, choice: Choice, part: DevicePart, bound: Bound) -> Bound | None:
        """Return the values that are bound once this device is taken, None if a constraint doesn't hold then."""
        if not self._constraints:
            return bound
        self._allocator.compare()
        request = self._claims[self._at].requests[number].name
        agreed = list(bound)
        for at, (constraint, place) in enumerate(self._constraints):
            if not constraint.covers(request, choice.name):
                continue
            value = part.values[place]
            values = {one for _, one in bound[at]}
            if value is None or (values and (value in values) == constraint.distinct):
                return None
            others = {one for one in bound[at] if one[0] != request} if constraint.distinct else set()
            agreed[at] = frozenset({*others, (request, value)})
        return tuple(agreed)


def choices(claims: Claims) -> Iterator[Choice]:
    """Yield all choices of all requests."""
    return (choice for claim in claims for request in claim.requests for choice in request.choices)


def kinds_of(claims: Claims) -> Iterator[tuple[tuple[str, ...], tuple[tuple[str, str], ...]]]:
    """Yield the selectors and the required attributes of all choices, equal ones once."""
    return iter(dict.fromkeys((one.selectors, one.requires) for one in choices(claims)))


def selectors_of(claims: Claims) -> tuple[str, ...]:
    """Return the selectors of all choices, each once."""
    return tuple(dict.fromkeys(text for one in choices(claims) for text in one.selectors))


@lru_cache(maxsize=MOST_VIEWS)
def excess(claims: Claims) -> str:
    """Return the problem of a pod with too many choices in its claims, "" for most pods."""
    found = set(choices(claims))
    ways = len(found) + len(selectors_of(claims))
    text = f"its claims have {ways} different choices and selectors; at most {MOST_WAYS} are planned"
    return text if ways > MOST_WAYS else ""
