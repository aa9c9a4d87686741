"""The interceptor in a quantum pod: staged onto a volume by an init container of ours, found by way of PYTHONPATH.

Invariant: a container's own PYTHONPATH goes on to count, after ours.
"""

from __future__ import annotations

from collections.abc import Mapping

from fluence_extender.model.coordination import (
    PACKAGE_VOLUME,
    POD_UID_VARIABLE,
    PYTHONPATH,
    STAGE_COMMAND,
    STAGE_CONTAINER,
    STAGED,
    USERS_PYTHONPATH,
)
from fluence_extender.webhook.bounds import fitted
from fluence_extender.webhook.contract import Context, Json, Request
from fluence_extender.webhook.draft import Draft
from fluence_extender.webhook.handlers.environment import add_variables, from_field, users_containers
from fluence_extender.webhook.own_containers import is_own

UNPRIVILEGED: Json = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "runAsUser": 65532,
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""What the strictest pod security standard (restricted) asks for; the user is that of our image."""


POD_UID = "metadata.uid"
STAGE_ASKS = {"cpu": "10m", "memory": "64Mi"}
STAGE_LIMITS = {"cpu": "200m", "memory": "64Mi"}


def own_resources(
    draft: Draft, request: Request, name: str, asks: Mapping[str, str], limits: Mapping[str, str]
) -> Json:
    """What our container ``name`` asks for: ``asks``, or where all the user's containers are limited, ``limits``.

    There a quota may demand limits, and a pod of the class Guaranteed keeps it. A pod that says itself what it needs as
    a whole (KEP-2837) shares that with us. What the namespace's LimitRanges say comes before.
    """
    if draft.spec.get("resources"):
        return {}
    users = [(one.get("resources") or {}).get("limits") or {} for _, one in users_containers(draft)]
    limited = [name for name in limits if all(name in one for one in users)]
    fit = fitted(asks, limits, limited, request.bounds or {})
    if "memory" in fit.short:
        draft.warn(
            f"a LimitRange allows container {name} {fit.short['memory']} of memory, and it needs up to "
            f"{asks['memory']}: it may be ended for that, so allow more"
        )
    return fit.resources


def intercept(draft: Draft, request: Request, context: Context) -> None:
    """Stage the interceptor and let every container of the user's find it."""
    if not any(is_own(one, STAGE_CONTAINER) for one in draft.spec.get("initContainers") or ()):
        draft.insert("spec", "volumes", values=[{"name": PACKAGE_VOLUME, "emptyDir": {}}])
        # Before the user's init containers, which may submit tasks too.
        draft.insert("spec", "initContainers", values=[_stage(draft, request, context)], at=0)
    _mark(draft)
    for path, container in users_containers(draft):
        there = [one for one in container.get("volumeMounts") or () if one.get("mountPath") == STAGED]
        if any(one.get("name") != PACKAGE_VOLUME for one in there):
            draft.warn(
                f"container {container.get('name')} has a mount of its own at {STAGED}, so its tasks can't be "
                "marked: mount it elsewhere"
            )
        if not there:
            mount = {"name": PACKAGE_VOLUME, "mountPath": STAGED, "readOnly": True}
            draft.insert(*path, "volumeMounts", values=[mount])
        _prepend(draft, (*path, "env"), container.get("env") or [])


def _mark(draft: Draft) -> None:
    """Give every container of the user's the mark of its tasks."""
    mark = from_field(POD_UID_VARIABLE, POD_UID)
    for _, container in users_containers(draft):
        said = [one for one in container.get("env") or () if one.get("name") == POD_UID_VARIABLE]
        if any(
            ((one.get("valueFrom") or {}).get("fieldRef") or {}).get("fieldPath") != POD_UID for one in said
        ):
            draft.warn(
                f"container {container.get('name')} sets {POD_UID_VARIABLE} itself, so its tasks are marked with that "
                "and not found as this pod's: remove it"
            )
    add_variables(draft, [mark])


def _prepend(draft: Draft, path: tuple[str | int, ...], variables: list[Json]) -> None:
    # Of several with one name the last counts.
    named = [i for i, one in enumerate(variables) if one.get("name") == PYTHONPATH]
    index = named[-1] if named else None
    if index is None:
        draft.insert(*path, values=[{"name": PYTHONPATH, "value": STAGED}], at=0)
        return
    own = variables[index]
    if "valueFrom" in own:
        # A value from elsewhere can't be added to, but one variable may refer to another before it.
        draft.put(*path, index, value={"name": PYTHONPATH, "value": f"{STAGED}:$({USERS_PYTHONPATH})"})
        draft.insert(*path, values=[{**own, "name": USERS_PYTHONPATH}], at=index)
        return
    value = own.get("value") or ""
    if value.split(":")[0] != STAGED:
        draft.put(*path, index, "value", value=f"{STAGED}:{value}" if value else STAGED)


def _stage(draft: Draft, request: Request, context: Context) -> Json:
    return {
        "name": STAGE_CONTAINER,
        "image": context.sidecar_image,
        "imagePullPolicy": context.sidecar_pull_policy,
        "command": list(STAGE_COMMAND),
        "resources": own_resources(draft, request, STAGE_CONTAINER, STAGE_ASKS, STAGE_LIMITS),
        "volumeMounts": [{"name": PACKAGE_VOLUME, "mountPath": STAGED}],
        "securityContext": UNPRIVILEGED,
    }
