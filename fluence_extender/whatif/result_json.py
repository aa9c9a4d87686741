"""Results of a simulation as JSON values.

The fields of `Reduction` and `VictimSummary` are part of the public interface under their own names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime

from fluence_extender.model.assignment import Assignment
from fluence_extender.model.notation import format_duration, format_time
from fluence_extender.whatif.manifests import SimulationRequest
from fluence_extender.whatif.preemption_preview import PreemptionPreview
from fluence_extender.whatif.simulation import SimulationResult


def results_as_json(
    results: Sequence[SimulationResult], request: SimulationRequest, now: float
) -> dict[str, object]:
    """Return the results as JSON values; times are in RFC 3339, with the duration from ``now`` beside them."""
    return {
        "fits": all(result.fits for result in results),
        "gangs": [_result(result, now) for result in results],
        "ignored": request.ignored,
        "notes": request.notes,
    }


def _result(result: SimulationResult, now: float) -> dict[str, object]:
    earliest = result.earliest
    return {
        "gang": result.gang,
        "members": result.members,
        "fits": result.fits,
        "reason": result.reason.shown.full_text if result.reason is not None else "",
        "why": result.reason.code.value if result.reason is not None else "",
        "placement": _placement(result.placed),
        "earliestStart": format_time(datetime.fromtimestamp(earliest, UTC)) if earliest is not None else None,
        "earliestIn": format_duration(max(earliest - now, 0.0)) if earliest is not None else None,
        "preemption": _preemption(result.preemption),
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


def _preemption(found: PreemptionPreview | None) -> dict[str, object] | None:
    if found is None:
        return None
    return {
        "outcome": found.outcome.value,
        "text": found.text,
        "victims": [asdict(one) for one in found.victims],
        "placement": _placement(found.placed),
    }
