"""Decode PodGroups: native ones (scheduling.k8s.io, KEP-4671) and the coscheduling plugin's (scheduling.x-k8s.io)."""

from __future__ import annotations

from typing import Any

import msgspec

from fluence_extender.cluster.decode.objects import Int64, Metadata, Unread, tolerant_decoder
from fluence_extender.model.names import CREATED_BY_ANNOTATION
from fluence_extender.model.workload import CoschedulingGroup, MemberStatus, PodGroup, Provenance

TOGETHER = "PodGroup"
"""DisruptionMode in v1alpha2 of pods that are disrupted together."""


class _Gang(msgspec.Struct, rename="camel"):
    min_count: Int64 | None = None


class _Policy(msgspec.Struct):
    gang: _Gang | None = None


class _TopologyConstraint(msgspec.Struct):
    key: str = ""


class _Constraints(msgspec.Struct):
    topology: list[_TopologyConstraint] | None = None


class _Disruption(msgspec.Struct):
    """DisruptionMode from v1alpha3 on: a member says what is disrupted together."""

    all: dict[str, Any] | None = None


class _Native(msgspec.Struct, rename="camel"):
    scheduling_policy: _Policy | None = None
    scheduling_constraints: _Constraints | None = None
    disruption_mode: _Disruption | str | None = None
    priority_class_name: str | None = None


class _Coscheduling(msgspec.Struct, rename="camel"):
    min_member: Int64 | None = None
    schedule_timeout_seconds: Int64 | None = None


class _CoschedulingStatus(msgspec.Struct, rename="camel"):
    phase: str | None = None
    occupied_by: str | None = None
    running: Int64 | None = None
    succeeded: Int64 | None = None
    failed: Int64 | None = None
    schedule_start_time: str | None = None


_native = tolerant_decoder("PodGroup", _Native, Unread)
_coscheduling = tolerant_decoder("PodGroup", _Coscheduling, _CoschedulingStatus)


def decode_pod_group(raw: bytes) -> PodGroup:
    """Decode a scheduling.k8s.io PodGroup of any version from v1alpha2 on; the basic policy states no size."""
    meta, spec, _, problem = _native(raw)
    gang = spec.scheduling_policy.gang if spec.scheduling_policy else None
    constraints = spec.scheduling_constraints
    mode = spec.disruption_mode
    levels = tuple(one.key for one in (constraints.topology if constraints else None) or () if one.key)
    return PodGroup(
        *meta.identity,
        min_count=(gang.min_count or 1) if gang else None,
        levels=levels,
        indivisible=mode == TOGETHER if isinstance(mode, str) else mode is not None and mode.all is not None,
        priority_class=spec.priority_class_name or "",
        provenance=_provenance(meta),
        submission=meta.submission,
        problem=problem,
        size=len(raw),
    )


def decode_coscheduling_group(raw: bytes) -> CoschedulingGroup:
    """Decode a scheduling.x-k8s.io PodGroup; ``minMember`` counts as at least 1, and a timeout of 0 as none."""
    meta, spec, status, problem = _coscheduling(raw)
    return CoschedulingGroup(
        *meta.identity,
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
        provenance=_provenance(meta),
        submission=meta.submission,
        problem=problem,
        size=len(raw),
    )


def _provenance(meta: Metadata) -> Provenance:
    by = (meta.annotations or {}).get(CREATED_BY_ANNOTATION, "")
    return Provenance(by, meta.resource_version, meta.deletion_timestamp is not None)
