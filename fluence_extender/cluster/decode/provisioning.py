"""Decode ProvisioningRequests (autoscaling.x-k8s.io v1 and v1beta1, which read alike)."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fluence_extender.cluster.decode.objects import Conditions, StatusCondition, tolerant_decoder
from fluence_extender.model.names import CREATED_BY_ANNOTATION, SERVICE_NAME
from fluence_extender.model.provisioning import ProvisioningRequest


class _Reference(msgspec.Struct):
    name: str = ""


class _PodSet(msgspec.Struct):
    template: _Reference = msgspec.field(name="podTemplateRef", default_factory=_Reference)


class _Spec(msgspec.Struct):
    sets: list[_PodSet] | None = msgspec.field(name="podSets", default=None)


_request = tolerant_decoder("ProvisioningRequest", _Spec, Conditions)


def decode_provisioning_request(raw: bytes) -> ProvisioningRequest:
    """Decode a ProvisioningRequest."""
    meta, spec, status, _ = _request(raw)
    conditions = status.conditions or ()
    return ProvisioningRequest(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        created=meta.created,
        ours=(meta.annotations or {}).get(CREATED_BY_ANNOTATION) == SERVICE_NAME,
        templates=tuple(one.template.name for one in spec.sets or ()),
        accepted=bool(status.true & {"Accepted", "Provisioned"}),
        refusal=_message(conditions, "False", "Provisioned"),
        failure=_message(conditions, "True", "Failed", "CapacityRevoked"),
    )


def _message(conditions: Iterable[StatusCondition], status: str, *types: str) -> str:
    """Return the message of the first of these conditions with this status, "" if there is none."""
    for one in conditions:
        if one.type in types and one.status == status:
            return one.message or one.reason or one.type
    return ""
