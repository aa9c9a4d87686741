"""The answers to a question as JSON values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from fluence_extender.model.assignment import Assignment
from fluence_extender.model.notation import format_duration, format_time
from fluence_extender.whatif.manifests import Asked
from fluence_extender.whatif.preemption import Preemption
from fluence_extender.whatif.simulation import Answer


def shown(answers: Sequence[Answer], asked: Asked, now: float) -> dict[str, object]:
    """The answers as JSON values; times are RFC 3339 and, beside it, seconds from now."""
    return {
        "fits": all(answer.fits for answer in answers),
        "gangs": [_shown(answer, now) for answer in answers],
        "ignored": asked.ignored,
        "notes": asked.notes,
    }


def _shown(answer: Answer, now: float) -> dict[str, object]:
    earliest = answer.earliest
    return {
        "gang": answer.gang,
        "members": answer.members,
        "fits": answer.fits,
        "reason": answer.reason.text if answer.reason is not None else "",
        "why": answer.reason.code.value if answer.reason is not None else "",
        "placement": _placement(answer.placed),
        "earliestStart": _moment(earliest) if earliest is not None else None,
        "earliestIn": format_duration(max(earliest - now, 0.0)) if earliest is not None else None,
        "preemption": _preemption(answer.preemption),
        "reductions": [
            {"what": one.what, "wanted": one.wanted, "fitting": one.fitting, "text": one.text}
            for one in answer.reductions
        ],
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


def _preemption(found: Preemption | None) -> dict[str, object] | None:
    if found is None:
        return None
    return {
        "outcome": found.outcome.value,
        "text": found.text,
        "victims": [
            {
                "gang": one.gang,
                "priority": one.priority,
                "pods": one.pods,
                "members": one.members,
                "surplus": one.surplus,
            }
            for one in found.victims
        ],
        "placement": _placement(found.placed),
    }


def _moment(at: float) -> str:
    return format_time(datetime.fromtimestamp(at, UTC))
