"""Devices that several nodes can use: the network, which is counted as a node of its own.

What a pod claims is divided: what only devices of its node can serve is asked of the node, what only devices of the
network can serve is asked of the network, with what its node reaches there. Neither depends on the other then. Where a
request, a constraint or a limit concerns both, the node's own devices are looked at together with the network's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from fluence_extender.devices.allocator import View, choices, lens
from fluence_extender.devices.hosting import NOBODY, Unserved, counted, unserved
from fluence_extender.devices.pools import in_order
from fluence_extender.model.claims import Claims, ClaimSpec, DeviceRequest
from fluence_extender.model.devices import Reach, only
from fluence_extender.model.node import Node

REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class Division:
    """What is asked of the node and of the network; if ``joined``, all of it is asked of both together."""

    own: Claims
    network: Claims
    joined: bool = False


@dataclass(frozen=True, slots=True)
class NetworkRequest:
    """What pods of a node ask of the node and of the network. If ``joined``, the network has the node's devices too."""

    own: Unserved
    network: Unserved = NOBODY
    joined: bool = False


def asked_of(network: Node, node: Node, waiting: Unserved, join: bool = False) -> NetworkRequest:
    """Return what pods that wait on a node ask of it and of the network.

    Pods that ask something of both have to be served by the network in every order, so that each order suits the node.
    """
    if not node.reach and not join:
        return NetworkRequest(waiting)
    parts = {claims: divided(node, network, claims) for claims in waiting.kinds}
    join = join or any(one.joined for one in parts.values())
    if not join and not any(one.network for one in parts.values()):
        return NetworkRequest(waiting)
    own: Counter[tuple[bool, Claims]] = Counter()
    there: Counter[tuple[bool, Claims]] = Counter()
    for (ungated, claims), count in counted(waiting).items():
        part = Division((), whole_of(node, claims)) if join else parts[claims]
        if part.own:
            own[ungated, part.own] += count
        if part.network:
            there[ungated or bool(part.own), part.network] += count
    return NetworkRequest(unserved(own), unserved(there), join)


def divided(node: Node, network: Node, claims: Claims) -> Division:
    """Divide what a pod on ``node`` claims."""
    if not node.reach or not claims:
        return Division(claims, ())
    asked = _asked(claims, node.reach)
    return _divided(lens((claims,)).view(node), lens((asked,)).view(network), claims, node.reach)


def whole_of(node: Node, claims: Claims) -> Claims:
    """Return what a pod claims of a node and of the network together; see `joined`."""
    made = tuple(one for one in claims if not node.has_by_itself(one.extended))
    return _asked(made, node.reach | {only(node.name)})


def concerns(network: Node, claims: Claims) -> bool:
    """Return whether the claims ask for any device of the network."""
    reach = frozenset(one.reach for one in network.devices if one.reach is not None)
    return bool(reach) and lens((_asked(claims, reach),)).view(network).met > 0


def joined(network: Node, nodes: Iterable[Node]) -> Node:
    """Return the network with the devices of some nodes in it, each of which only its node reaches."""
    devices, counters = list(network.devices), dict(network.counters)
    for node in nodes:
        devices += [replace(one, reach=only(node.name)) for one in node.devices]
        counters |= node.counters
    return Node("", devices=tuple(in_order(devices)), counters=counters)


@lru_cache(maxsize=REMEMBERED)
def _asked(claims: Claims, reach: frozenset[Reach]) -> Claims:
    return tuple(
        replace(
            claim,
            requests=tuple(
                replace(one, choices=tuple(replace(choice, reach=reach) for choice in one.choices))
                for one in claim.requests
            ),
        )
        for claim in claims
    )


@lru_cache(maxsize=REMEMBERED)
def _divided(here: View, there: View, claims: Claims, reach: frozenset[Reach]) -> Division:
    own, network = [], []
    for claim in claims:
        asked = _asked((claim,), reach)[0]
        if claim.problem or claim.extended in here.given:
            asked = replace(asked, requests=())
        near = {one.name for one in claim.requests if _meets(here, claims, one)}
        far = {one.name for one in asked.requests if _meets(there, _asked(claims, reach), one)}
        if near & far or (far and _tied(claim, far)):
            return Division((), (), joined=True)
        if far:
            network.append(_part(asked, far))
        if len(far) < len(claim.requests) or not claim.requests:
            own.append(_part(claim, {one.name for one in claim.requests} - far))
    return Division(tuple(own), tuple(network))


def _meets(view: View, claims: Claims, request: DeviceRequest) -> bool:
    """Return whether a request concerns some device of the view that these claims have."""
    bits = lens((claims,)).bits
    return any(view.met >> bits[choice] & 1 for choice in request.choices)


def _tied(claim: ClaimSpec, some: set[str]) -> bool:
    """Return whether the requests ``some`` depend on the others of the claim."""
    others = [one for one in claim.requests if one.name not in some]
    if not others:
        return False
    if any(not choice.count for choice in choices((claim,))):
        return True
    return any(
        {one.name in some for one in claim.requests if _covers(claim, one, at)} == {True, False}
        for at in range(len(claim.constraints))
    )


def _covers(claim: ClaimSpec, request: DeviceRequest, at: int) -> bool:
    return any(claim.constraints[at].covers(request.name, choice.name) for choice in request.choices)


def _part(claim: ClaimSpec, some: set[str]) -> ClaimSpec:
    """Return the claim with some of its requests and their constraints."""
    requests = tuple(one for one in claim.requests if one.name in some)
    constraints = tuple(
        one
        for at, one in enumerate(claim.constraints)
        if any(_covers(claim, request, at) for request in requests)
    )
    return replace(claim, requests=requests, constraints=constraints)
