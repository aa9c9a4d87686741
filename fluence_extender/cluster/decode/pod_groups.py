"""Decode PodGroups: native ones (scheduling.k8s.io, KEP-4671) and the coscheduling plugin's (scheduling.x-k8s.io)."""

from __future__ import annotations

import msgspec

from fluence_extender.cluster.decode.objects import Metadata, tolerant_decoder
from fluence_extender.model.names import CREATED_BY_ANNOTATION
from fluence_extender.model.workload import CoschedulingGroup, MemberStatus, PodGroup, Provenance


class _Gang(msgspec.Struct, rename="camel"):
    min_count: int | None = None


class _Policy(msgspec.Struct):
    gang: _Gang | None = None


class _TopologyConstraint(msgspec.Struct):
    key: str = ""


class _Constraints(msgspec.Struct):
    topology: list[_TopologyConstraint] | None = None


class _Native(msgspec.Struct, rename="camel"):
    scheduling_policy: _Policy | None = None
    scheduling_constraints: _Constraints | None = None


class _NativeObject(msgspec.Struct):
    metadata: Metadata
    spec: _Native | None = None


class _Coscheduling(msgspec.Struct, rename="camel"):
    min_member: int | None = None
    schedule_timeout_seconds: int | None = None


class _CoschedulingStatus(msgspec.Struct, rename="camel"):
    phase: str | None = None
    occupied_by: str | None = None
    running: int | None = None
    succeeded: int | None = None
    failed: int | None = None
    schedule_start_time: str | None = None


class _CoschedulingObject(msgspec.Struct):
    metadata: Metadata
    spec: _Coscheduling | None = None
    status: _CoschedulingStatus | None = None


_native = tolerant_decoder(_NativeObject)
_coscheduling = tolerant_decoder(_CoschedulingObject)


def decode_pod_group(raw: bytes) -> PodGroup:
    """Decode a scheduling.k8s.io PodGroup of any version from v1alpha2 on; the basic policy counts as size 1."""
    decoded = _native(raw)
    policy = decoded.spec.scheduling_policy if decoded.spec else None
    gang = policy.gang if policy else None
    constraints = decoded.spec.scheduling_constraints if decoded.spec else None
    levels = tuple(one.key for one in (constraints.topology if constraints else None) or () if one.key)
    return PodGroup(
        *decoded.metadata.identity,
        min_count=(gang.min_count if gang else None) or 1,
        levels=levels,
        provenance=_provenance(decoded.metadata),
    )


def decode_coscheduling_group(raw: bytes) -> CoschedulingGroup:
    """Decode a scheduling.x-k8s.io PodGroup; ``minMember`` counts as at least 1, and a timeout of 0 as none."""
    decoded = _coscheduling(raw)
    spec, status = decoded.spec or _Coscheduling(), decoded.status or _CoschedulingStatus()
    return CoschedulingGroup(
        *decoded.metadata.identity,
        min_member=max(spec.min_member or 1, 1),
        timeout=float(spec.schedule_timeout_seconds or 0) or None,
        status=MemberStatus(
            status.phase or "",
            status.occupied_by or "",
            status.running or 0,
            status.succeeded or 0,
            status.failed or 0,
            status.schedule_start_time or "",
        ),
        provenance=_provenance(decoded.metadata),
    )


def _provenance(meta: Metadata) -> Provenance:
    by = (meta.annotations or {}).get(CREATED_BY_ANNOTATION, "")
    return Provenance(by, meta.resource_version, meta.deletion_timestamp is not None)
