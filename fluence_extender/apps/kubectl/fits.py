"""How many members fit on the present nodes: the sums behind the service's reason, for people.

These sums cover cpu, memory, devices of nodes, pod slots and closed nodes. They don't cover tolerations, selectors and
spread constraints, as kube-scheduler and the service do. So they explain the service's answer and never replace it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from fluence_extender.model.bisection import largest_fitting

if TYPE_CHECKING:
    from fluence_extender.apps.kubectl.state_api import Item

BUSY = "Busy"
"""The ``why`` of a gang that would fit if nothing else ran."""

SCALABLE = ("cpu", "memory")
_STEPS = {"cpu": 0.001, "memory": 2**20}
"""The steps in which a smaller request is searched for: cores, bytes."""


def amounts_lacking(story: Item, nodes: Sequence[Item]) -> tuple[str, ...]:
    """Return the resources of nodes that the members of a gang lack, if these sums agree with the service's.

    Return nothing if something else keeps the members waiting (a selector, a topology, a device, an invalid request),
    because the sums would mislead.
    """
    count, lacking, asks = story.get("fitting"), tuple(story.get("lacking", ())), story["asks"]
    if count is None or not lacking:
        return ()
    fit = sum(min(sum(fitting(nodes, ask["requests"]).values()), ask["members"]) for ask in asks)
    # Of members that differ, each kind is counted alone here, so the sum may be too high.
    agree = fit == count or (fit > count and len(asks) > 1)
    short = fit < sum(ask["members"] for ask in asks)
    requested = {name for ask in asks for name in ask["requests"]}
    return lacking if agree and short and requested.issuperset(lacking) else ()


def considered(story: Item, nodes: Sequence[Item]) -> Sequence[Item]:
    """Return the nodes that the service has counted. A gang that isn't busy doesn't fit even on empty ones."""
    if story["why"] == BUSY:
        return nodes
    return [{**node, "free": node["allocatable"]} for node in nodes]


def fitting(nodes: Sequence[Item], requests: Mapping[str, float]) -> dict[str, int]:
    """Return how many times ``requests`` fits on each open node on which it fits at all."""
    found: dict[str, int] = {}
    for node in nodes:
        count = times(node["free"], requests) if node["schedulable"] else 0
        if count:
            found[node["name"]] = count
    return found


def times(free: Mapping[str, float], requests: Mapping[str, float]) -> int:
    """Return how many times ``requests`` fits into ``free``."""
    counts = [int((free.get(name, 0) + 1e-9) // need) for name, need in requests.items() if need > 0]
    return max(min(counts, default=0), 0)


def largest_that_fits(
    nodes: Sequence[Item], requests: Mapping[str, float], members: int, name: str
) -> float | None:
    """Return the largest request for ``name`` with which all ``members`` fit, None if none helps."""
    step = _STEPS[name]

    def fits(steps: int) -> bool:
        return sum(fitting(nodes, {**requests, name: steps * step}).values()) >= members

    most = largest_fitting(int(requests[name] / step), fits)
    return most * step if most else None


def free_in_all(nodes: Sequence[Item], names: Sequence[str]) -> dict[str, float]:
    """Return how much of the resources ``names`` is free on all open nodes together."""
    usable = [node["free"] for node in nodes if node["schedulable"]]
    return {name: sum(max(free.get(name, 0), 0) for free in usable) for name in names}
