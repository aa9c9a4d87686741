"""A pod as placement sees it: what it asks for, where it may run, where it is in its life."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fluence_extender.model.names import (
    GATE,
    NODE_NAME,
    PINNED_ANNOTATION,
    REQUIRE_PREFIX,
    SCHEDULER_NAME,
)
from fluence_extender.model.resources import NOTHING, Resources

ENDED = ("Succeeded", "Failed")
"""The phases of pods whose containers have ended for good."""


@dataclass(frozen=True, slots=True)
class Toleration:
    """A pod toleration (core/v1): ``operator`` is Equal or Exists; an empty key with Exists tolerates all."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One node selector expression: operator In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """One term of a required node affinity: all of ``expressions`` (labels) and ``fields`` (metadata.name) hold."""

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port claimed on the node itself."""

    port: int
    protocol: str = "TCP"
    host_ip: str = "0.0.0.0"


@dataclass(frozen=True, slots=True)
class Owner:
    """The controlling owner of a pod; ``api_version`` is what a reference to it says, and isn't compared."""

    kind: str
    name: str
    uid: str
    api_version: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod.

    ``requests`` are the effective requests that a node must cover (with ``pods`` = 1); ``devices`` the
    virtual resources asked for by type (``qpu`` -> 1); ``gates`` the names of its scheduling gates; ``node``
    is set once it is bound; ``created`` is the creation time in seconds since the epoch; ``problem`` says why
    its requests could not be read (``requests`` then covers its pod slot only), "" when they could; ``refusal``
    is what kube-scheduler last said against it, "" when it said nothing; ``failure`` what kept it from trying or from
    binding it, by its own account, "" when nothing did; ``started`` is when kubelet took it, seconds
    since the epoch, 0 before; ``rejected`` that it failed because kubelet didn't admit it, so that it never ran;
    ``ready`` that its Ready condition is true, so that budgets reckon it healthy;
    ``duration`` how many seconds it runs at most, None where that isn't said;
    ``preempts`` is false where its preemptionPolicy is Never; ``entangled`` says that kube-scheduler's filters judge it
    by more than the node and what is free there: by other pods, by volumes or by resource claims; ``marked`` that it
    asks for one of `MARKS`, so that kube-scheduler calls our bind verb for it; ``accounted`` that the API
    server keeps account of who wrote which of its fields, though nobody manages any by server-side apply (looked at
    while it is gated); ``seeks`` are the label selectors of pods that
    it has to be near by required affinity, as far as they may be of its own namespace.
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
    created: float = 0.0
    resource_version: str = ""
    problem: str = ""
    refusal: str = ""
    failure: str = ""
    started: float = 0.0
    rejected: bool = False
    ready: bool = False
    duration: float | None = None
    preempts: bool = True
    entangled: bool = False
    marked: bool = False
    accounted: bool = False
    seeks: tuple[tuple[Requirement, ...], ...] = ()

    @property
    def key(self) -> str:
        """``namespace/name``, as people write it."""
        return f"{self.namespace}/{self.name}"

    @property
    def ours(self) -> bool:
        """Whether we are its scheduler."""
        return self.scheduler == SCHEDULER_NAME

    @property
    def finished(self) -> bool:
        """Whether its containers have ended for good, so that it holds nothing."""
        return self.phase in ENDED

    @property
    def confined_to(self) -> tuple[str, ...]:
        """The nodes that its required node affinity names, in the order written; none where others may do as well.

        kube-scheduler tries no other nodes then (NodeAffinity's PreFilter): terms are alternatives, so each has to name
        one.
        """
        names: dict[str, None] = {}
        for term in self.affinity or ():
            named = [one.values for one in term.fields if one.key == NODE_NAME and one.operator == "In"]
            if not named:
                return ()
            names.update(dict.fromkeys(named[0]))
        return tuple(names)

    @property
    def pinned_to(self) -> str:
        """The node to which we confined it when we ungated it, "" where we didn't."""
        planned = self.annotations.get(PINNED_ANNOTATION, "")
        return planned if planned and GATE not in self.gates and planned in self.confined_to else ""

    @property
    def promised(self) -> str:
        """The node that it was steered to last, by a nomination or a pin, "" for none."""
        return self.nominated or self.pinned_to

    @property
    def requires(self) -> dict[str, str]:
        """The ``require-<attr>`` annotations, attribute -> value, sorted; an empty value asks for nothing."""
        return {
            key.removeprefix(REQUIRE_PREFIX): value
            for key, value in sorted(self.annotations.items())
            if key.startswith(REQUIRE_PREFIX) and value
        }
