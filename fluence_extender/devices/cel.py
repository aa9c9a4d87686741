"""CEL for the expressions of DeviceClasses and claims, with a limit on the work of an evaluation.

The library evaluates the language. This module has the additions of Kubernetes: quantities, semantic versions,
``cel.bind``, equality across types, and a device whose unknown domains are empty. Syntax that the library's grammar
lacks, such as optional fields (``?.``), can't be read.

Sources: the environment of k8s.io/dynamic-resource-allocation/cel; k8s.io/apiserver/pkg/cel/library for quantities and
semantic versions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import total_ordering
from itertools import chain
from typing import Any

import celpy
from celpy import celtypes
from celpy.evaluation import Activation, CELEvalError, Evaluator

from fluence_extender.model.devices import Attribute, NodeDevice, Version
from fluence_extender.model.quantity import nanos

MOST_STEPS = 10_000
"""The most parts of an expression that one evaluation visits; parts in loops count each time.

A list or a map that is made counts as many as it has elements, and a text in it one for ten characters.
"""

SEEN_AT_A_STEP = 100
"""The elements of a list or a map (or ten times as many characters) that a second look takes for one step."""

FEW_STEPS = 200
"""The steps of an evaluation that don't count as costly."""

LONGEST_TEXT = 100_000
"""The most characters of a text in which something is replaced."""

DRIVER, ATTRIBUTES, CAPACITY, SHARED = "driver", "attributes", "capacity", "allowMultipleAllocations"

Read = Callable[[str, str, str], None]
"""Called for each read: the kind (`DRIVER`, `SHARED`, `ATTRIBUTES`, `CAPACITY`), the domain and the id ("" for all)."""


class CelError(Exception):
    """An expression can't be read, fails or costs too much, as the text says."""


class Program:
    """A compiled expression. Raises `CelError` if it can't be read.

    ``steps`` are those of its last evaluation, and ``costly`` is how many of them count as costly.
    """

    def __init__(self, expression: str) -> None:
        try:
            environment = celpy.Environment(runner_class=_Runner)
            runner = environment.program(environment.compile(expression), functions=_FUNCTIONS)
        except Exception as error:
            # The library names no base of its errors, and users write the expressions.
            raise CelError(f"can't be read{_cause(error)}") from error
        assert isinstance(runner, _Runner)
        self._runner = runner
        self.steps = self.costly = 0

    def selects(self, device: NodeDevice, read: Read) -> bool:
        """Return whether it selects the device; ``read`` is called for each read. Raises `CelError`."""
        limit = _Limit()
        try:
            found = self._runner.within(limit, {"device": _cel_device(device, read)})
        except _TooCostly as error:
            raise CelError(f"takes more than {MOST_STEPS} steps") from error
        except Exception as error:
            raise CelError(f"fails{_cause(error)}") from error
        finally:
            self.steps = limit.steps
            self.costly = max(limit.steps - FEW_STEPS, 0)
        if not isinstance(found, celtypes.BoolType):
            raise CelError("isn't true or false")
        return bool(found)


def _cause(error: Exception) -> str:
    lines = str(error.args[0] if error.args else error).splitlines()
    return f": {lines[0]}" if lines else ""


class _TooCostly(Exception):
    """An evaluation has taken `MOST_STEPS`."""


# The device.


def _cel_device(device: NodeDevice, read: Read) -> celtypes.MapType:
    return _Recorded(
        {
            DRIVER: celtypes.StringType(device.driver),
            SHARED: celtypes.BoolType(device.shareable),
            ATTRIBUTES: _domains(ATTRIBUTES, device.attributes, read),
            CAPACITY: _domains(CAPACITY, device.amounts, read),
        },
        lambda key: read(key, "", "") if key in (DRIVER, SHARED) else None,
    )


def _domains(kind: str, values: Mapping[str, Attribute], read: Read) -> celtypes.MapType:
    domains: dict[str, dict[str, Any]] = {}
    for key, one in values.items():
        domain, _, name = key.rpartition("/")
        domains.setdefault(domain, {})[name] = _cel_value(one, kind == CAPACITY)

    def inside(domain: str) -> celtypes.MapType:
        return _Recorded(domains.get(domain, {}), lambda key: read(kind, domain, key))

    found = {domain: inside(domain) for domain in domains}
    return _Recorded(found, lambda key: None if key else read(kind, "", ""), inside)


class _Recorded(celtypes.MapType):
    """A map that reports which key is read; "" stands for all of them. ``missing`` makes the value of a missing key."""

    def __init__(self, values: Mapping[str, Any], note: Any, missing: Any = None) -> None:
        super().__init__({celtypes.StringType(key): value for key, value in values.items()})
        self._note = note
        self._missing = missing

    def __getitem__(self, key: Any) -> Any:
        self._note(str(key))
        if self._missing is not None and key not in self.keys():
            return self._missing(str(key))
        return super().__getitem__(key)

    def get(self, key: Any, default: Any = None) -> Any:
        self._note(str(key))
        if self._missing is not None and key not in self.keys():
            return self._missing(str(key))
        return super().get(key, default)

    def __iter__(self) -> Iterator[Any]:
        self._note("")
        return super().__iter__()

    def __contains__(self, key: object) -> bool:
        self._note("")
        return super().__contains__(key)

    def __len__(self) -> int:
        self._note("")
        return super().__len__()

    def __eq__(self, other: object) -> Any:
        self._note("")
        return super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]


def _cel_value(value: Attribute, is_amount: bool) -> Any:
    match value:
        case int() if is_amount:
            return _Quantity(value)
        case bool():
            return celtypes.BoolType(value)
        case int():
            return celtypes.IntType(value)
        case Version(text):
            return _Semver.parse(text)
    return celtypes.StringType(value)


# Values and functions that Kubernetes adds to CEL.


@total_ordering
@dataclass(frozen=True)
class _Quantity:
    """An amount, in billionths."""

    amount: int

    def __lt__(self, other: _Quantity) -> bool:
        return self.amount < other.amount


@total_ordering
@dataclass(frozen=True)
class _Semver:
    """A semantic version (semver.org 2.0.0): a version is more than its own pre-releases."""

    numbers: tuple[int, int, int]
    before: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> _Semver:
        core, _, pre = text.partition("+")[0].partition("-")
        parts = core.split(".")
        if len(parts) != 3 or not all(one.isascii() and one.isdigit() for one in parts):
            raise ValueError(f"{text!r} isn't a semantic version")
        return cls((int(parts[0]), int(parts[1]), int(parts[2])), tuple(pre.split(".")) if pre else ())

    def __lt__(self, other: _Semver) -> bool:
        return self._key() < other._key()

    def _key(self) -> tuple[object, ...]:
        parts = [(0, int(one), "") if one.isdigit() else (1, 0, one) for one in self.before]
        return self.numbers, not self.before, parts


def _compared(one: Any, other: Any) -> celtypes.IntType:
    if type(one) is not type(other) or not isinstance(one, _Quantity | _Semver):
        raise TypeError("only two quantities or two versions can be compared")
    return celtypes.IntType((one > other) - (one < other))


def _is(parse: Any, text: Any) -> celtypes.BoolType:
    try:
        parse(text)
    except ValueError:
        return celtypes.BoolType(False)
    return celtypes.BoolType(True)


def _quantity(text: Any) -> _Quantity:
    return _Quantity(nanos(str(text)))


def _semver(text: Any) -> _Semver:
    return _Semver.parse(str(text))


def _includes(target: Any, value: Any) -> celtypes.BoolType:
    return celtypes.BoolType(value in target if isinstance(target, list) else target == value)


def _of_text(change: Any) -> Any:
    return lambda text, *more: celtypes.StringType(change(str(text), *map(str, more)))


def _replaced(text: Any, old: Any, new: Any) -> celtypes.StringType:
    text, old, new = str(text), str(old), str(new)
    if len(text) + text.count(old) * len(new) > LONGEST_TEXT:
        raise _TooCostly
    return celtypes.StringType(text.replace(old, new))


def _equal(one: Any, other: Any) -> Any:
    """Return whether values are equal. Those of different types aren't, and numbers have one type.

    An error stays an error.
    """
    for failed in (one, other):
        if isinstance(failed, CELEvalError):
            return failed
    numbers = (celtypes.IntType, celtypes.UintType, celtypes.DoubleType)
    if type(one) is not type(other) and not (isinstance(one, numbers) and isinstance(other, numbers)):
        return celtypes.BoolType(False)
    return celtypes.BoolType(one == other)


def _unequal(one: Any, other: Any) -> Any:
    found = _equal(one, other)
    return celtypes.BoolType(not found) if isinstance(found, celtypes.BoolType) else found


_FUNCTIONS: dict[str, Any] = {
    "_==_": _equal,
    "_!=_": _unequal,
    "quantity": _quantity,
    "isQuantity": lambda text: _is(_quantity, text),
    "semver": _semver,
    "isSemver": lambda text: _is(_semver, text),
    "compareTo": _compared,
    "isGreaterThan": lambda one, other: celtypes.BoolType(_compared(one, other) > 0),
    "isLessThan": lambda one, other: celtypes.BoolType(_compared(one, other) < 0),
    "major": lambda one: celtypes.IntType(one.numbers[0]),
    "minor": lambda one: celtypes.IntType(one.numbers[1]),
    "patch": lambda one: celtypes.IntType(one.numbers[2]),
    "includes": _includes,
    "lowerAscii": _of_text(str.lower),
    "upperAscii": _of_text(str.upper),
    "trim": _of_text(str.strip),
    "replace": _replaced,
}


# Evaluation.


class _Limit:
    """The steps of one evaluation. Few parts can make a large value, so values count by their size."""

    def __init__(self) -> None:
        self.steps = 0
        self._sizes: dict[int, tuple[object, int]] = {}
        """The size of each list and map by its id. They are kept, so that the ids stay theirs."""

    def step(self, count: int = 1) -> None:
        self.steps += count
        if self.steps > MOST_STEPS:
            raise _TooCostly

    def seen(self, value: Any) -> Any:
        """Count a value that a part has, and return it."""
        self.step(self._size(value) // SEEN_AT_A_STEP)
        return value

    def _size(self, value: Any) -> int:
        if isinstance(value, str | bytes):
            return len(value) // 10
        if not isinstance(value, list | dict) or isinstance(value, _Recorded):
            return 0
        known = self._sizes.get(id(value))
        if known is None:
            parts = chain(value.keys(), value.values()) if isinstance(value, dict) else value
            known = self._sizes[id(value)] = value, sum(1 + self._size(one) for one in parts)
            self.step(known[1])
        return known[1]


class _LimitedEvaluator(Evaluator):
    """The library's evaluator, with a limit and with ``cel.bind``."""

    def __init__(self, ast: Any, activation: Activation, limit: _Limit) -> None:
        super().__init__(ast, activation)
        self._limit = limit

    def _visit_tree(self, tree: Any) -> Any:
        self._limit.step()
        return self._limit.seen(super()._visit_tree(tree))

    def visit(self, tree: Any) -> Any:
        self._limit.step()
        return self._limit.seen(super().visit(tree))

    def sub_evaluator(self, ast: Any) -> Evaluator:
        return _LimitedEvaluator(ast, self.activation, self._limit)

    def member_dot_arg(self, tree: Any) -> Any:
        """Evaluate a method; ``cel.bind(name, value, expression)`` is a macro (cel-go ext.Bindings)."""
        subject, method = tree.children[:2]
        arguments = tree.children[2].children if len(tree.children) == 3 else []
        if method != "bind" or len(arguments) != 3 or _identifier(subject) != "cel":
            return super().member_dot_arg(tree)
        value = self.visit(arguments[1])
        if isinstance(value, CELEvalError):
            return value
        return self.sub_evaluator(arguments[2]).evaluate({_identifier(arguments[0]): value})


def _identifier(tree: Any) -> str:
    """Return the name if the tree is only a name, else ""."""
    while not isinstance(tree, str):
        if len(tree.children) != 1:
            return ""
        tree = tree.children[0]
    return str(tree)


class _Runner(celpy.InterpretedRunner):
    def within(self, limit: _Limit, context: Any) -> Any:
        """Evaluate with a limit."""
        return _LimitedEvaluator(self.ast, self.new_activation(), limit).evaluate(context)
