"""Which gang a user means: by its own name, the name of one of its pods, or the name of their workload.

A name without a gang may belong to an object that fluence doesn't place, because it names another scheduler or its user
has suspended it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fluence_extender.apps.kubectl.errors import CommandError, NotFound
from fluence_extender.kinds.served import JOB, OPERATORS, STATEFUL_SET
from fluence_extender.model.names import (
    DEFAULT_SCHEDULER,
    KUEUE_QUEUE_LABEL,
    SCHEDULER_NAME,
    SCHEDULER_NAMES,
    SUSPENDED_FOR_ANNOTATION,
)

if TYPE_CHECKING:
    from fluence_extender.apps.kubectl.state_api import Item, StateApiClient

GROUPS = {
    "pod": "",
    "job": JOB.group,
    "deployment": "apps",
    **{api.kind.lower(): api.group for api in (STATEFUL_SET, *OPERATORS)},
}
"""The kinds of objects that have pods, and their API groups. Operators make the pods of those with a dot in it."""

KINDS = (*GROUPS, "gang")
SERVED = tuple(kind for kind, group in GROUPS.items() if "." not in group)
"""The kinds of objects that every cluster serves."""

_SHORT = {
    "po": "pod",
    "deploy": "deployment",
    "sts": "statefulset",
    "lws": "leaderworkerset",
    "cj": "cronjob",
}

PATIENCE = 10.0
"""Seconds for an object of the cluster that the service doesn't know."""


def kind_and_name(words: str, name: str | None) -> tuple[str, str]:
    """Return the kind, empty if none is given, and the name: of ``KIND NAME``, ``KIND/NAME`` or ``NAME``."""
    kind, slash, rest = words.partition("/")
    if name is not None:
        kind, slash, rest = words, "/", name
    if not slash:
        return "", words
    plain = singular(kind)
    return plain if plain in KINDS else kind.lower(), rest


def singular(kind: str) -> str:
    """Return a kind in the singular. As for kubectl, it may be plural or short, and have its API group behind it."""
    plain, dot, group = kind.lower().partition(".")
    if dot and group not in GROUPS.values():
        return kind.lower()
    return _SHORT.get(plain, plain.removesuffix("s"))


def matching(client: StateApiClient, namespace: str, kind: str, name: str) -> list[Item]:
    """Return the gangs with this name, or with a member of this name, or of the Job of this name.

    Gangs that exist come before ones that are gone; then a gang with exactly this name, then those that wait. A gang's
    own name may have the form ``kind/name``: that of a part of a larger gang does.
    """
    gangs = client.items("/v1/gangs", namespace=namespace, gone="true")
    found = [gang for gang in gangs if matches(gang, kind, name)]
    return sorted(
        found, key=lambda one: (one["state"] == "gone", one["name"] != name, one["state"] != "waiting")
    )


def tell(client: StateApiClient, gang: Item) -> Item | None:
    """Return the gang with its history, None if it has gone in the meantime."""
    path = f"/v1/gangs/{gang['namespace']}/{gang['name']}"
    try:
        found: Item = client.document(path, convention=gang["convention"])
    except NotFound:
        return None
    return found


def matches(gang: Item, kind: str, name: str) -> bool:
    """Return whether the gang, one of its pods or their workload has this name; ``kind`` is empty for any of them."""
    if kind not in ("", *KINDS):
        return bool(gang["name"] == f"{kind}/{name}")
    if kind in ("", "gang") and gang["name"] == name:
        return True
    pods = [member["pod"] for member in gang["members"]] + gang.get("former", [])
    if kind in ("", "pod") and name in pods:
        return True
    # The names of a workload's pods begin with its own. The gang may be named after the workload, a label or a pod.
    if gang.get("owner"):
        owner_kind, _, owner_name = gang["owner"].partition("/")
        if owner_name == name and (not kind or owner_kind.lower() == kind):
            return True
    named_after = gang["name"] == name or any(pod.startswith(f"{name}-") for pod in pods)
    return kind not in ("pod", "gang") and named_after


def not_placed(client: StateApiClient, namespace: str, kind: str, name: str) -> str:
    """Return why fluence has no gang of an object of the cluster, "" if there is no such object, or no reason."""
    import json

    from fluence_extender.apps.kubectl.program import kubectl_output

    if kind in GROUPS and kind not in SERVED:
        return ""
    kinds = f"{kind}s" if kind in SERVED else ",".join(f"{one}s" for one in SERVED)
    words = ["get", kinds, name, f"--namespace={namespace}", "--ignore-not-found", "-o", "json"]
    try:
        found = json.loads(kubectl_output([*words, *client.connection], PATIENCE) or "{}")
    except (CommandError, ValueError):
        return ""
    for one in found.get("items", [found]):
        spec = one.get("spec", {})
        pod = spec if one.get("kind") == "Pod" else spec.get("template", {}).get("spec", {})
        scheduler = pod.get("schedulerName") or DEFAULT_SCHEDULER
        if pod and scheduler not in SCHEDULER_NAMES:
            return (
                f"{one['kind']} {namespace}/{name} has schedulerName {scheduler}, so fluence doesn't place it; "
                f"did you mean schedulerName: {SCHEDULER_NAME}?"
            )
        notes = one.get("metadata", {}).get("annotations") or {}
        if spec.get("suspend") is True and SUSPENDED_FOR_ANNOTATION not in notes:
            return (
                f"{one['kind']} {namespace}/{name} is suspended by its user, so it has no pods; fluence places them "
                "once its spec.suspend is false"
            )
        if spec.get("suspend") is True and KUEUE_QUEUE_LABEL in (one["metadata"].get("labels") or {}):
            return (
                f"{one['kind']} {namespace}/{name} waits for Kueue by its label {KUEUE_QUEUE_LABEL}; fluence places "
                "its pods once Kueue has resumed it"
            )
    return ""
