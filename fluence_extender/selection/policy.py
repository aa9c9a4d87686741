"""Read a policy, such as ``require:min_qubits=20,online-only,min-cost``, as steps.

    min-ATTR, max-ATTR[:tol=N]      rank by any number
    require:min_ATTR=N, max_ATTR=N  bounds
    require:ATTR=VALUE              equality
    online-only                     online, or without a status
    prefer:NAME                     that backend, if it is a candidate

An attribute may be named by its alias everywhere. The tolerance for costs counts only for rankings by cost; ``:tol=N``
sets the tolerance of one ranking.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from fluence_extender.selection.backend import COST, attribute_key, parse_number
from fluence_extender.selection.errors import SelectionError
from fluence_extender.selection.steps import Step, bound, equal, online_only, prefer, rank

KNOWN = (
    *("min-cost", "max-cost", "min-queue", "max-queue", "min-qubits", "max-qubits"),
    *("online-only", "prefer:NAME", "require:min_ATTR=N", "require:max_ATTR=N", "require:ATTR=VALUE"),
)
_FORMS = "require:min_X=N, require:max_X=N or require:X=VALUE"


def parse_policy(text: str, cost_tolerance: float = 0.0) -> tuple[Step, ...]:
    """Return the steps of a policy, left to right; ``cost_tolerance`` is in US dollars. Raise `SelectionError`."""
    steps = tuple(_step(token, cost_tolerance) for token in _tokens(text))
    if not steps:
        raise SelectionError("empty selection policy: write e.g. min-cost")
    return steps


def parse_constraints(text: str) -> tuple[Step, ...]:
    """Return the steps of ``select-constraints``: each ``min_X=N``, ``max_X=N`` or ``X=VALUE`` is a require of its own.

    Raise `SelectionError`.
    """
    return tuple(_require(token, token) for token in _tokens(text))


def _tokens(text: str) -> Iterator[str]:
    return (token for part in text.split(",") if (token := part.strip()))


def _step(token: str, cost_tolerance: float) -> Step:
    word, colon, rest = token.partition(":")
    if word == "require" and colon:
        return _require(token, rest.strip())
    if word == "prefer" and rest.strip():
        return prefer(token, rest.strip())
    if token == "online-only":
        return online_only(token)
    direction, dash, attribute = word.partition("-")
    if direction in ("min", "max") and dash and attribute:
        key = attribute_key(attribute)
        tolerance = _tolerance(token, rest) if colon else cost_tolerance if key == COST else 0.0
        return rank(token, key, direction == "max", tolerance)
    raise SelectionError(f'unknown policy "{token}"; {_advice(token)}')


def _advice(token: str) -> str:
    word = token.partition(":")[0]
    direction, underscore, attribute = word.partition("_")
    if direction in ("min", "max") and underscore and attribute:
        return f'did you mean "{direction}-{attribute}", or "require:{word}=N"?'
    heads = {known.partition(":")[0]: known for known in reversed(KNOWN)}
    close = get_close_matches(word.lower().replace("_", "-"), heads, n=1, cutoff=0.6)
    if close:
        return f'did you mean "{heads[close[0]]}"?'
    return "known: min-ATTR, max-ATTR, " + ", ".join(KNOWN[6:])


def _tolerance(token: str, text: str) -> float:
    key, _, value = text.partition("=")
    number = parse_number(value)
    if key.strip() != "tol" or number is None or number < 0:
        raise SelectionError(
            f'policy "{token}": {text!r} is not a tolerance; write e.g. {token.partition(":")[0]}:tol=2'
        )
    return number


def _require(token: str, rule: str) -> Step:
    key, equals, value = (part.strip() for part in rule.partition("="))
    if not key or not equals or not value:
        raise SelectionError(f'malformed require "{token}" (want {_FORMS})')
    for prefix, at_least in (("min", True), ("max", False)):
        if key[:4] in (f"{prefix}_", f"{prefix}-"):
            limit = parse_number(value)
            if limit is None or not key[4:]:
                raise SelectionError(f'require "{token}": bad number "{value}" (want {_FORMS})')
            return bound(token, attribute_key(key[4:]), at_least, limit)
    return equal(token, attribute_key(key), value)
