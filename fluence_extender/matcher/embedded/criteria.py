"""The criteria of a search: ``status=down and ( property=big or names=node[1-3] )``.

Blanks between items mean ``and``; ``and`` and ``or`` bind alike, from the left; there is no ``not`` (fluxion reference
5.7). Everything is checked before anything is searched; what isn't a criterion is an `InvalidJobspec`.
"""

from __future__ import annotations

import string
from collections.abc import Iterator
from dataclasses import dataclass

from fluence_extender.matcher.embedded.hostlist import Hostlist
from fluence_extender.matcher.embedded.jobids import parse_jobid
from fluence_extender.matcher.errors import InvalidJobspec

_BLANKS = " \t"
_DEEPEST = 100
_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_WORDS = {
    "status": ("up", "down"),
    "sched-now": ("allocated", "free"),
    "sched-future": ("reserved", "free"),
    "agfilter": ("true", "t", "false", "f"),
}
JOB_KEYS = ("jobid-alloc", "jobid-reserved", "jobid-span", "jobid-tag")


@dataclass(frozen=True, slots=True)
class Item:
    """One ``key=value``; ``value`` is in lower case, ``jobid`` what it names for a key of `JOB_KEYS`."""

    key: str
    value: str
    jobid: int = 0


@dataclass(frozen=True, slots=True)
class Group:
    """Items and groups with whether each widens (``or``) or narrows (``and``) what came before it."""

    terms: tuple[tuple[bool, Item | Group], ...]

    def items(self) -> Iterator[Item]:
        """All items, from left to right."""
        for _, term in self.terms:
            if isinstance(term, Group):
                yield from term.items()
            else:
                yield term


def read_criteria(text: str) -> Group:
    """Read a whole expression. Raises InvalidJobspec."""
    if not isinstance(text, str):
        raise InvalidJobspec(f"criteria: must be a string, not {type(text).__name__}")
    if "\0" in text:
        raise InvalidJobspec("criteria: holds a NUL character")
    return _expression(text, 0)


def _expression(text: str, depth: int) -> Group:
    if depth > _DEEPEST:
        raise InvalidJobspec(f"criteria: more than {_DEEPEST} levels of parentheses")
    end = len(text.rstrip(_BLANKS))
    term, at = _term(text, 0, depth)
    terms: list[tuple[bool, Item | Group]] = [(True, term)]
    while at < end:
        if text[at] not in _BLANKS:
            raise InvalidJobspec(f"criteria: a blank is missing before {text[at : at + 40]!r}")
        word, after = _word(text, at)
        term, at = _term(text, after if word in ("and", "or") else at, depth)
        terms.append((word == "or", term))
    return Group(tuple(terms))


def _term(text: str, at: int, depth: int) -> tuple[Item | Group, int]:
    """The item or group from ``at`` on, and where it ends."""
    start = at + len(text[at:]) - len(text[at:].lstrip(_BLANKS))
    if text[start : start + 1] != "(":
        word, after = _word(text, at)
        return _item(word), after
    end = _closing(text, start)
    return _expression(text[start + 1 : end], depth + 1), end + 1


def _closing(text: str, start: int) -> int:
    balance = 0
    for index in range(start, len(text)):
        balance += (text[index] == "(") - (text[index] == ")")
        if balance == 0:
            return index
    raise InvalidJobspec(f"criteria: no parenthesis closes {text[start : start + 40]!r}")


def _word(text: str, at: int) -> tuple[str, int]:
    """The text up to the next blank, after blanks, and where it ends."""
    start = at
    while start < len(text) and text[start] in _BLANKS:
        start += 1
    end = start
    while end < len(text) and text[end] not in _BLANKS:
        end += 1
    return text[start:end], end


def _item(word: str) -> Item:
    key, equals, value = word.partition("=")
    if not equals:
        raise InvalidJobspec(f"criteria: {word!r} isn't of the form key=value")
    lower = value.translate(_LOWER)
    if key in JOB_KEYS:
        jobid = parse_jobid(value)
        if jobid is None:
            raise InvalidJobspec(f"criteria: {word!r} doesn't name a job")
        return Item(key, lower, jobid)
    if key == "names":
        try:
            Hostlist([lower])
        except ValueError as error:
            raise InvalidJobspec(f"criteria: {word!r}: {error}") from None
    elif key == "property":
        if not value:
            raise InvalidJobspec("criteria: property= names no property")
    elif lower not in _WORDS.get(key, ()):
        raise InvalidJobspec(f"criteria: {word!r} isn't a criterion")
    return Item(key, lower)
