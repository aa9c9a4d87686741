"""The known verdicts of CEL selectors: which devices each of them selects.

Nothing is evaluated here. Users write expressions, so a separate process evaluates them (`evaluation`) when the `judge`
allows it. A verdict that isn't known yet is None.

Devices are told apart by the values that an expression can read. Equal values have one number while a device has them,
and an expression's verdicts are one byte for each number. So missing verdicts are found fast.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from weakref import WeakValueDictionary, ref

import numpy as np
from msgspec import structs

from fluence_extender.model.devices import Capacity, NodeDevice
from fluence_extender.model.wording import shortened
from fluence_extender.objects.devices import ResourceSlice

LONGEST_WHY = 240
"""The most characters of an expression, and of an error, that a verdict quotes."""

MOST_TEXTS = 200
"""How many different error texts are kept for one expression. Each later error gets the last of these texts."""

Verdict = bool | str | None
"""Whether a device is selected, the error if that can't be decided, or None if it isn't known yet."""

UNKNOWN, NO, YES, FAILED = range(4)
"""The bytes of verdicts; `FAILED` and more stand for the errors of a table."""


class Values:
    """What an expression can read of a device. ``device`` is a device with these values alone.

    ``serial`` never changes. ``number`` is theirs only while some device has them.
    """

    __slots__ = ("__weakref__", "device", "number", "serial")

    def __init__(self, device: NodeDevice, number: int, serial: int) -> None:
        self.device = device
        self.number = number
        self.serial = serial


class _Numbers:
    """The values of all devices by their numbers. A number is used again once no device has its values."""

    def __init__(self) -> None:
        self.revision = 0
        self.live = bytearray()
        self._values: list[ref[Values] | None] = []
        self._free: list[int] = []
        self._by_key: WeakValueDictionary[object, Values] = WeakValueDictionary()

    def of(self, device: NodeDevice) -> Values:
        """Return the values of a device."""
        attributes = frozenset((name, type(one), one) for name, one in device.attributes.items())
        amounts = device.amounts
        key = device.driver, device.shareable, attributes, frozenset(amounts.items())
        known = self._by_key.get(key)
        if known is not None:
            return known
        number = self._free.pop() if self._free else len(self.live)
        if number == len(self.live):
            self.live.append(0)
            self._values.append(None)
        else:
            for known_table in _tables.valuerefs():
                if (found := known_table()) is not None:
                    found.forget(number)
        capacity = {name: Capacity(amount) for name, amount in amounts.items()}
        plain = NodeDevice(device.driver, "", "", device.attributes, capacity, shareable=device.shareable)
        self.revision += 1
        made = self._by_key[key] = Values(plain, number, self.revision)
        self._values[number] = ref(made, lambda _: self._drop(number))
        self.live[number] = 1
        return made

    def _drop(self, number: int) -> None:
        self.live[number] = 0
        self._free.append(number)

    def at(self, number: int) -> Values | None:
        """Return the values with a number, None if no device has them."""
        known = self._values[number]
        return known() if known is not None else None


_numbers = _Numbers()
_tables: WeakValueDictionary[str, Table] = WeakValueDictionary()


class Table:
    """The verdicts of one expression.

    ``fault`` is its error for all devices, "" if there is none. ``costly`` counts the steps beyond a few for each
    evaluation. ``wanted_before`` says that somebody asked for a verdict that wasn't known.
    """

    __slots__ = (
        "__weakref__",
        "_codes",
        "_known_at",
        "_texts",
        "costly",
        "expression",
        "fault",
        "wanted_before",
    )

    def __init__(self, expression: str) -> None:
        self.expression = expression
        self.fault = ""
        self.costly = 0
        self.wanted_before = False
        self._codes = bytearray()
        self._texts: list[str] = []
        self._known_at = -1

    def verdict(self, device: NodeDevice) -> Verdict:
        """Return whether the expression selects the device."""
        if self.fault:
            return self.fault
        number = values_of(device).number
        code = self._codes[number] if number < len(self._codes) else UNKNOWN
        if code == UNKNOWN:
            self.wanted_before = True
            return None
        return code == YES if code < FAILED else self._texts[code - FAILED]

    def learn(self, values: Values, verdict: bool | str) -> None:
        """Record a verdict."""
        self._grow()
        if isinstance(verdict, str):
            text = self.worded(verdict)
            if text not in self._texts:
                if len(self._texts) < MOST_TEXTS:
                    self._texts.append(text)
                else:
                    text = self._texts[-1]
            self._codes[values.number] = FAILED + self._texts.index(text)
        else:
            self._codes[values.number] = YES if verdict else NO

    def fail(self, why: str) -> None:
        """Record that the expression selects no device at all."""
        self.fault = self.worded(why)

    def worded(self, why: str) -> str:
        """Return an error of the expression as a sentence."""
        return f"the selector {shortened(self.expression, LONGEST_WHY)} {shortened(why, LONGEST_WHY)}"

    def forget(self, number: int) -> None:
        """Forget the verdict for a number that is about to stand for other values."""
        if number < len(self._codes):
            self._codes[number] = UNKNOWN

    @property
    def complete(self) -> bool:
        """Whether the verdicts for all devices are known."""
        revision = _numbers.revision
        if not self.fault and self._known_at != revision:
            if len(self._unknown()):
                return False
            self._known_at = revision
        return True

    def lacking(self, most: int) -> list[Values]:
        """Return the values of devices for which no verdict is known, at most so many."""
        unknown = (_numbers.at(int(number)) for number in self._unknown()[:most])
        return [one for one in unknown if one is not None]

    def _unknown(self) -> np.ndarray[Any, np.dtype[np.intp]]:
        # Copy the verdicts: threads of what-if questions read them, and a buffer can't grow while it is read.
        live = np.frombuffer(bytes(_numbers.live), dtype=np.uint8) != 0
        codes = np.frombuffer(bytes(self._codes).ljust(len(live), b"\0"), dtype=np.uint8)
        return np.flatnonzero((codes[: len(live)] == UNKNOWN) & live)

    def _grow(self) -> None:
        more = len(_numbers.live) - len(self._codes)
        if more > 0:
            self._codes = self._codes + bytes(more)


def table(expression: str) -> Table:
    """Return the table of an expression. It is dropped once nobody refers to it."""
    existing = _tables.get(expression)
    if existing is None:
        existing = _tables[expression] = Table(expression)
    return existing


def values_of(device: NodeDevice) -> Values:
    """Return the values of a device; published devices have them already."""
    return device.values if isinstance(device.values, Values) else _numbers.of(device)


def numbered(described: ResourceSlice) -> ResourceSlice:
    """Return the slice with the values of its devices set."""
    devices = tuple(replace(device, values=_numbers.of(device)) for device in described.devices)
    return structs.replace(described, devices=devices)


def verdict(expression: str, device: NodeDevice) -> Verdict:
    """Return whether the expression selects the device."""
    known = _tables.get(expression)
    return None if known is None else known.verdict(device)


def selects(expressions: tuple[str, ...], device: NodeDevice) -> Verdict:
    """Return whether all expressions select the device; the first that doesn't, or that fails, decides."""
    for one in expressions:
        selected = verdict(one, device)
        if selected is not True:
            return selected
    return True
