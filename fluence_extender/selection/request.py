"""What an object asks of selection, read from its annotations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from fluence_extender.model.names import (
    SELECT_CANDIDATES_ANNOTATION,
    SELECT_CONSTRAINTS_ANNOTATION,
    SELECT_POLICY_ANNOTATION,
    SELECT_PREFIX,
    SELECT_RESULT_ANNOTATION,
    SELECT_SHOTS_ANNOTATION,
)

DEFAULT_SHOTS = 1000
SHOTS_VARIABLE = "N_SHOTS"

_KNOWN = (
    SELECT_CANDIDATES_ANNOTATION,
    SELECT_CONSTRAINTS_ANNOTATION,
    SELECT_POLICY_ANNOTATION,
    SELECT_RESULT_ANNOTATION,
    SELECT_SHOTS_ANNOTATION,
)


@dataclass(frozen=True, slots=True)
class SelectionRequest:
    """The request of one object: ``policy`` and ``constraints`` as written, ``candidates`` None for any backend.

    ``notes`` say which annotations were ignored.
    """

    policy: str
    constraints: str = ""
    candidates: frozenset[str] | None = None
    shots: int = DEFAULT_SHOTS
    notes: tuple[str, ...] = ()


def read_request(annotations: Mapping[str, str], variables: Iterable[str] = ()) -> SelectionRequest:
    """Return the request in ``annotations``; ``variables`` are the values of N_SHOTS in the object's containers.

    Shots are those of the annotation, else of the first container that states a whole number above 0, else 1000.
    """
    notes = unknown_annotations(annotations)
    stated = annotations.get(SELECT_SHOTS_ANNOTATION, "").strip()
    shots = _whole_number(stated)
    if shots is None:
        shots = next((number for text in variables if (number := _whole_number(text))), DEFAULT_SHOTS)
        if stated:
            notes.append(f"{SELECT_SHOTS_ANNOTATION} is {stated!r}, no whole number above 0; {shots} is used")
    names = annotations.get(SELECT_CANDIDATES_ANNOTATION, "").split(",")
    candidates = frozenset(name.strip() for name in names if name.strip())
    return SelectionRequest(
        policy=annotations.get(SELECT_POLICY_ANNOTATION, ""),
        constraints=annotations.get(SELECT_CONSTRAINTS_ANNOTATION, ""),
        candidates=candidates or None,
        shots=shots,
        notes=tuple(notes),
    )


def unknown_annotations(annotations: Mapping[str, str]) -> list[str]:
    """Return a note for each ``select-`` annotation without a meaning, with the one that may be meant."""
    return [
        _unknown(key) for key in sorted(annotations) if key.startswith(SELECT_PREFIX) and key not in _KNOWN
    ]


def _whole_number(text: str) -> int | None:
    text = text.strip()
    if not (text.isascii() and text.isdigit() and len(text) <= 12):
        return None
    return int(text) or None


def _unknown(key: str) -> str:
    if key == f"{SELECT_PREFIX}backend":
        return f"{key} has no meaning; require-backend names a backend"
    close = get_close_matches(key, _KNOWN, n=1)
    return f"{key} has no meaning" + (f"; did you mean {close[0]}?" if close else "")
