"""Remarks about the labels and annotations of manifests. A remark about several objects is made once."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Any

from fluence_extender.gangs.reporting.remarks import missing_on
from fluence_extender.model.gang import Convention
from fluence_extender.model.notation import first_few
from fluence_extender.model.pod import Pod
from fluence_extender.model.pod_keys import ineffective, remarks
from fluence_extender.model.reason import Reason

LONGEST_NAME = 253
"""The most characters of a name in Kubernetes."""

MOST_REMARKS = 10
"""The most remarks about one pod."""

CLUSTER_WIDE = frozenset(
    {
        "APIService",
        "ClusterQueue",
        "ClusterRole",
        "ClusterRoleBinding",
        "CustomResourceDefinition",
        "DeviceClass",
        "IngressClass",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "MutatingWebhookConfiguration",
        "Namespace",
        "Node",
        "PersistentVolume",
        "PriorityClass",
        "Queue",
        "Reservation",
        "ResourceFlavor",
        "RuntimeClass",
        "StorageClass",
        "Topology",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
    }
)
"""Kinds of objects without a namespace."""


def full_name(manifest: Mapping[str, Any]) -> str:
    """Return kind, namespace (if any) and name of an object, for messages."""
    kind, meta = manifest["kind"], manifest["metadata"]
    namespace, name = (str(meta.get(key))[:LONGEST_NAME] for key in ("namespace", "name"))
    return f"{kind[:LONGEST_NAME]} {name if kind in CLUSTER_WIDE else f'{namespace}/{name}'}"


class Remarks:
    """Collects remarks, with the objects that they are about."""

    def __init__(self) -> None:
        self._about: dict[str, dict[str, None]] = {}

    def add(self, manifest: Mapping[str, Any], pods: Collection[Mapping[str, Any]]) -> None:
        """Add the remarks about an object and about the pods that it makes, given by their metadata."""
        kind, meta, name = manifest["kind"], manifest["metadata"], full_name(manifest)
        for text in self._remarks(kind, meta, pods):
            self.add_text(text, name)

    def add_text(self, text: str, name: str) -> None:
        """Add a remark about the object ``name``."""
        self._about.setdefault(text, {})[name] = None

    def add_missing(self, pod: Pod, convention: Convention, size: int | Reason) -> None:
        """Add what a pod in a gang of this convention and size lacks for the gang that it seems to mean."""
        for text in missing_on(pod, convention, size):
            self.add_text(text, f"Pod {pod.key}")

    def notes(self) -> Iterator[str]:
        """Yield a sentence for each remark, with the first object that it is about."""
        for text, names in self._about.items():
            yield f"{first_few(tuple(names), 1)}: {text}"

    @staticmethod
    def _remarks(kind: str, meta: Mapping[str, Any], pods: Collection[Mapping[str, Any]]) -> Iterator[str]:
        on_pods: set[str] = set()
        for pod in pods:
            on_pods.update(pod["labels"], pod["annotations"])
            yield from islice(remarks(pod["labels"], pod["annotations"]), MOST_REMARKS)
        if kind != "Pod" and pods:
            own = [key for field in ("labels", "annotations") for key in _keys(meta.get(field))]
            yield from ineffective(kind, own, on_pods)


def _keys(value: object) -> list[str]:
    return [str(key) for key in value] if isinstance(value, dict) else []


def unjudged(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield what kube-scheduler will judge about a pod that a simulation doesn't."""
    if any("persistentVolumeClaim" in one or "ephemeral" in one for one in spec.get("volumes") or ()):
        yield "where its persistent volumes can be used isn't simulated: kube-scheduler may refuse these nodes"


def chosen_node(node: str) -> str:
    """Return what a pod's ``spec.nodeName`` means."""
    return (
        f"simulated without its spec.nodeName: as it is, kubelet on {node} runs the pod and no scheduler places it; "
        "remove nodeName, or choose the node by nodeSelector"
    )


def later_pods(name: str, at_once: int, later: int) -> str:
    """Return what becomes of the pods of a Job that aren't created at first."""
    each = "the other one comes" if later == 1 else f"each of the other {later:,} comes"
    return f"{name}: simulated with the {at_once:,} pods that it has at once; {each} when one has succeeded"
