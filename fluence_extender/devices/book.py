"""The cluster's devices and claims, joined with its nodes and pods.

A node gets the devices of its ResourceSlices, and its allocatable gets the number of devices in each class. Devices
that several nodes share count on none of them, and a pod that could get one of them isn't planned.

A pod's requests get the number of devices that it claims of each class, its affinity gets the nodes where its allocated
claims can be used, and its ``claims`` are those that are still to be allocated. So all code that counts amounts counts
devices too, by the resource name of their class. In addition to the counts, `hosting` decides which devices a selector
selects.

Each ``put`` and ``drop`` returns the nodes and pods that it touches. The caller takes them in again, through `node_now`
and `pod_now`. Without any of these objects nodes and pods stay unchanged.
"""

from __future__ import annotations

from collections import ChainMap, Counter, defaultdict
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from heapq import nsmallest

from fluence_extender.devices.allocator import excess, selectors_of
from fluence_extender.devices.classes import Classes
from fluence_extender.devices.judge import ADMINISTRATORS, UNDER_WAY, Judge
from fluence_extender.devices.pools import Pools
from fluence_extender.devices.selectors import numbered, selects
from fluence_extender.model.claims import Claims, ClaimSpec
from fluence_extender.model.devices import DeviceId, Holder, NodeDevice
from fluence_extender.model.multimap import Multimap
from fluence_extender.model.names import RESOURCE_PREFIX
from fluence_extender.model.node import Node
from fluence_extender.model.pod import NodeTerm, Pod
from fluence_extender.model.resources import Resources
from fluence_extender.objects.devices import (
    DeviceClass,
    DeviceObject,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)

MOST_TERMS = 64
"""The most terms that a pod's affinity may have together with its claims' nodes; a pod with more isn't planned."""

MOST_PODS = 256
"""The most pods that can use one claim (resource.k8s.io/v1, ResourceClaimReservedForMaxSize)."""

MOST_SHARES = 128
"""A device that several claims may have counts as this many devices; `hosting` checks what is left of it."""

UNSERVED = (
    f"kube-scheduler 1.36 refuses pods that request {RESOURCE_PREFIX} resources and an extended resource of a device "
    "class; name a resource claim instead of the extended resource"
)
"""Why such pods wait: kube-scheduler's plugin for devices then looks on the node for every extended resource, also
for those that its configuration tells it to ignore."""

ClaimKey = tuple[str, str]
"""Namespace and name."""


@dataclass(slots=True)
class Touched:
    """Nodes by name and pods by uid that have to be taken in again.

    ``counts`` says that missing verdicts have arrived, so what nodes host has to be counted again.
    """

    nodes: set[str] = field(default_factory=set)
    pods: set[str] = field(default_factory=set)
    counts: bool = False


class DeviceBook:
    """Slices, classes, claims and templates, and the nodes and pods that they are joined with.

    ``judge`` has selectors evaluated. If the devices of a node change, the node is touched once their classes are
    known. A pod waits until it is known which devices it may have.
    """

    def __init__(self, judge: Judge) -> None:
        self.judge = judge
        self._uncounted: set[str] = set()
        self._unclassed: set[str] = set()
        self._pools = Pools()
        self._classes = Classes()
        self._claims: MutableMapping[ClaimKey, ResourceClaim] = {}
        self._templates: MutableMapping[ClaimKey, ResourceClaimTemplate] = {}
        self._held: dict[DeviceId, dict[str, Holder]] = {}
        self._claims_on: Multimap[str, ClaimKey] = Multimap()
        self._extended: dict[tuple[str, str], ClaimKey] = {}
        self._users: Multimap[ClaimKey, str] = Multimap()
        self._users_of_template: Multimap[ClaimKey, str] = Multimap()
        self._nodes: dict[str, Node] = {}
        self._pods: dict[str, Pod] = {}
        self._stale: set[str] = set()

    # Nodes and pods.

    def node(self, node: Node) -> Node:
        """Record a node without devices, and return it with its devices."""
        self._nodes[node.name] = node
        return self.node_now(node.name) or node

    def node_now(self, name: str) -> Node | None:
        """Return a recorded node with its present devices."""
        node = self._nodes.get(name)
        if node is None:
            return None
        if not (self._pools.serves(name) or name in self._claims_on):
            return node
        devices = tuple(self._pools.devices(name, self._held))
        amounts = self._amounts(node, devices)
        return replace(
            node,
            devices=devices,
            allocatable=node.allocatable + amounts,
            by_devices=frozenset(amounts),
            counters=self._pools.counters(name),
        )

    def drop_node(self, name: str) -> None:
        """Forget a node."""
        self._nodes.pop(name, None)

    def pod(self, pod: Pod) -> Pod:
        """Record a pod, and return it with what it claims."""
        old = self._pods.get(pod.uid)
        if old is None or old.claim_refs != pod.claim_refs:
            self.drop_pod(pod.uid)
            for ref in pod.claim_refs:
                if ref.claim:
                    self._users.add((pod.namespace, ref.claim), pod.uid)
                if ref.template:
                    self._users_of_template.add((pod.namespace, ref.template), pod.uid)
            self._note_sharers(pod)
        if not pod.claim_refs and not any("/" in name for name in pod.requests):
            return pod
        self._pods[pod.uid] = pod
        return self._claiming(pod)

    def pod_now(self, uid: str) -> Pod | None:
        """Return a recorded pod with its present claims; only pods that may have claims are recorded."""
        pod = self._pods.get(uid)
        return None if pod is None else self._claiming(pod)

    def drop_pod(self, uid: str) -> None:
        """Forget a pod."""
        pod = self._pods.pop(uid, None)
        if pod is None:
            return
        self.judge.drop(uid)
        self._unclassed.discard(uid)
        self._note_sharers(pod)
        for ref in pod.claim_refs:
            self._users.discard((pod.namespace, ref.claim), uid)
            self._users_of_template.discard((pod.namespace, ref.template), uid)

    def stale(self) -> set[str]:
        """Return the pods, by uid, that have to be taken in again because others with their claims came or went."""
        found, self._stale = self._stale & self._pods.keys(), set()
        return found

    def asking(self, pods: Iterable[Pod], objects: Iterable[DeviceObject] = ()) -> list[Pod]:
        """Return pods that don't exist yet with what they would claim; ``objects`` would be created with them."""
        book = DeviceBook(Judge())
        book._classes = self._classes
        book._claims, book._templates = ChainMap({}, self._claims), ChainMap({}, self._templates)
        for one in objects:
            if isinstance(one, ResourceClaim | ResourceClaimTemplate):
                book.put(one)
        recorded = {pod.uid: book.pod(pod) for pod in pods}
        return [book.pod_now(uid) or pod for uid, pod in recorded.items()]

    def claimed_by(self, uid: str) -> tuple[str, ...]:
        """Return the devices that are allocated to the claims of a pod, each as driver, pool and name."""
        pod = self._pods.get(uid)
        if pod is None:
            return ()
        keys = [(pod.namespace, ref.claim) for ref in pod.claim_refs]
        claims = (
            self._claims.get(key) for key in (*keys, self._extended.get((pod.namespace, uid), ("", "")))
        )
        devices = {one.device for claim in claims if claim is not None for one in claim.devices or ()}
        return tuple(sorted("/".join(one) for one in devices))

    def _note_sharers(self, pod: Pod) -> None:
        """Note the pods that have to be taken in again because this one comes or goes.

        A claim's devices count for the first of its pods, so the first two of them are enough. All are noted if the pod
        names several claims, which join their pods to one group, or if it makes the claim's pods too many.
        """
        named = [(pod.namespace, ref.claim) for ref in pod.claim_refs if ref.claim and not ref.template]
        for key in named:
            others = self._users.of(key) - {pod.uid}
            few = len(named) == 1 and len(others) != MOST_PODS
            self._stale.update(nsmallest(2, others) if few else others)

    # Slices, classes, claims, templates.

    def replace_all(self, kind: type[DeviceObject], objects: Iterable[DeviceObject]) -> Touched:
        """Take over a list of all objects of a kind."""
        listed = {_name(described): described for described in objects}
        known: Mapping[object, DeviceObject] = self._of_kind(kind)
        touched = Touched()
        for gone in [one for name, one in known.items() if name not in listed]:
            _add(touched, self.drop(gone))
        for described in listed.values():
            _add(touched, self.put(described))
        return touched

    def put(self, described: DeviceObject) -> Touched:
        """Record an object that is new or has changed."""
        if self._of_kind(type(described)).get(_name(described)) == described:
            return Touched()
        return self._change(_name(described), described, type(described))

    def drop(self, described: DeviceObject) -> Touched:
        """Forget an object."""
        return self._change(_name(described), None, type(described))

    def _of_kind(self, kind: type[DeviceObject]) -> Mapping[object, DeviceObject]:
        known: Mapping[type, Mapping[object, DeviceObject]] = {
            ResourceSlice: self._pools.slices,  # type: ignore[dict-item]
            DeviceClass: self._classes.by_name,  # type: ignore[dict-item]
            ResourceClaim: self._claims,  # type: ignore[dict-item]
            ResourceClaimTemplate: self._templates,  # type: ignore[dict-item]
        }
        return known[kind]

    def _change(self, name: object, described: DeviceObject | None, kind: type[DeviceObject]) -> Touched:
        known = self._of_kind(kind)
        assert isinstance(known, MutableMapping)
        old = known.pop(name, None)
        if isinstance(described, ResourceSlice):
            described = numbered(described)
        if described is not None:
            known[name] = described
        if kind is ResourceSlice:
            self.judge.look_again()
            return self._once_counted(self._slice_changed(old, described))  # type: ignore[arg-type]
        if kind is ResourceClaim:
            return self._claim_changed(old, described)  # type: ignore[arg-type]
        if kind is ResourceClaimTemplate:
            return Touched(pods=set(self._users_of_template.of(name)))  # type: ignore[arg-type]
        self._classes.changed()
        if isinstance(described, DeviceClass):
            self.judge.want(_asker(described.name), ADMINISTRATORS, described.selectors)
        else:
            self.judge.drop(_asker(str(name)))
        return self._once_counted(Touched(self._pools.nodes() & self._nodes.keys(), set(self._pods)))

    def _once_counted(self, touched: Touched) -> Touched:
        """Return what is touched, but put the nodes off while the classes of some devices aren't known."""
        if touched.nodes and not self._classes.known:
            self._uncounted |= touched.nodes
            touched.nodes = set()
        return touched

    def decided(self) -> Touched:
        """Return what the verdicts that have arrived touch."""
        settled = {asker for asker in self.judge.settled if isinstance(asker, str)}
        touched = Touched(pods=settled, counts=self.judge.wanted_before)
        if (self._uncounted or self._unclassed) and self._classes.known:
            touched.nodes = self._uncounted & self._nodes.keys()
            touched.pods |= self._unclassed
            self._uncounted, self._unclassed = set(), set()
        return touched

    def _slice_changed(self, old: ResourceSlice | None, new: ResourceSlice | None) -> Touched:
        before = set(self._pools.shared)
        touched = Touched(self._pools.changed(old, new) & self._nodes.keys())
        changed = {(one.driver, one.pool) for one in (old, new) if one is not None}
        if changed & (before | self._pools.shared):
            touched.pods |= self._pods.keys()
        return touched

    def _claim_changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> Touched:
        touched = Touched()
        for one in (old, new):
            if one is None:
                continue
            key = one.namespace, one.name
            touched.pods.update(self._users.of(key))
            self._hold(one, one is new, touched)
            if one.extended_for:
                # A claim may name a pod of another namespace as its owner.
                owner, pod = (one.namespace, one.extended_for), self._pods.get(one.extended_for)
                if pod is not None and pod.namespace == one.namespace:
                    touched.pods.add(pod.uid)
                self._extended.pop(owner, None)
                if one is new:
                    self._extended[owner] = key
        return touched

    def _hold(self, claim: ResourceClaim, held: bool, touched: Touched) -> None:
        """Record what a claim has, or that it is no longer ``held``."""
        key = claim.namespace, claim.name
        for device, some in _by_device(claim).items():
            holders = self._held.setdefault(device, {})
            if held:
                holders[claim.uid] = some
            else:
                holders.pop(claim.uid, None)
            if not holders:
                del self._held[device]
            if not claim.node and device[:2] not in self._pools.shared:
                touched.nodes |= self._nodes.keys()
        if claim.node:
            touched.nodes.add(claim.node)
            if held:
                self._claims_on.add(claim.node, key)
            else:
                self._claims_on.discard(claim.node, key)

    # The devices of nodes.

    def _amounts(self, node: Node, devices: Iterable[NodeDevice]) -> Resources:
        """Return how many devices of each class a node has.

        An allocated device counts in the class by which it was claimed, even if it has gone or has changed.
        """
        held = self._held_on(node.name)
        counts = self._counted(devices, held)
        for claimed in held.values():
            counts += claimed
        return Resources({name: count for name, count in counts.items() if node.allocatable[name] <= 0})

    def _counted(
        self, devices: Iterable[NodeDevice], held: MutableMapping[DeviceId, Counter[str]]
    ) -> Counter[str]:
        """Return how many devices there are of each class, and remove the counted ones from ``held``."""
        counts: Counter[str] = Counter()
        for device in devices:
            if device.problem and not device.held:
                continue
            claimed = held.pop(device.id, Counter())
            shares = MOST_SHARES if device.shareable else 1
            classes = self._classes.by_name.values()
            names = {one.resource for one in classes if selects(one.selectors, device) is True}
            for name in names | claimed.keys():
                counts[name] += max(shares, claimed[name])
        return counts

    def _held_on(self, node: str) -> dict[DeviceId, Counter[str]]:
        """Return the devices that claims have on a node, each with how often it counts by which resource name."""
        held: defaultdict[DeviceId, Counter[str]] = defaultdict(Counter)
        for key in self._claims_on.of(node):
            claim = self._claims[key]
            for one in claim.devices or ():
                held[one.device][self._classes.resource(claim.class_of(one.request))] += 1
        return held

    # The claims of pods.

    def _claiming(self, pod: Pod) -> Pod:
        required = () if pod.devices else tuple(pod.requires.items())
        extended = self._classes.extended(pod.requests, required)
        if not pod.claim_refs and not extended:
            return pod
        amounts, affinity = self._classes.counted(pod.requests), pod.affinity
        problem = UNSERVED if extended and pod.devices else ""
        waiting = [] if self._has_extended(pod) else extended
        own: list[ClaimSpec] = []
        for ref in pod.claim_refs:
            claim = self._claim_of(pod, ref.claim, ref.template)
            if isinstance(claim, str):
                problem = problem or claim
                continue
            users = self._users.of((claim.namespace, claim.name))
            # Devices that several pods share count as requests of one of them.
            if not users or min(users) == pod.uid:
                amounts += self._claimed(claim)
            if claim.devices is None:
                own.append(claim.spec)
                spec = self._classes.resolved(claim.spec, required)
                if len(users) > 1:
                    spec = replace(spec, shared=f"{claim.namespace}/{claim.name}")
                if len(users) > MOST_PODS:
                    problem = problem or f"more than {MOST_PODS} pods share resource claim {spec.shared}"
                waiting.append(spec)
            elif claim.nodes is not None:
                affinity = claim.nodes if affinity is None else _intersection(affinity, claim.nodes)
        if affinity is not None and len(affinity) > MOST_TERMS:
            affinity, problem = (
                pod.affinity,
                "its claims and its affinity allow too many combinations of nodes",
            )
        claims = tuple(waiting)
        problem = pod.problem or problem or excess(claims)
        problem, undecided = self._judged(pod, claims, selectors_of(tuple(own)), problem)
        group = "" if problem or not any(one.shared for one in waiting) else self._group(pod)
        if group is None:
            group, problem = (
                "",
                f"its claims tie it to more than {MOST_PODS} pods, directly or through other pods",
            )
        return replace(
            pod,
            requests=amounts,
            affinity=affinity,
            claims=claims,
            interdependent=pod.interdependent or bool(extended),
            claim_group=group,
            problem=problem,
            undecided=undecided,
        )

    def _judged(self, pod: Pod, claims: Claims, own: tuple[str, ...], problem: str) -> tuple[str, str]:
        """Return the problem of a pod, and what it waits for until it is known which devices its claims may have."""
        if problem or not claims or not pod.ours or pod.node or pod.finished:
            self.judge.drop(pod.uid)
            return problem, ""
        problem, undecided = self.judge.want(pod.uid, pod.namespace, own)
        if not (problem or undecided) and not self._classes.known:
            self._unclassed.add(pod.uid)
            undecided = UNDER_WAY
        return problem or ("" if undecided else self._pools.unplannable(claims)), undecided

    def _has_extended(self, pod: Pod) -> bool:
        """Return whether kube-scheduler has made the claim of a pod's extended resources, and allocated it."""
        claim = self._claims.get(self._extended.get((pod.namespace, pod.uid), ("", "")))
        return claim is not None and claim.devices is not None

    def _claim_of(self, pod: Pod, name: str, template: str) -> ResourceClaim | str:
        """Return the claim that a pod names or that will be made for it, or the problem where there is none."""
        if name:
            known = self._claims.get((pod.namespace, name))
            if known is not None:
                return f"resource claim {pod.namespace}/{name} is being deleted" if known.deleting else known
            if not template:
                return f"resource claim {pod.namespace}/{name} doesn't exist"
        made = self._templates.get((pod.namespace, template))
        if made is None:
            return f"resource claim template {pod.namespace}/{template} doesn't exist"
        return ResourceClaim(pod.namespace, "", "", made.spec)

    def _claimed(self, claim: ResourceClaim) -> Resources:
        """Return how many devices of each class a claim has on its node, or requests with any of its choices."""
        if claim.devices is None:
            return self._classes.requested(claim.spec)
        if not claim.node:
            return Resources()
        return Resources(
            Counter(self._classes.resource(claim.class_of(one.request)) for one in claim.devices)
        )

    def _group(self, pod: Pod) -> str | None:
        """Return a name for the group of pods that unallocated claims tie together, directly or through other pods.

        Return None if there are too many of them.
        """
        keys: set[ClaimKey] = set()
        new, seen = [pod], {pod.uid}
        while new:
            one = new.pop()
            for key in [(one.namespace, ref.claim) for ref in one.claim_refs]:
                claim = self._claims.get(key)
                users = self._users.of(key)
                if key not in keys and len(users) > 1 and claim is not None and claim.devices is None:
                    keys.add(key)
                    new.extend(self._pods[uid] for uid in users - seen)
                    seen |= users
                    if len(seen) > MOST_PODS:
                        return None
        return "/".join(min(keys))


def _asker(device_class: str) -> tuple[str, str]:
    """Return the name under which a class asks the judge; pods ask under their uids."""
    return "class", device_class


def _by_device(claim: ResourceClaim) -> dict[DeviceId, Holder]:
    used: defaultdict[DeviceId, Counter[str]] = defaultdict(Counter)
    for one in claim.devices or ():
        used[one.device].update(one.consumed)
    return {device: Holder(claim.reserved, consumed) for device, consumed in used.items()}


def _name(described: DeviceObject) -> object:
    if isinstance(described, ResourceClaim | ResourceClaimTemplate):
        return described.namespace, described.name
    return described.name


def _add(touched: Touched, more: Touched) -> None:
    touched.nodes |= more.nodes
    touched.pods |= more.pods


def _intersection(some: tuple[NodeTerm, ...], others: tuple[NodeTerm, ...]) -> tuple[NodeTerm, ...]:
    """Return terms of which one holds exactly if a term of ``some`` and a term of ``others`` hold."""
    return tuple(
        NodeTerm(one.expressions + other.expressions, one.fields + other.fields)
        for one in some
        for other in others
    )
