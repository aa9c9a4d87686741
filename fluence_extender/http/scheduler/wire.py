"""The extender v1 protocol on the wire: UpperCamelCase JSON. Only the fields in use are decoded.

Source: k8s.io/kube-scheduler/extender/v1 (types without json tags, so Go's field names are the wire names). The node
lists, which are long, stay raw bytes here. Invariant: for any bytes, decoding returns a request or raises `BadRequest`.
`NodeNames` is never null in an answer, which kube-scheduler would read as "no node".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct

from fluence_extender.http.scheduler.port import RequestedPod
from fluence_extender.model.names import SCHEDULER_NAME

NULL = b"null"

NOT_CACHED = (
    "set `nodeCacheCapable: true` for this extender in kube-scheduler's configuration "
    "(fluence-extender scheduler-config prints it)"
)
"""What to do about requests that an extender gets which isn't nodeCacheCapable: whole nodes, and whole victims."""


class BadRequest(Exception):
    """The body isn't a request of this verb; the text says what is wrong with it and where."""


class ObjectMeta(Struct, frozen=True, gc=False):
    """The identity of the pod."""

    name: str
    namespace: str
    uid: str


class WirePodSpec(Struct, frozen=True, gc=False, rename="camel"):
    """Which scheduler the pod belongs to."""

    scheduler_name: str = "default-scheduler"


class WirePod(Struct, frozen=True, gc=False):
    """A core/v1 Pod."""

    metadata: ObjectMeta
    spec: WirePodSpec = WirePodSpec()

    def requested(self) -> RequestedPod:
        """Return the pod for look-ups."""
        return RequestedPod(
            namespace=self.metadata.namespace,
            name=self.metadata.name,
            uid=self.metadata.uid,
            scheduler=self.spec.scheduler_name,
        )


class ExtenderArgs(Struct, frozen=True, gc=False, rename="pascal"):
    """The request of filter and prioritize: one of the two lists is sent, the other is null."""

    pod: WirePod
    nodes: Raw = Raw(NULL)
    node_names: Raw = Raw(NULL)


class ExtenderBindingArgs(Struct, frozen=True, gc=False, rename="pascal"):
    """The request of bind."""

    pod_name: str
    pod_namespace: str
    pod_uid: str = msgspec.field(name="PodUID")
    node: str

    def requested(self) -> RequestedPod:
        """Return the pod to bind. The request names no scheduler; only our scheduler's process calls bind."""
        return RequestedPod(self.pod_namespace, self.pod_name, self.pod_uid, scheduler=SCHEDULER_NAME)


class MetaPod(Struct, frozen=True, gc=False):
    """A victim, by uid."""

    uid: str = msgspec.field(name="UID")


class MetaVictims(Struct, frozen=True, rename="pascal"):
    """The victims on one node; the violations are those of PodDisruptionBudgets."""

    pods: list[MetaPod] | None = None
    num_pdb_violations: int = msgspec.field(default=0, name="NumPDBViolations")

    def uids(self) -> list[str]:
        """Return the victims' uids, in the order sent."""
        return [pod.uid for pod in self.pods or ()]


class ExtenderPreemptionArgs(Struct, frozen=True, rename="pascal"):
    """The request of preempt: one of the two maps is sent, the other is null."""

    pod: WirePod
    node_name_to_victims: Raw = Raw(NULL)
    node_name_to_meta_victims: dict[str, MetaVictims] | None = None

    def victims(self) -> dict[str, MetaVictims]:
        """Return the victims by node. Raises `BadRequest` if they are whole pods."""
        if self.node_name_to_meta_victims is None and bytes(self.node_name_to_victims) != NULL:
            raise BadRequest(f"the body has whole victims: {NOT_CACHED}")
        return self.node_name_to_meta_victims or {}


class HostPriority(Struct, frozen=True, gc=False, rename="pascal"):
    """The score of one node, 0 to 10."""

    host: str
    score: int


T = TypeVar("T")

_ENCODER = msgspec.json.Encoder()
_ARGS = msgspec.json.Decoder(ExtenderArgs)
_BINDING = msgspec.json.Decoder(ExtenderBindingArgs)
_PREEMPTION = msgspec.json.Decoder(ExtenderPreemptionArgs)


def decode(decoder: msgspec.json.Decoder[T], body: bytes | Raw) -> T:
    """Decode ``body``. Raises `BadRequest` for any fault of the bytes."""
    try:
        return decoder.decode(body)
    except RecursionError:
        raise BadRequest("the body is nested too deeply") from None
    except (msgspec.MsgspecError, ValueError) as error:
        raise BadRequest(f"the body isn't a request of this verb: {error}") from error


def extender_args(body: bytes) -> ExtenderArgs:
    """Return the request of filter or prioritize. Raises `BadRequest`."""
    return decode(_ARGS, body)


def binding_args(body: bytes) -> ExtenderBindingArgs:
    """Return the request of bind, with no field empty. Raises `BadRequest`."""
    args = decode(_BINDING, body)
    given = {
        "PodName": args.pod_name,
        "PodNamespace": args.pod_namespace,
        "PodUID": args.pod_uid,
        "Node": args.node,
    }
    for name, value in given.items():
        if not value:
            raise BadRequest(f"the body isn't a request of this verb: {name} is empty")
    return args


def preemption_args(body: bytes) -> ExtenderPreemptionArgs:
    """Return the request of preempt. Raises `BadRequest`."""
    return decode(_PREEMPTION, body)


def encode(value: object) -> bytes:
    """Return the JSON of any part of an answer."""
    return _ENCODER.encode(value)


def filter_result(nodes: bytes, unresolvable: Mapping[str, str] | None = None, error: str = "") -> bytes:
    """Return the answer of filter.

    ``nodes`` is the pair of lists as JSON members (see `offer`), ``unresolvable`` the reason by node.
    """
    failed = encode(unresolvable) if unresolvable else b"{}"
    return b'{%b,"FailedNodes":{},"FailedAndUnresolvableNodes":%b,"Error":%b}' % (
        nodes,
        failed,
        encode(error),
    )


def binding_result(error: str) -> bytes:
    """Return the answer of bind; "" is success."""
    return encode({"Error": error})


def host_priorities(scores: Iterable[tuple[str, int]]) -> bytes:
    """Return the answer of prioritize: a bare array."""
    return encode([HostPriority(host, score) for host, score in scores])


def preemption_result(victims: Mapping[str, MetaVictims]) -> bytes:
    """Return the answer of preempt, always by uid; a node that isn't in it is no longer a candidate."""
    return encode({"NodeNameToMetaVictims": victims})
