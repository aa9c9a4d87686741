"""The label on the pod of the replica that leads, by which the Service ``fluence`` finds it.

Only the leader knows why gangs wait and when they start, so the Service selects only the leader's pod. A new leader
labels its pod and removes the label from all others. Invariant: the label moves only once the next replica leads. Until
then the labeled replica answers, even if it stands by.
"""

from __future__ import annotations

from fluence_extender.cluster.connection import MERGE_PATCH, METADATA_ONLY, ApiRequest, Connection
from fluence_extender.cluster.errors import Gone
from fluence_extender.model.names import LEADS_LABEL
from fluence_extender.objects.meta import decode_headed, decode_page

LEADS = "true"


async def mark_leader(connection: Connection, namespace: str, name: str) -> None:
    """Label the pod ``name`` as the one that leads, and no other pod of ``namespace``.

    Do nothing if ``name`` doesn't exist, because a replica may run outside of a pod. Raise `ClusterError`.
    """
    path = f"/api/v1/namespaces/{namespace}/pods"
    query = {"labelSelector": f"{LEADS_LABEL}={LEADS}"}
    listed = decode_page(await connection.call(ApiRequest("GET", path, "list the pods that lead", query)))
    labeled = {decode_headed(raw).metadata.name for raw in listed.items or ()}
    if name not in labeled and not await _label(connection, f"{path}/{name}", LEADS):
        return
    for other in labeled - {name}:
        await _label(connection, f"{path}/{other}", None)


async def _label(connection: Connection, path: str, value: str | None) -> bool:
    """Set the label of the pod at ``path``, None to remove it, and return whether that pod exists."""
    body = {"metadata": {"labels": {LEADS_LABEL: value}}}
    attempt = f"set the label {LEADS_LABEL} of {path}"
    try:
        await connection.call(ApiRequest("PATCH", path, attempt, None, body, MERGE_PATCH, METADATA_ONLY))
    except Gone:
        return False
    return True
