"""How many of a resource a jobspec asks for: a number, or a range with a step rule (RFC 14; fluxion reference 3.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fluence_extender.matcher.embedded.scalars import integer_of, mapping_of, member, text_of
from fluence_extender.matcher.errors import InvalidJobspec

UNSIGNED_MAX = 2**32 - 1
_INT_MAX = 2**31 - 1
_LEAST_OPERAND = {"+": 1, "*": 2, "^": 2}


@dataclass(frozen=True, slots=True)
class Count:
    """``minimum`` up to ``maximum``, by steps: ``+`` adds the operand, ``*`` multiplies, ``^`` raises to its power."""

    minimum: int
    maximum: int
    operator: str = "+"
    operand: int = 1

    def within(self, available: int) -> int:
        """The most that the rule allows of what is available; 0 where that is less than the minimum."""
        if self.minimum > self.maximum or self.minimum > available:
            return 0
        limit = min(available, self.maximum)
        if self.operator == "+":
            return limit - (limit - self.minimum) % self.operand
        best = value = self.minimum
        while value <= limit:
            best = value
            value = value * self.operand if self.operator == "*" else _power(value, self.operand, limit)
        return best

    @property
    def most(self) -> int:
        """The most that the rule ever allows."""
        return self.within(UNSIGNED_MAX)


def _power(value: int, exponent: int, limit: int) -> int:
    """``value ** exponent``, or any number above ``limit`` where the power is above it."""
    if value >= 2 and exponent > limit.bit_length():
        return limit + 1
    return int(value**exponent)


def read_count(value: Any, where: str) -> Count:
    """Read a count. Raises InvalidJobspec."""
    if not isinstance(value, Mapping):
        number = integer_of(value, where, 0, UNSIGNED_MAX)
        return Count(number, number)
    fields = mapping_of(value, where)
    minimum = integer_of(member(fields, "min", where), f"{where}.min", 0, UNSIGNED_MAX)
    given = [key for key in ("max", "operator", "operand") if key in fields]
    if not given:
        count = Count(minimum, UNSIGNED_MAX)
    elif len(given) == 3:
        count = Count(
            minimum,
            integer_of(fields["max"], f"{where}.max", 0, UNSIGNED_MAX),
            text_of(fields["operator"], f"{where}.operator"),
            integer_of(fields["operand"], f"{where}.operand", -_INT_MAX - 1, _INT_MAX),
        )
    else:
        raise InvalidJobspec(f"{where}: 'max', 'operator' and 'operand' go together")
    _check(count, where)
    return count


def _check(count: Count, where: str) -> None:
    if count.minimum < 1:
        raise InvalidJobspec(f"{where}: 'min' must be greater than zero")
    if count.maximum < count.minimum:
        raise InvalidJobspec(f"{where}: 'max' must be greater than or equal to 'min'")
    least = _LEAST_OPERAND.get(count.operator)
    if least is None:
        raise InvalidJobspec(f"{where}: {count.operator!r} isn't a count operator")
    if count.operand < least:
        raise InvalidJobspec(f"{where}: the operand of {count.operator!r} must be at least {least}")
    if count.operator == "^" and count.minimum < 2:
        raise InvalidJobspec(f"{where}: 'min' must be greater than one for '^'")
