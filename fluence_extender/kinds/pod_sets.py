"""Pods that don't exist yet, as the controller of an object will create them.

Both a question about a manifest and a workload that waits without pods need them. A controller makes many pods of one
template, so they come in sets: what one pod of a set requires, all of them require.

Invariant: the pods of a set differ only in their names, labels, annotations and owners.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

NAMED_IN_TEMPLATES = ("labels", "annotations")
"""The metadata of a template that its pods get."""

LONGEST_NAME = 63
"""Characters of a trial's name, as of a hostname."""

TRIAL_SUFFIX = "trial"
"""The last part of the name of a pod that is tried. Generated names have no vowels, so none is the same."""


class BadManifest(ValueError):
    """A manifest can't be read; the message names it and says why."""


@dataclass(frozen=True, slots=True)
class SetMember:
    """How one pod of a set differs from the template. ``owner`` is the reference to its controller, None without."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    owner: Json | None = None


@dataclass(frozen=True, slots=True)
class PodSet:
    """``count`` pods of one ``template``, which has metadata and spec; ``members`` yields each of them.

    The set has a first member even if ``count`` is 0. ``later`` is true where the controller creates the pods only
    when other pods of the object run.
    """

    template: Json
    count: int
    members: Callable[[], Iterator[SetMember]]
    later: bool = False

    def pods(self, namespace: str) -> Iterator[Json]:
        """Yield the manifest of each member."""
        for member in self.members():
            yield self.pod(member, namespace)

    def first(self, namespace: str) -> Json:
        """Return the manifest of the first member."""
        return self.pod(next(self.members()), namespace)

    def pod(self, member: SetMember, namespace: str) -> Json:
        """Return the manifest of one member."""
        own = self.template["metadata"]
        metadata = {
            **own,
            "name": member.name,
            "namespace": namespace,
            "labels": {**own["labels"], **member.labels},
            "annotations": {**own["annotations"], **member.annotations},
        }
        if member.owner is not None:
            metadata["ownerReferences"] = [member.owner]
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": self.template["spec"]}


def template_of(source: Mapping[str, Any], spec: Mapping[str, Any] | None = None) -> Json:
    """Return a pod template's metadata and spec; ``spec`` replaces its own. Raise `BadManifest` without containers."""
    own = source["spec"] if spec is None else spec
    if not own.get("containers"):
        raise BadManifest("a pod without containers")
    meta = source.get("metadata") or {}
    return {"metadata": {key: _texts(meta.get(key), key) for key in NAMED_IN_TEMPLATES}, "spec": dict(own)}


def with_claims(template: Json, claims: Iterable[Mapping[str, Any]] | None, owner: str) -> Json:
    """Return the template with a volume for each of the ``claims``, whose names end with ``owner``."""
    names = [one["metadata"]["name"] for one in claims or ()]
    if not names:
        return template
    own = [one for one in template["spec"].get("volumes") or () if one.get("name") not in names]
    added = [{"name": name, "persistentVolumeClaim": {"claimName": f"{name}-{owner}"}} for name in names]
    return {**template, "spec": {**template["spec"], "volumes": [*own, *added]}}


def _texts(given: Mapping[str, Any] | None, field: str) -> dict[str, str]:
    for key, text in (given or {}).items():
        if not isinstance(text, str):
            raise BadManifest(f"{field}[{key}] is {text}, which must be a string: put it in quotes")
    return dict(given or {})


def reference_to(manifest: Mapping[str, Any]) -> Json:
    """Return the owner reference by which ``manifest`` controls its pods.

    It doesn't block the owner's deletion, for which a trial would need a right.
    """
    meta = manifest["metadata"]
    return {
        "apiVersion": manifest["apiVersion"],
        "kind": manifest["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": False,
    }


def trial_of(pod: Json) -> Json:
    """Return the pod under a name that no existing pod has, for a dry run.

    The name is always the same, because a random part would make each refusal's text different.
    """
    owner, _, number = pod["metadata"]["name"].rpartition("-")
    end = f"-{number}-{TRIAL_SUFFIX}" if owner else f"{number}-{TRIAL_SUFFIX}"[-LONGEST_NAME:]
    name = f"{owner[: LONGEST_NAME - len(end)]}{end}"
    return {**pod, "metadata": {**pod["metadata"], "name": name}}


def count_of(value: Any, default: int) -> int:
    """Return a number of pods from a manifest. Raise `BadManifest`."""
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise BadManifest(f"{value!r} is not a number of pods")
    return value


CLAIMS = "volumeClaimTemplates"


def single_pod(pod: Json) -> Iterator[PodSet]:
    """Yield a pod that no controller makes."""
    owners = [one for one in pod["metadata"].get("ownerReferences") or () if one.get("controller")]
    member = SetMember(pod["metadata"]["name"], owner=owners[0] if owners else None)
    yield PodSet(template_of(pod), 1, lambda: iter((member,)))
