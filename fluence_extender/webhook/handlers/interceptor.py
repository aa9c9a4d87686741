"""Add the interceptor to a quantum pod: an init container of ours stages it onto a volume, and PYTHONPATH leads there.

Invariant: a container's own PYTHONPATH still counts, after ours.
"""

from __future__ import annotations

from fluence_extender.model.coordination import (
    PACKAGE_VOLUME,
    POD_UID_VARIABLE,
    PYTHONPATH,
    STAGE_CONTAINER,
    STAGED,
    USERS_PYTHONPATH,
)
from fluence_extender.webhook.containers import (
    add_variables,
    from_field,
    is_own,
    own_container,
    users_containers,
)
from fluence_extender.webhook.contract import AdmissionRequest, Context, Json
from fluence_extender.webhook.draft import Draft, Step

POD_UID = "metadata.uid"
REQUESTS = {"cpu": "10m", "memory": "64Mi"}
LIMITS = {"cpu": "200m", "memory": "64Mi"}


def add_interceptor(draft: Draft, request: AdmissionRequest, context: Context) -> None:
    """Stage the interceptor and let every container of the user find it."""
    if not any(is_own(one, STAGE_CONTAINER) for one in draft.spec.get("initContainers") or ()):
        stage = {
            **own_container(draft, request, context, STAGE_CONTAINER, REQUESTS, LIMITS),
            "volumeMounts": [{"name": PACKAGE_VOLUME, "mountPath": STAGED}],
        }
        draft.insert("spec", "volumes", values=[{"name": PACKAGE_VOLUME, "emptyDir": {}}])
        # Before the user's init containers, which may submit tasks too.
        draft.insert("spec", "initContainers", values=[stage], at=0)
    _add_pod_uid(draft)
    for path, container in users_containers(draft):
        mounts = [one for one in container.get("volumeMounts") or () if one.get("mountPath") == STAGED]
        if any(one.get("name") != PACKAGE_VOLUME for one in mounts):
            draft.warn(
                f"container {container.get('name')} mounts a volume of its own at {STAGED}, so its tasks can't be "
                "tagged: mount that volume elsewhere"
            )
        if not mounts:
            mount = {"name": PACKAGE_VOLUME, "mountPath": STAGED, "readOnly": True}
            draft.insert(*path, "volumeMounts", values=[mount])
        _prepend_to_pythonpath(draft, (*path, "env"), container.get("env") or [])


def _add_pod_uid(draft: Draft) -> None:
    """Give every container of the user the pod's uid, with which its tasks are tagged."""
    for _, container in users_containers(draft):
        own = [one for one in container.get("env") or () if one.get("name") == POD_UID_VARIABLE]
        if any(
            ((one.get("valueFrom") or {}).get("fieldRef") or {}).get("fieldPath") != POD_UID for one in own
        ):
            draft.warn(
                f"container {container.get('name')} sets {POD_UID_VARIABLE} itself, so its tasks are tagged with that "
                "value and the sidecar doesn't find them: remove the variable"
            )
    add_variables(draft, [from_field(POD_UID_VARIABLE, POD_UID)])


def _prepend_to_pythonpath(draft: Draft, path: tuple[Step, ...], variables: list[Json]) -> None:
    # Of several variables with one name the last counts.
    named = [i for i, one in enumerate(variables) if one.get("name") == PYTHONPATH]
    index = named[-1] if named else None
    if index is None:
        draft.insert(*path, values=[{"name": PYTHONPATH, "value": STAGED}], at=0)
        return
    own = variables[index]
    if "valueFrom" in own:
        # A value from elsewhere can't be extended, but one variable may refer to another before it.
        draft.put(*path, index, value={"name": PYTHONPATH, "value": f"{STAGED}:$({USERS_PYTHONPATH})"})
        draft.insert(*path, values=[{**own, "name": USERS_PYTHONPATH}], at=index)
        return
    value = own.get("value") or ""
    if value.split(":")[0] != STAGED:
        draft.put(*path, index, "value", value=f"{STAGED}:{value}" if value else STAGED)
