"""What one task on a backend costs, from the parts of its price.

A task of n shots costs ``cost_per_task + n * cost_per_shot`` US dollars where either is known, whatever else the
backend says. A simulator is billed by the minute: ``cost_per_minute`` counts as 0.05 of a minute, about the smallest
bill of three seconds, unless a cost is stated.
"""

from __future__ import annotations

from dataclasses import replace

from fluence_extender.selection.backend import COST, Backend

PER_TASK = "cost_per_task"
PER_SHOT = "cost_per_shot"
PER_MINUTE = "cost_per_minute"
SMALLEST_BILL = 0.05
"""Minutes."""


def priced(backend: Backend, shots: int) -> Backend:
    """``backend`` with ``cost_usd`` for one task of ``shots`` shots, where its price is known."""
    task, shot, minute = (backend.number(key) for key in (PER_TASK, PER_SHOT, PER_MINUTE))
    if task is not None or shot is not None:
        cost = (task or 0.0) + shots * (shot or 0.0)
    elif minute is not None and backend.number(COST) is None:
        cost = minute * SMALLEST_BILL
    else:
        return backend
    # Decimal prices don't add up exactly in binary: 0.1 + 0.2 is shown and compared as 0.3.
    return replace(backend, numbers={**backend.numbers, COST: round(cost, 12)})
