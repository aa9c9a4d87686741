"""Evaluation of CEL selectors: for which devices an expression holds.

The API server refuses expressions that could cost too much, and kube-scheduler limits the cost of an evaluation. The
evaluation here has a limit, too. An expression that fails or costs too much selects nothing, and the verdict says why.

An expression usually reads two or three attributes, in which thousands of devices have the same values. So each
evaluation records what it has read, and its verdict is cached by these values. It counts for all devices with the same
values.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fluence_extender.model.devices import NodeDevice

if TYPE_CHECKING:
    from fluence_extender.devices.cel import Program

MOST_COMPILED = 200_000
"""The most characters of the expressions that are kept compiled."""

MOST_REMEMBERED = 10_000
"""The most verdicts that are cached for one expression."""

SECONDS = 0.05
"""Seconds of processor time for one piece of work; after that, the rest of its devices is left for later."""

LONGEST_ERROR = 1_000
"""The most characters of an error."""

STEPS_OF_A_CHARACTER = 10
"""Compiling one character of an expression counts as so many steps."""

Place = tuple[str, str, str]
"""What is read: see `cel.Read`."""


@dataclass(slots=True)
class Findings:
    """The result of a piece of work: verdicts for the first devices, at least for one, or the fault of the expression.

    ``steps`` are those that it took, and ``costly`` is how many of them count as costly.
    """

    verdicts: list[bool | str] = field(default_factory=list)
    fault: str = ""
    steps: int = 0
    costly: int = 0


class Evaluations:
    """Compiled expressions with their earlier verdicts."""

    def __init__(self) -> None:
        self._selectors: OrderedDict[str, _Selector] = OrderedDict()
        self._characters = 0

    def judge(self, expression: str, devices: Sequence[NodeDevice]) -> Findings:
        """Return for which devices the expression holds."""
        answer = Findings()
        selector = self._selectors.get(expression)
        if selector is None:
            answer.steps = STEPS_OF_A_CHARACTER * len(expression)
            selector = self._compiled(expression)
        self._selectors.move_to_end(expression)
        answer.fault = selector.fault
        until = time.process_time() + SECONDS
        for device in devices if not selector.fault else ():
            answer.verdicts.append(selector.verdict(device, answer))
            if time.process_time() > until:
                break
        return answer

    def _compiled(self, expression: str) -> _Selector:
        selector = self._selectors[expression] = _Selector(expression)
        self._characters += len(expression)
        while self._characters > MOST_COMPILED and len(self._selectors) > 1:
            gone, _ = self._selectors.popitem(last=False)
            self._characters -= len(gone)
        return selector


@dataclass(slots=True)
class _Branch:
    """An evaluation reads ``place`` next; what follows depends on the value there."""

    place: Place
    by_value: dict[object, _Branch | bool | str] = field(default_factory=dict)


class _Selector:
    """One expression, with the verdicts of earlier evaluations as a tree over the values that they read."""

    def __init__(self, expression: str) -> None:
        # The library takes most of a second to load, and most clusters have no expressions.
        from fluence_extender.devices.cel import CelError, Program

        self._error = CelError
        self._known: _Branch | bool | str | None = None
        self._size = 0
        self._program: Program | None = None
        self.fault = ""
        try:
            self._program = Program(expression)
        except CelError as error:
            self.fault = str(error)[:LONGEST_ERROR]

    def verdict(self, device: NodeDevice, answer: Findings) -> bool | str:
        """Return whether it selects the device, or why that can't be decided; add its steps to ``answer``."""
        at = self._known
        while isinstance(at, _Branch):
            at = at.by_value.get(_value_at(device, at.place))
        answer.steps += 1
        return self._evaluate(device, answer) if at is None else at

    def _evaluate(self, device: NodeDevice, answer: Findings) -> bool | str:
        reads: dict[Place, object] = {}

        def read(*place: str) -> None:
            kind, domain, name = place
            if (kind, domain, name) not in reads:
                reads[kind, domain, name] = _value_at(device, (kind, domain, name))

        assert self._program is not None, "an expression that can't be read has a fault"
        verdict: bool | str
        try:
            verdict = self._program.selects(device, read)
        except self._error as error:
            verdict = str(error)[:LONGEST_ERROR]
        answer.steps += self._program.steps
        answer.costly += self._program.costly
        if self._size >= MOST_REMEMBERED:
            self._known, self._size = None, 0
        self._size += 1
        self._remember(list(reads.items()), verdict)
        return verdict

    def _remember(self, reads: list[tuple[Place, object]], verdict: bool | str) -> None:
        """Add a path to the tree; evaluations that read the same values go on with the same place."""
        leaf: _Branch | bool | str = verdict
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


def _value_at(device: NodeDevice, place: Place) -> object:
    """Return what is read at ``place``: one value with its type, or the names and values of one domain or of all."""
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
