"""Which rows of a table are shown: the filters, as they stand in the address of a page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar
from urllib.parse import urlencode

R = TypeVar("R")

PAGE = 100
"""Rows of a table that a page has at most."""


@dataclass(frozen=True, slots=True)
class Filters:
    """The parameters of an address that have a value."""

    given: Mapping[str, str]

    def __getitem__(self, name: str) -> str:
        return self.given.get(name, "")

    @property
    def page(self) -> int:
        """Return the number of the page, from 1 on."""
        digits = self["page"]
        return max(int(digits), 1) if digits.isdecimal() and len(digits) < 8 else 1

    def asks(self, *names: str) -> bool:
        """Return whether one of these parameters has a value."""
        return any(self.given.get(name) for name in names)

    def matches(self, *fields: tuple[str, str]) -> bool:
        """Return whether a row has, for each parameter in ``fields``, the value that is asked for."""
        given = self.given
        return all(given[name] == value for name, value in fields if given.get(name))

    def finds(self, *texts: str) -> bool:
        """Return whether the parameter ``text`` is a part of one of the texts, in upper or lower case."""
        wanted = self["text"].casefold()
        return not wanted or any(wanted in text.casefold() for text in texts)

    def address(self, path: str, **changed: str) -> str:
        """Return the address of ``path`` with these filters, some of them ``changed``; "" leaves one out."""
        parameters = {name: value for name, value in {**self.given, **changed}.items() if value}
        return path + (f"?{urlencode(parameters)}" if parameters else "")


@dataclass(frozen=True, slots=True)
class Cut(Generic[R]):
    """The rows of one page of a table, and where they stand in the whole."""

    rows: Sequence[R]
    total: int
    number: int
    pages: int


def cut(items: Iterable[Mapping[str, object]], make: Callable[..., R], number: int) -> Cut[R]:
    """Return page ``number`` of the rows that ``make`` makes of the items; only these are made."""
    found = list(items)
    pages = max(-(-len(found) // PAGE), 1)
    number = min(number, pages)
    shown = found[(number - 1) * PAGE : number * PAGE]
    return Cut([make(item) for item in shown], len(found), number, pages)


def choices(values: Iterable[str]) -> list[str]:
    """Return the values to choose from, each once."""
    return sorted({value for value in values if value})
