"""Reading the Lease by which kube-scheduler elects its leader (coordination.k8s.io/v1)."""

from __future__ import annotations

import msgspec

from fluence_extender.cluster.connection import Connection, Request
from fluence_extender.cluster.port import Gone, Lease


class _Spec(msgspec.Struct):
    holder: str | None = msgspec.field(name="holderIdentity", default=None)
    renewed: str | None = msgspec.field(name="renewTime", default=None)
    transitions: int | None = msgspec.field(name="leaseTransitions", default=None)
    duration: int | None = msgspec.field(name="leaseDurationSeconds", default=None)


class _Object(msgspec.Struct):
    spec: _Spec | None = None


_decode = msgspec.json.Decoder(_Object).decode


async def read_lease(connection: Connection, namespace: str, name: str, limit: float) -> Lease | None:
    """The Lease as it is now (a quorum read), None where there is none; waits at most ``limit`` seconds.

    Raises `ClusterError`.
    """
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}"
    request = Request("GET", path, f"read lease {namespace}/{name}")
    try:
        spec = _decode(await connection.call(request, limit, patient=False, urgent=True)).spec or _Spec()
    except Gone:
        return None
    return Lease(spec.holder or "", spec.renewed or "", spec.transitions or 0, float(spec.duration or 0))
