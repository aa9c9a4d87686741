"""From a choice of amounts to a choice of units."""

from __future__ import annotations

from collections.abc import Callable, Collection

from fluence_extender.matcher.counted.jobs import Share
from fluence_extender.matcher.counted.matching import Choice
from fluence_extender.matcher.counted.ranges import Ranges, take_highest, take_lowest, union
from fluence_extender.matcher.counted.request import Request, Shape
from fluence_extender.matcher.counted.state import State
from fluence_extender.matcher.counted.view import View

Take = Callable[[Ranges, int], tuple[Ranges, Ranges]]


def grant(state: State, request: Request, view: View, choice: Choice) -> tuple[Share, ...]:
    """The shares of a choice: the lowest or the highest free ids of a node first, as the policy has it.

    Where nodes are taken with all that is on them (``*nodex`` policies, ``exclusive: true``), every free unit is.
    """
    table = state.table
    entire = state.policy.whole_nodes or request.exclusive_nodes
    whole = entire or request.shape is Shape.WHOLE
    take = take_lowest if state.policy.ascending else take_highest
    shares = []
    for place, row in enumerate(choice.rows):
        node = table.node(row)
        if entire:
            held = [(pool.type, view.units(pool.type, row)) for pool in node.pools]
            taken = tuple((name, units) for name, units in held if units)
        elif choice.picks is not None:
            picks = choice.picks[place]
            taken = tuple(
                (name, _picked(view.units(name, row), units[place] // len(picks), picks, take))
                for name, units in choice.units
            )
        else:
            taken = tuple(
                (name, take(view.units(name, row), units[place])[0]) for name, units in choice.units
            )
        shares.append(Share(row, int(table.serial[row]), node, taken, whole, entire))
    return tuple(shares)


def _picked(free: Ranges, group: int, picks: Collection[int], take: Take) -> Ranges:
    """The units of the groups numbered ``picks``, where ``free`` is cut into groups from one end."""
    taken: Ranges = ()
    for place in range(max(picks) + 1):
        units, free = take(free, group)
        if place in picks:
            taken = union(taken, units)
    return taken
