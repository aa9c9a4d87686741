"""Devices that several nodes can use: the network, which is counted as a node of its own.

A pod's claims are divided. The node has to serve the requests that only its own devices can serve. The network has to
serve those that only its devices can serve, limited to what the node reaches. The two answers don't depend on each
other. If a request, a constraint or a limit concerns both, the node's devices are joined to the network, and both have
to serve all requests together.
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
"""The most answers of each kind that are cached."""


@dataclass(frozen=True, slots=True)
class Division:
    """The parts of a pod's claims for its node and for the network.

    If ``joined``, the claims can't be divided, and node and network have to serve all of them together.
    """

    own: Claims
    network: Claims
    joined: bool = False


@dataclass(frozen=True, slots=True)
class NetworkRequest:
    """The pods of a node with what they ask of the node, and with what they ask of the network.

    If ``joined``, the network also has the node's devices and has to serve everything.
    """

    own: Unserved
    network: Unserved = NOBODY
    joined: bool = False


def divide_pods(network: Node, node: Node, waiting: Unserved, join: bool = False) -> NetworkRequest:
    """Divide the pods that wait on a node by what they ask of it and of the network.

    If ``join`` is set, both have to serve everything together. Pods that need both have to be served by the network in
    every order, so that the node may serve them in any order.
    """
    if not node.reach and not join:
        return NetworkRequest(waiting)
    parts = {claims: divide_claims(node, network, claims) for claims in waiting.kinds}
    join = join or any(one.joined for one in parts.values())
    if not join and not any(one.network for one in parts.values()):
        return NetworkRequest(waiting)
    own: Counter[tuple[bool, Claims]] = Counter()
    shared: Counter[tuple[bool, Claims]] = Counter()
    for (ungated, claims), count in counted(waiting).items():
        part = Division((), undivided(node, claims)) if join else parts[claims]
        if part.own:
            own[ungated, part.own] += count
        if part.network:
            shared[ungated or bool(part.own), part.network] += count
    return NetworkRequest(unserved(own), unserved(shared), join)


def divide_claims(node: Node, network: Node, claims: Claims) -> Division:
    """Divide the claims of a pod on ``node``."""
    if not node.reach or not claims:
        return Division(claims, ())
    on_network = _with_reach(claims, node.reach)
    return _divide(lens((claims,)).view(node), lens((on_network,)).view(network), claims, node.reach)


def undivided(node: Node, claims: Claims) -> Claims:
    """Return the claims of a pod for a node and the network together; see `join_nodes`."""
    made = tuple(one for one in claims if not node.has_by_itself(one.extended))
    return _with_reach(made, node.reach | {only(node.name)})


def concerns(network: Node, claims: Claims) -> bool:
    """Return whether the claims request any device of the network."""
    reach = frozenset(one.reach for one in network.devices if one.reach is not None)
    return bool(reach) and lens((_with_reach(claims, reach),)).view(network).concerned > 0


def join_nodes(network: Node, nodes: Iterable[Node]) -> Node:
    """Return the network together with the devices of some nodes; only its own node reaches each of those."""
    devices, counters = list(network.devices), dict(network.counters)
    for node in nodes:
        devices += [replace(one, reach=only(node.name)) for one in node.devices]
        counters |= node.counters
    return Node("", devices=tuple(in_order(devices)), counters=counters)


@lru_cache(maxsize=REMEMBERED)
def _with_reach(claims: Claims, reach: frozenset[Reach]) -> Claims:
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
def _divide(node: View, shared: View, claims: Claims, reach: frozenset[Reach]) -> Division:
    own, network = [], []
    for claim in claims:
        shared_claim = _with_reach((claim,), reach)[0]
        if claim.problem or claim.extended in node.given:
            shared_claim = replace(shared_claim, requests=())
        near = {one.name for one in claim.requests if _request_concerns(node, claims, one)}
        far = {
            one.name
            for one in shared_claim.requests
            if _request_concerns(shared, _with_reach(claims, reach), one)
        }
        if near & far or (far and _tied(claim, far)):
            return Division((), (), joined=True)
        if far:
            network.append(_only_requests(shared_claim, far))
        if len(far) < len(claim.requests) or not claim.requests:
            own.append(_only_requests(claim, {one.name for one in claim.requests} - far))
    return Division(tuple(own), tuple(network))


def _request_concerns(view: View, claims: Claims, request: DeviceRequest) -> bool:
    """Return whether a request of the claims concerns some device of the view."""
    bits = lens((claims,)).bits
    return any(view.concerned >> bits[choice] & 1 for choice in request.choices)


def _tied(claim: ClaimSpec, some: set[str]) -> bool:
    """Return whether a limit or a constraint ties the requests ``some`` to the others of the claim."""
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


def _only_requests(claim: ClaimSpec, some: set[str]) -> ClaimSpec:
    """Return the claim with only the requests ``some`` and their constraints."""
    requests = tuple(one for one in claim.requests if one.name in some)
    constraints = tuple(
        one
        for at, one in enumerate(claim.constraints)
        if any(_covers(claim, request, at) for request in requests)
    )
    return replace(claim, requests=requests, constraints=constraints)
