"""Results of a simulation as JSON values.

The fields of `Reduction` are part of the public interface under their own names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime

from fluence_extender.model.access import CallerSight
from fluence_extender.model.assignment import Assignment
from fluence_extender.model.notation import format_duration, format_time
from fluence_extender.whatif.manifests import SimulationRequest
from fluence_extender.whatif.preemption_preview import PreemptionPreview
from fluence_extender.whatif.simulation import SimulationResult


def results_as_json(
    results: Sequence[SimulationResult], request: SimulationRequest, now: float, sight: CallerSight
) -> dict[str, object]:
    """Return the results as JSON values, in words for ``sight``.

    Times are in RFC 3339, with the duration from ``now`` beside them.
    """
    return {
        "fits": all(result.fits for result in results),
        "gangs": [_result(result, now, sight) for result in results],
        "ignored": request.ignored,
        "notes": request.notes,
    }


def named_namespaces(results: Sequence[SimulationResult]) -> frozenset[str]:
    """Return the namespaces of all gangs that the results could name besides those of the question."""
    found: set[str] = set()
    for result in results:
        preemption = result.preemption
        for one in (result.reason, preemption):
            if one is not None and one.with_names is not None:
                found |= one.with_names.namespaces
        if preemption is not None:
            found.update(victim.gang.namespace for victim in preemption.victims)
    return frozenset(found)


def _result(result: SimulationResult, now: float, sight: CallerSight) -> dict[str, object]:
    earliest = result.earliest
    reason = result.reason.shown if result.reason is not None else None
    return {
        "gang": result.gang,
        "members": result.members,
        "fits": result.fits,
        "reason": sight.wording(reason.text, reason.with_names) if reason is not None else "",
        "why": reason.code.value if reason is not None else "",
        "placement": _placement(result.placed),
        "earliestStart": format_time(datetime.fromtimestamp(earliest, UTC)) if earliest is not None else None,
        "earliestIn": format_duration(max(earliest - now, 0.0)) if earliest is not None else None,
        "preemption": _preemption(result.preemption, sight),
        "reductions": [asdict(one) for one in result.reductions],
    }


def _placement(placed: Iterable[tuple[str, Assignment]]) -> list[dict[str, object]]:
    return [
        {
            "pod": name,
            "node": one.node,
            "backend": one.backend,
            "devices": [
                {"path": share.path, "type": share.type, "amount": share.amount} for share in one.devices
            ],
        }
        for name, one in placed
    ]


def _preemption(found: PreemptionPreview | None, sight: CallerSight) -> dict[str, object] | None:
    if found is None:
        return None
    shown = [one for one in found.victims if one.gang.namespace in sight]
    return {
        "outcome": found.outcome.value,
        "text": sight.wording(found.text, found.with_names),
        "victims": [
            {
                "gang": str(one.gang),
                "priority": one.priority,
                "pods": one.pods,
                "members": one.members,
                "surplus": one.surplus,
            }
            for one in shown
        ],
        "hidden": len(found.victims) - len(shown),
        "placement": _placement(found.placed),
    }
