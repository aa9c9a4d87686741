"""CEL selectors of devices: does an expression hold for a device?

The API server refuses expressions that could cost too much, and kube-scheduler limits the cost of an evaluation. The
evaluation here has a limit, too. An expression that fails or costs too much selects nothing, and the verdict says why.

An expression usually reads two or three attributes, in which thousands of devices have the same values. So each
evaluation records what it has read, and its verdict is cached by these values. It counts for all devices with the same
values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from fluence_extender.model.devices import NodeDevice

if TYPE_CHECKING:
    from fluence_extender.devices.cel import Program

MOST_EXPRESSIONS = 1024
"""The most expressions that are kept compiled. Users write them."""

MOST_REMEMBERED = 10_000
"""The most verdicts that are cached for one expression."""

LONGEST_WHY = 240
"""The most characters of an expression, and of an error, that a verdict quotes."""

Verdict = bool | str
"""Whether a device is selected, or the error if that can't be decided."""

Place = tuple[str, str, str]
"""What is read: see `cel.Read`."""


def verdict(expression: str, device: NodeDevice) -> Verdict:
    """Return whether the expression selects the device."""
    return _compiled(expression).verdict(device)


def selects(expressions: tuple[str, ...], device: NodeDevice) -> Verdict:
    """Return whether all expressions select the device; the first that doesn't, or that fails, decides."""
    for one in expressions:
        found = verdict(one, device)
        if found is not True:
            return found
    return True


@lru_cache(maxsize=MOST_EXPRESSIONS)
def _compiled(expression: str) -> _Selector:
    return _Selector(expression)


@dataclass(slots=True)
class _Branch:
    """An evaluation reads ``place`` next; what follows depends on the value there."""

    place: Place
    by_value: dict[object, _Branch | Verdict] = field(default_factory=dict)


class _Selector:
    """One expression, with the verdicts of earlier evaluations as a tree over the values that they read."""

    def __init__(self, expression: str) -> None:
        # The library takes most of a second to load, and most clusters have no expressions.
        from fluence_extender.devices.cel import CelError, Program

        self._error = CelError
        self._expression = expression
        self._known: _Branch | Verdict | None = None
        self._size = 0
        self._program: Program | None = None
        try:
            self._program = Program(expression)
        except CelError as error:
            self._known = self._failure(error)

    def verdict(self, device: NodeDevice) -> Verdict:
        at = self._known
        while isinstance(at, _Branch):
            at = at.by_value.get(_value_at(device, at.place))
        return self._evaluate(device) if at is None else at

    def _evaluate(self, device: NodeDevice) -> Verdict:
        reads: dict[Place, object] = {}

        def read(*place: str) -> None:
            kind, domain, name = place
            if (kind, domain, name) not in reads:
                reads[kind, domain, name] = _value_at(device, (kind, domain, name))

        assert self._program is not None, "an expression that can't be read has its verdict"
        found: Verdict
        try:
            found = self._program.selects(device, read)
        except self._error as error:
            found = self._failure(error)
        if self._program.exhausted:
            # The cached verdicts are dropped, so that the order of the devices doesn't matter.
            self._known = found = self._failure(self._error("takes too many steps for all devices together"))
            return found
        if self._size >= MOST_REMEMBERED:
            self._known, self._size = None, 0
        self._size += 1
        self._remember(list(reads.items()), found)
        return found

    def _remember(self, reads: list[tuple[Place, object]], found: Verdict) -> None:
        """Add a path to the tree; evaluations that read the same values go on with the same place."""
        leaf: _Branch | Verdict = found
        parent: tuple[_Branch, object] | None = None
        at, depth = self._known, 0
        while isinstance(at, _Branch):
            parent = at, reads[depth][1]
            at, depth = at.by_value.get(reads[depth][1]), depth + 1
        for place, value in reversed(reads[depth:]):
            leaf = _Branch(place, {value: leaf})
        if parent is None:
            self._known = leaf
        else:
            parent[0].by_value[parent[1]] = leaf

    def _failure(self, error: Exception) -> str:
        return f"the selector {_cut(self._expression)} {_cut(str(error))}"


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_WHY else text[: LONGEST_WHY - 3] + "..."


def _value_at(device: NodeDevice, place: Place) -> object:
    """Return what an evaluation reads there: one value with its type, or the names and values of a domain or of all."""
    kind, domain, name = place
    if kind == "driver":
        return device.driver
    if kind == "allowMultipleAllocations":
        return device.shareable
    values: Mapping[str, object] = device.attributes if kind == "attributes" else device.amounts
    if name:
        found = values.get(f"{domain}/{name}")
        return type(found), found
    prefix = f"{domain}/" if domain else ""
    return frozenset((key, type(one), one) for key, one in values.items() if key.startswith(prefix))
