"""Decode ProvisioningRequests (autoscaling.x-k8s.io v1 and v1beta1, which read alike)."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fluence_extender.cluster.decode.objects import tolerant_decoder
from fluence_extender.model.names import CREATED_BY_ANNOTATION, SERVICE_NAME
from fluence_extender.model.provisioning import ProvisioningRequest


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class _Reference(msgspec.Struct):
    name: str = ""


class _PodSet(msgspec.Struct):
    template: _Reference = msgspec.field(name="podTemplateRef", default_factory=_Reference)


class _Spec(msgspec.Struct):
    sets: list[_PodSet] | None = msgspec.field(name="podSets", default=None)


class _Status(msgspec.Struct):
    conditions: list[_Condition] | None = None


_request = tolerant_decoder("ProvisioningRequest", _Spec, _Status)


def decode_provisioning_request(raw: bytes) -> ProvisioningRequest:
    """Decode a ProvisioningRequest."""
    meta, spec, status, _ = _request(raw)
    conditions = status.conditions or ()
    taken_up = {one.type for one in conditions if one.status == "True"}
    return ProvisioningRequest(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        created=created.timestamp() if (created := meta.creation_timestamp) else 0.0,
        ours=(meta.annotations or {}).get(CREATED_BY_ANNOTATION) == SERVICE_NAME,
        templates=tuple(one.template.name for one in spec.sets or ()),
        accepted=bool(taken_up & {"Accepted", "Provisioned"}),
        refusal=_said(conditions, "False", "Provisioned"),
        failure=_said(conditions, "True", "Failed", "CapacityRevoked"),
    )


def _said(conditions: Iterable[_Condition], status: str, *types: str) -> str:
    """Return what the first of these conditions says that has this status, "" if none has."""
    for one in conditions:
        if one.type in types and one.status == status:
            return one.message or one.reason or one.type
    return ""
