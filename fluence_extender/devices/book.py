"""What the cluster has of devices and claims, joined with its nodes and pods.

A node gets the devices of its ResourceSlices, and in its allocatable the number of them in each class. A pod gets in
its requests the devices that it claims by class, in its affinity where its allocated claims can be used, and as
``claims`` what is still to be allocated. All that counts amounts thereby counts devices, by the name of their class's
resource. Which devices of a class a selector means is decided by `hosting`, beside the counts.

Each ``put`` and ``drop`` returns what it touches; the caller then takes these nodes and pods in again, through `node`
and `pod`. Without any of these objects nodes and pods stay as they are.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from fluence_extender.devices.selectors import selects
from fluence_extender.model.claims import Choice, ClaimSpec
from fluence_extender.model.devices import (
    DeviceClass,
    DeviceId,
    DeviceObject,
    NodeDevice,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from fluence_extender.model.node import Node
from fluence_extender.model.pod import NodeTerm, Pod
from fluence_extender.model.resources import NOTHING, Resources

Key = TypeVar("Key")
Member = TypeVar("Member")

MOST_TERMS = 64
"""A pod whose affinity has more terms than this once its claims' nodes are in it isn't planned."""


@dataclass(slots=True)
class Touched:
    """Nodes by name and pods by uid that have to be taken in again."""

    nodes: set[str] = field(default_factory=set)
    pods: set[str] = field(default_factory=set)


class DeviceBook:
    """Slices, classes, claims and templates, and the nodes and pods that they are joined with."""

    def __init__(self) -> None:
        self._slices: dict[str, ResourceSlice] = {}
        self._classes: dict[str, DeviceClass] = {}
        self._claims: dict[tuple[str, str], ResourceClaim] = {}
        self._templates: dict[tuple[str, str], ResourceClaimTemplate] = {}
        self._slices_of: defaultdict[str, set[str]] = defaultdict(set)
        self._slices_in: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        self._held: dict[DeviceId, dict[str, str]] = {}
        self._claims_on: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
        self._users: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        self._users_of_template: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        self._nodes: dict[str, Node] = {}
        self._pods: dict[str, Pod] = {}

    # Nodes and pods.

    def node(self, node: Node) -> Node:
        """Record a node as the cluster has it, and return it with its devices."""
        self._nodes[node.name] = node
        return self.node_now(node.name) or node

    def node_now(self, name: str) -> Node | None:
        """Return a recorded node with its present devices."""
        node = self._nodes.get(name)
        if node is None or not (self._slices_of.get(name) or self._claims_on.get(name)):
            return node
        devices = tuple(self._devices(name))
        return replace(node, devices=devices, allocatable=node.allocatable + self._amounts(node, devices))

    def drop_node(self, name: str) -> None:
        """Forget a node."""
        self._nodes.pop(name, None)

    def pod(self, pod: Pod) -> Pod:
        """Record a pod as the cluster has it, and return it with what it claims."""
        self.drop_pod(pod.uid)
        if not pod.claim_refs:
            return pod
        self._pods[pod.uid] = pod
        for ref in pod.claim_refs:
            if ref.claim:
                self._users[pod.namespace, ref.claim].add(pod.uid)
            if ref.template:
                self._users_of_template[pod.namespace, ref.template].add(pod.uid)
        return self._claiming(pod)

    def pod_now(self, uid: str) -> Pod | None:
        """Return a recorded pod with what it claims now; only pods that name claims are recorded."""
        pod = self._pods.get(uid)
        return None if pod is None else self._claiming(pod)

    def drop_pod(self, uid: str) -> None:
        """Forget a pod."""
        pod = self._pods.pop(uid, None)
        for ref in pod.claim_refs if pod is not None else ():
            assert pod is not None
            _discard(self._users, (pod.namespace, ref.claim), uid)
            _discard(self._users_of_template, (pod.namespace, ref.template), uid)

    # Slices, classes, claims, templates.

    def replace_all(self, kind: type[DeviceObject], things: Iterable[DeviceObject]) -> Touched:
        """Take over a list, which is the whole truth for its kind."""
        listed = {_name(thing): thing for thing in things}
        known: Mapping[object, DeviceObject] = self._of_kind(kind)
        touched = Touched()
        for thing in [one for name, one in known.items() if name not in listed]:
            _add(touched, self.drop(thing))
        for thing in listed.values():
            _add(touched, self.put(thing))
        return touched

    def put(self, thing: DeviceObject) -> Touched:
        """Record an object that is new or has changed."""
        if self._of_kind(type(thing)).get(_name(thing)) == thing:
            return Touched()
        return self._change(_name(thing), thing, type(thing))

    def drop(self, thing: DeviceObject) -> Touched:
        """Forget an object."""
        return self._change(_name(thing), None, type(thing))

    def _of_kind(self, kind: type[DeviceObject]) -> Mapping[object, DeviceObject]:
        known: Mapping[type, Mapping[object, DeviceObject]] = {
            ResourceSlice: self._slices,  # type: ignore[dict-item]
            DeviceClass: self._classes,  # type: ignore[dict-item]
            ResourceClaim: self._claims,  # type: ignore[dict-item]
            ResourceClaimTemplate: self._templates,  # type: ignore[dict-item]
        }
        return known[kind]

    def _change(self, name: object, thing: DeviceObject | None, kind: type[DeviceObject]) -> Touched:
        known = self._of_kind(kind)
        assert isinstance(known, dict)
        old = known.pop(name, None)
        if thing is not None:
            known[name] = thing
        if kind is ResourceSlice:
            return self._slice_changed(old, thing)  # type: ignore[arg-type]
        if kind is ResourceClaim:
            return self._claim_changed(old, thing)  # type: ignore[arg-type]
        if kind is ResourceClaimTemplate:
            return Touched(pods=set(self._users_of_template.get(name, ())))  # type: ignore[call-overload]
        return Touched({name for name in self._nodes if self._slices_of.get(name)}, set(self._pods))

    def _slice_changed(self, old: ResourceSlice | None, new: ResourceSlice | None) -> Touched:
        touched = Touched()
        for one in (old, new):
            if one is None:
                continue
            pool = one.driver, one.pool
            if one is old:
                _discard(self._slices_of, one.node, one.name)
                _discard(self._slices_in, pool, one.name)
            else:
                self._slices_of[one.node].add(one.name)
                self._slices_in[pool].add(one.name)
            touched.nodes |= {one.node, *(self._slices[name].node for name in self._slices_in.get(pool, ()))}
        return touched

    def _claim_changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> Touched:
        touched = Touched()
        for one in (old, new):
            if one is None:
                continue
            key = one.namespace, one.name
            touched.pods.update(self._users.get(key, ()))
            for allocated in one.devices or ():
                holders = self._held.setdefault(allocated.device, {})
                if one is old:
                    holders.pop(one.uid, None)
                else:
                    holders[one.uid] = self._class_of(one.spec, allocated.request)
                if not holders:
                    del self._held[allocated.device]
            if one.node:
                touched.nodes.add(one.node)
                if one is old:
                    _discard(self._claims_on, one.node, key)
                else:
                    self._claims_on[one.node].add(key)
        return touched

    # What a node has.

    def _devices(self, node: str) -> Iterator[NodeDevice]:
        """Yield the devices of a node's complete pools, in the order of slices and devices."""
        for name in sorted(self._slices_of.get(node, ())):
            one = self._slices[name]
            problem = self._pool_problem(one)
            if problem is None:
                continue
            for device in one.devices:
                held = device.id in self._held
                if held or problem:
                    yield replace(device, held=held, problem=device.problem or problem)
                else:
                    yield device

    def _pool_problem(self, one: ResourceSlice) -> str | None:
        """Return why a pool can't be used, "" where it can; None for a slice that is out of date."""
        pool = [self._slices[name] for name in self._slices_in[one.driver, one.pool]]
        newest = max(other.generation for other in pool)
        if one.generation < newest:
            return None
        pool = [other for other in pool if other.generation == newest]
        if len(pool) != one.slices:
            return f"pool {one.pool} of {one.driver} is incomplete"
        names = Counter(device.name for other in pool for device in other.devices)
        twice = next((name for name, count in names.items() if count > 1), None)
        return "" if twice is None else f"pool {one.pool} of {one.driver} has device {twice} twice"

    def _amounts(self, node: Node, devices: Iterable[NodeDevice]) -> Resources:
        """Return how many devices of each class a node has.

        A device that is allocated counts in the class by which it was claimed, even if it has gone or has changed.
        """
        counts: Counter[str] = Counter()
        held = self._held_on(node.name)
        present: set[DeviceId] = set()
        for device in devices:
            if device.problem and not device.held:
                continue
            present.add(device.id)
            classes = held.get(device.id, set())
            for one in self._classes.values():
                if one.name in classes or selects(one.selectors, device) is True:
                    counts[one.resource] += 1
        for device_id, classes in held.items():
            if device_id not in present:
                counts.update(self._resource(name) for name in classes)
        plugged = node.allocatable
        return Resources({name: count for name, count in counts.items() if name not in plugged})

    def _held_on(self, node: str) -> dict[DeviceId, set[str]]:
        held: defaultdict[DeviceId, set[str]] = defaultdict(set)
        for key in self._claims_on.get(node, ()):
            claim = self._claims[key]
            for one in claim.devices or ():
                held[one.device].add(self._class_of(claim.spec, one.request))
        return held

    @staticmethod
    def _class_of(spec: ClaimSpec, request: str) -> str:
        """Return the class of a request, given as in an allocation."""
        name, _, sub = request.partition("/")
        for one in spec.requests:
            for choice in one.choices if one.name == name else ():
                if choice.name == sub:
                    return choice.device_class
        return ""

    def _resource(self, class_name: str) -> str:
        known = self._classes.get(class_name)
        return (known or DeviceClass(class_name)).resource

    # What a pod claims.

    def _claiming(self, pod: Pod) -> Pod:
        amounts, waiting, problem, affinity = NOTHING, [], "", pod.affinity
        for ref in pod.claim_refs:
            claim = self._claim_of(pod, ref.claim, ref.template)
            if isinstance(claim, str):
                problem = problem or claim
                continue
            if self._counts_for(pod, claim):
                amounts += self._claimed(claim)
            if claim.devices is None:
                waiting.append(self._resolved(claim.spec))
                problem = problem or self._shared(claim)
            elif claim.nodes is not None:
                affinity = claim.nodes if affinity is None else _both(affinity, claim.nodes)
        if affinity is not None and len(affinity) > MOST_TERMS:
            affinity, problem = (
                pod.affinity,
                "its claims and its affinity allow too many combinations of nodes",
            )
        return replace(
            pod,
            requests=pod.requests + amounts,
            affinity=affinity,
            claims=tuple(waiting),
            problem=pod.problem or problem,
        )

    def _claim_of(self, pod: Pod, name: str, template: str) -> ResourceClaim | str:
        """Return the claim that a pod names, or the one that will be made for it; or why there is none."""
        if name:
            known = self._claims.get((pod.namespace, name))
            if known is not None:
                return known
            if not template:
                return f"resource claim {pod.namespace}/{name} doesn't exist"
        made = self._templates.get((pod.namespace, template))
        if made is None:
            return f"resource claim template {pod.namespace}/{template} doesn't exist"
        return ResourceClaim(pod.namespace, "", "", made.spec)

    def _counts_for(self, pod: Pod, claim: ResourceClaim) -> bool:
        """Return whether the claim's devices count as requests of this pod: each claim counts for one of its pods."""
        users = self._users.get((claim.namespace, claim.name))
        return not claim.name or not users or min(users) == pod.uid

    def _shared(self, claim: ResourceClaim) -> str:
        users = self._users.get((claim.namespace, claim.name), set()) if claim.name else set()
        if len(users) < 2:
            return ""
        return (
            f"resource claim {claim.namespace}/{claim.name} is shared by several pods and isn't allocated yet"
        )

    def _claimed(self, claim: ResourceClaim) -> Resources:
        """Return how many devices of each class a claim has, or asks for in any case."""
        counts: Counter[str] = Counter()
        if claim.devices is not None:
            counts.update(self._resource(self._class_of(claim.spec, one.request)) for one in claim.devices)
            return Resources(counts)
        for request in claim.spec.requests:
            if len(request.choices) == 1:
                counts[self._resource(request.choices[0].device_class)] += request.choices[0].count
        return Resources(counts)

    def _resolved(self, spec: ClaimSpec) -> ClaimSpec:
        """Return the claim with the selectors of its classes."""
        missing: list[str] = []

        def full(choice: Choice) -> Choice:
            known = self._classes.get(choice.device_class)
            if known is None:
                missing.append(choice.device_class)
                return choice
            return replace(choice, selectors=(*known.selectors, *choice.selectors))

        requests = tuple(
            replace(one, choices=tuple(full(choice) for choice in one.choices)) for one in spec.requests
        )
        problem = f"device class {missing[0]} doesn't exist" if missing else ""
        return replace(spec, requests=requests, problem=spec.problem or problem)


def _name(thing: DeviceObject) -> object:
    if isinstance(thing, ResourceClaim | ResourceClaimTemplate):
        return thing.namespace, thing.name
    return thing.name


def _add(touched: Touched, more: Touched) -> None:
    touched.nodes |= more.nodes
    touched.pods |= more.pods


def _discard(index: MutableMapping[Key, set[Member]], key: Key, member: Member) -> None:
    """Take a member out of the set under ``key``, and the key out of the index once its set is empty."""
    members = index.get(key)
    if members is not None:
        members.discard(member)
        if not members:
            del index[key]


def _both(some: tuple[NodeTerm, ...], others: tuple[NodeTerm, ...]) -> tuple[NodeTerm, ...]:
    """Return the terms of which one holds where a term of ``some`` and one of ``others`` hold."""
    return tuple(
        NodeTerm(one.expressions + other.expressions, one.fields + other.fields)
        for one in some
        for other in others
    )
