"""The record of a selection on the object: the annotation ``select-result``.

It is a JSON object: ``chosen``, ``policy``, ``shots``, ``resolved_at`` (RFC 3339, UTC), ``candidates`` (those left at
the end, with all their attributes), ``dropped`` (name -> reason), ``notes``. All annotations of an object together may
have 256 KiB (Kubernetes API), so the record is bounded: what doesn't fit is left out, and ``omitted`` counts it.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from fluence_extender.model.notation import format_time
from fluence_extender.model.wording import shortened
from fluence_extender.selection.backend import Backend
from fluence_extender.selection.pipeline import Selection

LARGEST = 16 * 1024
"""Bytes."""

_LONGEST_TEXT = 300
_OMITTED = 80
"""Bytes that are left free for ``omitted``."""


def select_result(selection: Selection, now: datetime) -> str:
    """Return the annotation's value, at most `LARGEST` bytes of ASCII."""
    request = selection.request
    record: dict[str, Any] = {
        "chosen": selection.chosen,
        "policy": _short(request.policy),
        "shots": request.shots,
        "resolved_at": format_time(now.astimezone(UTC)),
        "candidates": [_candidate(one) for one in selection.candidates],
        "dropped": {name: _short(selection.dropped[name]) for name in sorted(selection.dropped)},
        "notes": [_short(note) for note in selection.notes],
    }
    if request.constraints:
        record["constraints"] = _short(request.constraints)
    text = _json(record)
    if len(text) > LARGEST:
        text = _json(_bounded(record))
    return text


def _bounded(record: dict[str, Any]) -> dict[str, Any]:
    """Return as much of a record as fits: the chosen backend, then reasons, then other candidates, then notes."""
    candidates, dropped, notes = record["candidates"], record["dropped"], record["notes"]
    kept = {**record, "candidates": [], "dropped": {}, "notes": [], "omitted": {}}
    space = LARGEST - len(_json(kept)) - _OMITTED
    for one in [*candidates[:1], *({name: why} for name, why in dropped.items()), *candidates[1:], *notes]:
        space -= len(_json(one)) + 1
        if space < 0:
            break
        if isinstance(one, str):
            kept["notes"].append(one)
        elif one in candidates:
            kept["candidates"].append(one)
        else:
            kept["dropped"].update(one)
    kept["omitted"] = {
        key: len(record[key]) - len(kept[key])
        for key in ("candidates", "dropped", "notes")
        if len(record[key]) > len(kept[key])
    }
    return kept


def _candidate(one: Backend) -> dict[str, Any]:
    numbers = {key: int(value) if value.is_integer() else value for key, value in sorted(one.numbers.items())}
    return {
        "name": one.name,
        "attributes": numbers,
        "strings": {key: _short(value) for key, value in sorted(one.strings.items())},
    }


def _short(text: str) -> str:
    return shortened(text, _LONGEST_TEXT)


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
