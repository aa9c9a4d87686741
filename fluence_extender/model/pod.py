"""A pod: what it requests, on which nodes it may run, and how far it has come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import NamedTuple

from fluence_extender.model.claims import ClaimSpec
from fluence_extender.model.names import (
    DIRECT_SCHEDULER_NAME,
    GATE,
    NODE_NAME,
    REQUIRE_PREFIX,
    RESOURCE_PREFIX,
    SCHEDULER_NAME,
    SCHEDULER_NAMES,
)
from fluence_extender.model.resources import NOTHING, Resources
from fluence_extender.model.taints import Toleration

ENDED = ("Succeeded", "Failed")
"""The phases of a pod whose containers have ended for good."""


LONGEST_VERSION = 20
"""Digits of a resourceVersion, which has 64 bits."""


def revision(version: str) -> int:
    """Return a resourceVersion as a number, 0 for one that isn't a number."""
    return int(version) if version.isdecimal() and len(version) <= LONGEST_VERSION else 0


@dataclass(frozen=True, slots=True)
class Requirement:
    """One selector expression (core/v1); ``operator`` is In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """One term of a required node affinity; all ``expressions`` (labels) and ``fields`` (metadata.name) must hold."""

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()


@dataclass(frozen=True, slots=True)
class PodTerm:
    """A term of required affinity or anti-affinity (core/v1 PodAffinityTerm): which pods, and in which domain.

    They are the pods with labels for which all of ``selector`` hold, in one of ``namespaces``, or in a namespace for
    whose labels all of ``among`` hold (None selects none). A domain is the nodes with the same value of the label
    ``key``. What the API server makes of matchLabelKeys and mismatchLabelKeys is part of the selector.
    """

    key: str
    selector: tuple[Requirement, ...] = ()
    namespaces: tuple[str, ...] = ()
    among: tuple[Requirement, ...] | None = None


@dataclass(frozen=True, slots=True)
class SpreadRule:
    """A topology spread constraint that a pod must meet (core/v1 TopologySpreadConstraint, DoNotSchedule).

    The pods with labels for which all of ``selector`` hold are spread over the values of the label ``key``. Without a
    selector (None) no pods are. ``counts_unfit`` and ``counts_tainted`` say that also nodes count which the pod's
    selector and affinity of nodes exclude, and those whose taints it doesn't tolerate.
    """

    key: str
    max_skew: int
    selector: tuple[Requirement, ...] | None
    min_domains: int = 1
    counts_unfit: bool = False
    counts_tainted: bool = True


ALONE = "nodes without another such pod (required podAntiAffinity)"
"""What a pod lacks that may not share a node with its like."""


class HostPort(NamedTuple):
    """A port that the pod takes on the node itself. It is a tuple, because tuples are hashed and compared fast.

    Two pods whose required anti-affinity keeps them off each other's node can't share a node, as if both had the same
    port. Such a rule is written as port 0 of a protocol with the rule's name (`alone_on_node`).
    """

    port: int
    protocol: str = "TCP"
    host_ip: str = "0.0.0.0"

    @property
    def text(self) -> str:
        """What a node lacks on which it is taken."""
        return f"host port {self.port}" if self.port else ALONE


def alone_on_node(term: PodTerm) -> HostPort:
    """Return the port that stands for a term of anti-affinity by node: the pods that it selects can't share a node."""
    rule = f"{sorted({*term.namespaces})} {sorted(map(repr, term.selector))}"
    return HostPort(0, f"alone {blake2b(rule.encode(), digest_size=12).hexdigest()}")


@dataclass(frozen=True, slots=True)
class Owner:
    """The controlling owner of a pod. ``api_version`` isn't compared: it may change while the owner stays the same."""

    kind: str
    name: str
    uid: str
    api_version: str = field(default="", compare=False)

    def is_a(self, kind: str, group: str) -> bool:
        """Return whether this is an object of that kind and API group, as far as its API is known."""
        return self.kind == kind and self.api_version.partition("/")[0] in ("", group)


@dataclass(frozen=True, slots=True)
class ClaimRef:
    """A resource claim that the pod names: an existing ``claim``, or one that is made of ``template`` for it.

    ``claim`` is "" until the claim of a template exists.
    """

    name: str
    claim: str = ""
    template: str = ""


@dataclass(frozen=True, slots=True)
class QuotaCharge:
    """What a pod counts for in ResourceQuotas: ``amounts`` by the quotas' names, in quotas with one of ``scopes``."""

    amounts: Resources
    scopes: frozenset[str] = frozenset()
    priority_class: str = ""


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod. All times are in seconds since the epoch.

    What it asks for: ``requests`` are the effective requests that a node must cover, with ``pods`` = 1; ``devices`` are
    the virtual resources by type (``qpu`` -> 1). ``problem`` says why its requests couldn't be read, "" if they could;
    ``requests`` then covers the pod slot only. ``undecided`` says why it isn't known yet which devices its claims may
    have, "" if that is known.

    Where it may run: ``affinity`` is its required node affinity, None without one. ``pod_affinity`` holds the label
    selectors of pods of its own namespace that it must run near. ``interdependent`` is true where kube-scheduler's
    filters look at volumes or resource claims. ``claim_refs``
    are the resource claims that it names, and ``claims`` what is still to be allocated of them, and of its extended
    resources that are devices. Pods of one ``claim_group`` share claims, so they need one node. ``apart``
    and ``near`` are the terms of its required anti-affinity and affinity, ``spread`` the constraints by which it must
    spread. ``features`` are what its node has to declare (`Node.features`). ``preempts`` is false where its
    preemptionPolicy is Never. ``priority_class`` names its PriorityClass, "" for none.

    How far it has come: ``gates`` are the names of its scheduling gates; ``node`` is set once it is bound; ``created``
    and ``started`` are the times of its creation and of the kubelet taking it, 0 before. ``ended`` is when the last of
    its containers ended, 0 if that isn't known or some run. ``refusal`` is the message of
    kube-scheduler's last refusal, and ``failure`` that of a scheduling attempt or a Binding that failed; "" if there
    is none. ``told``: its PodScheduled condition is that of a pod that we or its gates keep waiting, so it says why it
    waits. ``asks_since`` is since when its condition asks autoscalers for nodes, 0 if it doesn't. ``rejection`` is
    why the kubelet didn't admit it, so that it never ran. ``ready`` is its Ready condition, by which disruption budgets
    count it as healthy. ``duration`` is how many seconds it runs at most, None if that is unknown.

    ``size`` is how many bytes of JSON it has as a whole.

    ``expected`` is true where it doesn't exist yet: its Job will have it. Its uid is one of ours then. ``charge`` is
    what ResourceQuotas will count for it, None if that isn't known.
    """

    namespace: str
    name: str
    uid: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    scheduler: str = SCHEDULER_NAME
    node: str = ""
    nominated: str = ""
    phase: str = "Pending"
    deleting: bool = False
    gates: tuple[str, ...] = ()
    group: str = ""
    owner: Owner | None = None
    requests: Resources = NOTHING
    devices: Mapping[str, int] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    affinity: tuple[NodeTerm, ...] | None = None
    host_ports: tuple[HostPort, ...] = ()
    priority: int = 0
    priority_class: str = ""
    created: float = 0.0
    resource_version: str = ""
    problem: str = ""
    undecided: str = ""
    refusal: str = ""
    failure: str = ""
    told: bool = False
    asks_since: float = 0.0
    started: float = 0.0
    ended: float = 0.0
    rejection: str = ""
    ready: bool = False
    duration: float | None = None
    preempts: bool = True
    interdependent: bool = False
    pod_affinity: tuple[tuple[Requirement, ...], ...] = ()
    apart: tuple[PodTerm, ...] = ()
    near: tuple[PodTerm, ...] = ()
    spread: tuple[SpreadRule, ...] = ()
    features: tuple[str, ...] = ()
    expected: bool = False
    claim_refs: tuple[ClaimRef, ...] = ()
    claims: tuple[ClaimSpec, ...] = ()
    claim_group: str = ""
    charge: QuotaCharge | None = field(default=None, compare=False)
    size: int = field(default=0, compare=False)
    _requires: dict[str, str] | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def key(self) -> str:
        """``namespace/name``, for messages."""
        return f"{self.namespace}/{self.name}"

    @property
    def revision(self) -> int:
        """Its resourceVersion as a number, 0 if it has none."""
        return revision(self.resource_version)

    @property
    def ruled(self) -> bool:
        """Whether rules about other pods decide, too, where it may run."""
        return bool(self.apart or self.near or self.spread)

    @property
    def ours(self) -> bool:
        """Whether its schedulerName is one of this scheduler's names."""
        return self.scheduler in SCHEDULER_NAMES

    @property
    def direct(self) -> bool:
        """Whether the service binds it itself, because it knows all that decides where the pod may run."""
        return self.scheduler == DIRECT_SCHEDULER_NAME

    @property
    def withheld(self) -> bool:
        """Whether it can't get a node before the service writes it: it has our gate, or we bind it."""
        return GATE in self.gates or (self.direct and not self.node)

    @property
    def rejected(self) -> bool:
        """Whether the kubelet didn't admit it."""
        return bool(self.rejection)

    @property
    def without_devices(self) -> Pod:
        """The same pod as if it requested no devices."""
        return replace(self, devices={}) if self.devices else self

    @property
    def amounts(self) -> Resources:
        """All that it takes by names of resources: its requests, and its devices."""
        if not self.devices:
            return self.requests
        devices = {f"{RESOURCE_PREFIX}{kind}": amount for kind, amount in self.devices.items()}
        return self.requests + Resources(devices)

    @property
    def finished(self) -> bool:
        """Whether its containers have ended for good. A finished pod holds nothing."""
        return self.phase in ENDED

    @property
    def confined_to(self) -> tuple[str, ...]:
        """The nodes that its required node affinity names, in the order written; empty where it allows other nodes too.

        The terms of an affinity are alternatives, so each term has to name a node. kube-scheduler then tries no other
        nodes (PreFilter of its NodeAffinity plugin).
        """
        names: dict[str, None] = {}
        for term in self.affinity or ():
            named = [one.values for one in term.fields if one.key == NODE_NAME and one.operator == "In"]
            if not named:
                return ()
            names.update(dict.fromkeys(named[0]))
        return tuple(names)

    @property
    def requires(self) -> Mapping[str, str]:
        """The ``require-<attr>`` annotations as attribute -> value, sorted.

        An empty value requires nothing and is left out. The annotations are gone through once for each value of a pod,
        because plans and reasons ask for this many times.
        """
        if self._requires is None:
            object.__setattr__(self, "_requires", _required(self.annotations))
        return self._requires or {}


def _required(annotations: Mapping[str, str]) -> dict[str, str]:
    wanted = {key: value for key, value in annotations.items() if key.startswith(REQUIRE_PREFIX) and value}
    return {key.removeprefix(REQUIRE_PREFIX): wanted[key] for key in sorted(wanted)}
