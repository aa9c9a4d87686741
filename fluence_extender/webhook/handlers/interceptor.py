"""The interceptor in a quantum pod: staged onto a volume by an init container of ours, found by way of PYTHONPATH.

Invariant: a container's own PYTHONPATH goes on to count, after ours.
"""

from __future__ import annotations

from fluence_extender.model.coordination import (
    PACKAGE_VOLUME,
    POD_UID_VARIABLE,
    PYTHONPATH,
    STAGE_COMMAND,
    STAGE_CONTAINER,
    STAGED,
    USERS_PYTHONPATH,
)
from fluence_extender.webhook.contract import Context, Json
from fluence_extender.webhook.draft import Draft
from fluence_extender.webhook.handlers.environment import add_variables, from_field, users_containers

UNPRIVILEGED: Json = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "runAsUser": 65532,
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""What the strictest pod security standard (restricted) asks for; the user is that of our image."""


def intercept(draft: Draft, context: Context) -> None:
    """Stage the interceptor and let every container of the user's find it."""
    if not any(one.get("name") == PACKAGE_VOLUME for one in draft.spec.get("volumes") or ()):
        draft.insert("spec", "volumes", values=[{"name": PACKAGE_VOLUME, "emptyDir": {}}])
    if not any(one.get("name") == STAGE_CONTAINER for one in draft.spec.get("initContainers") or ()):
        # Before the user's init containers, which may submit tasks too.
        draft.insert("spec", "initContainers", values=[_stage(context)], at=0)
    add_variables(draft, [from_field(POD_UID_VARIABLE, "metadata.uid")])
    for path, container in users_containers(draft):
        if not any(one.get("mountPath") == STAGED for one in container.get("volumeMounts") or ()):
            mount = {"name": PACKAGE_VOLUME, "mountPath": STAGED, "readOnly": True}
            draft.insert(*path, "volumeMounts", values=[mount])
        _prepend(draft, (*path, "env"), container.get("env") or [])


def _prepend(draft: Draft, path: tuple[str | int, ...], variables: list[Json]) -> None:
    index = next((i for i, one in enumerate(variables) if one.get("name") == PYTHONPATH), None)
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


def _stage(context: Context) -> Json:
    return {
        "name": STAGE_CONTAINER,
        "image": context.sidecar_image,
        "imagePullPolicy": context.sidecar_pull_policy,
        "command": list(STAGE_COMMAND),
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}},
        "volumeMounts": [{"name": PACKAGE_VOLUME, "mountPath": STAGED}],
        "securityContext": UNPRIVILEGED,
    }
