"""How many members would fit on nodes as they are: the same sums that the service does, for people to see.

Counting knows cpu, memory, devices of nodes and pod slots, and nodes that are closed; who tolerates, selects or spreads
what, kube-scheduler and the service know better. So this explains an answer and never gives one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

Item = dict[str, Any]

SCALABLE = ("cpu", "memory")
_STEPS = {"cpu": 0.001, "memory": 2**20}
"""How finely a smaller request is looked for: cores, bytes."""

_NOW = re.compile(r"busy: (\d+) of \d+ fit now, short of ([^\s,;(]+(?:, [^\s,;(]+)*)")
_EVER = re.compile(
    r"unsatisfiable: (\d+) of \d+ members would fit if nothing else ran, short of ([^\s,;(]+(?:, [^\s,;(]+)*)"
)
_NOBODY = "unsatisfiable: no node has "


def counted_alike(reason: str, asks: Sequence[Item], nodes: Sequence[Item]) -> tuple[str, ...]:
    """The amounts of nodes of which the members are short, if counting agrees with the service's ``reason``.

    Empty where something else keeps them out (a selector, a topology, a device, an invalid request), of which counting
    knows nothing: what it would say then is wrong.
    """
    asked = sorted({name for ask in asks for name in ask["requests"]})
    fit = sum(min(sum(fitting(nodes, ask["requests"]).values()), ask["members"]) for ask in asks)
    if reason.startswith(_NOBODY):
        return tuple(name for name in asked if f" {name} (the largest has" in reason) if fit == 0 else ()
    now = _NOW.match(reason)
    told = now or _EVER.match(reason)
    if told is None:
        return ()
    count, lacking = int(told[1]), tuple(told[2].split(", "))
    # Members that differ are counted each by itself, so more of them may seem to fit; equal ones are counted exactly.
    alike = fit == count if now and len(asks) == 1 else (fit >= count if now else fit <= count)
    short = fit < sum(ask["members"] for ask in asks)
    return lacking if alike and short and set(lacking) <= set(asked) else ()


def fitting(nodes: Sequence[Item], requests: Mapping[str, float]) -> dict[str, int]:
    """How many times ``requests`` fits on each open node, nodes without room left out."""
    found: dict[str, int] = {}
    for node in nodes:
        count = times(node["free"], requests) if node["schedulable"] else 0
        if count:
            found[node["name"]] = count
    return found


def times(free: Mapping[str, float], requests: Mapping[str, float]) -> int:
    """How many times ``requests`` is covered by ``free``."""
    counts = [int((free.get(name, 0) + 1e-9) // need) for name, need in requests.items() if need > 0]
    return max(min(counts, default=0), 0)


def largest_that_fits(
    nodes: Sequence[Item], requests: Mapping[str, float], members: int, name: str
) -> float | None:
    """The most of ``name`` that each of ``members`` could ask for and fit, None if none at all would help."""
    step = _STEPS[name]
    low, high = 0, int(requests[name] / step)
    while low < high:
        middle = (low + high + 1) // 2
        if sum(fitting(nodes, {**requests, name: middle * step}).values()) >= members:
            low = middle
        else:
            high = middle - 1
    return low * step if low else None


def free_in_all(nodes: Sequence[Item], names: Sequence[str]) -> dict[str, float]:
    """What is free on open nodes together."""
    usable = [node["free"] for node in nodes if node["schedulable"]]
    return {name: sum(max(free.get(name, 0), 0) for free in usable) for name in names}
