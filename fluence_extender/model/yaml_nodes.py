"""YAML and JSON text as values, or as nodes that know their position in it.

Nodes are PyYAML's (`yaml.nodes`). They are composed and not constructed: an alias is the node that it stands for, and a
scalar is its text with the tag that YAML 1.1 gives it. So aliases cost nothing, and callers decide what a value means.

Invariant: every failure is an `UnreadableYaml`, also where the parser alone would end the process.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, TypeVar

import yaml
from yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent, NodeEvent, ScalarEvent
from yaml.nodes import Node

T = TypeVar("T")

TAG = "tag:yaml.org,2002:"
"""The beginning of the tags of YAML's own types."""

MOST_REPEATED = 100_000
"""The most values that the aliases of a text may repeat where they are written out."""

CHARACTERS_OF_ONE = 64
"""A scalar counts as one value more for each so many characters: a long text may be repeated less often."""

TRUE = frozenset({"y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"})
FALSE = frozenset({"n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"})
"""The plain scalars that kubectl takes for true and false."""

_INTEGER = re.compile(r"([-+]?)(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9]*)")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_LEADING_POINT = re.compile(r"\.[0-9]+([eE][-+]?[0-9]+)?")
_INFINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")

LARGEST_WHOLE = 2**64
"""From here on a whole number has no bits enough in Go, which takes it for one with a fraction."""

LONGEST_NUMBER = 300
"""The most characters of a number. A longer scalar is a text."""

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def number_of(text: str) -> int | float | None:
    """Return the number that kubectl (go-yaml v2) takes a plain scalar for, None if it is a text to it."""
    digits = text if text[:1] == "." else text.replace("_", "") if text[:1] in "-+0123456789" else ""
    if len(digits) > LONGEST_NUMBER:
        return None
    if (found := _INTEGER.fullmatch(digits)) is not None:
        sign, amount = found.groups()
        octal = amount[0] == "0" and amount[1:].isdigit()
        value = int(f"{sign}{amount}", 8 if octal else 0)
        if -LARGEST_WHOLE // 2 <= value < LARGEST_WHOLE:
            return value
        return float(value) if octal or amount.isdigit() else None
    if (_LEADING_POINT if digits[:1] == "." else _NUMBER).fullmatch(digits):
        amount = float(digits)
        if math.isinf(amount):
            return None
        return int(amount) if amount.is_integer() and abs(amount) < LARGEST_WHOLE // 2 else amount
    return None


class _KubectlLoader(_LOADER):  # type: ignore[misc,valid-type]
    """Reads scalars as kubectl does, which sends them as JSON: times are texts, and no number is sexagesimal."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        """Return the tag of a node that states none."""
        tag = super().resolve(kind, value, implicit)
        if kind is not yaml.ScalarNode or not implicit[0] or tag in (f"{TAG}null", f"{TAG}merge"):
            return tag
        if value in TRUE or value in FALSE:
            return f"{TAG}bool"
        if _INFINITE.fullmatch(value):
            return f"{TAG}float"
        return f"{TAG}str" if number_of(value) is None else f"{TAG}int"

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        """Return a map, whose keys true and false are texts in JSON."""
        pairs = super().construct_mapping(node, deep)
        return {str(key).lower() if isinstance(key, bool) else key: value for key, value in pairs.items()}


def _bool(loader: Any, node: yaml.ScalarNode) -> bool:
    text = loader.construct_scalar(node)
    if text not in TRUE and text not in FALSE:
        raise ValueError(f"{text} is neither true nor false")
    return text in TRUE


def _number(loader: Any, node: yaml.ScalarNode) -> int | float:
    text = loader.construct_scalar(node)
    value = number_of(text)
    if value is None:
        raise ValueError(f"{text} is no number that JSON can express")
    return value


def _text(loader: Any, node: yaml.ScalarNode) -> str:
    return str(loader.construct_scalar(node))


for _kinds, _construct in (
    (("bool",), _bool),
    (("int", "float"), _number),
    (("merge", "timestamp", "value"), _text),
):
    for _kind in _kinds:
        _KubectlLoader.add_constructor(f"{TAG}{_kind}", _construct)


class UnreadableYaml(ValueError):
    """The text can't be read; the message says why. ``line`` counts from 1 and is 0 if unknown."""

    def __init__(self, message: str, line: int = 0, at: str = "") -> None:
        super().__init__(message)
        self.line = line
        self.at = at
        """The character at which reading ended."""


class TooDeep(UnreadableYaml):
    """Lists and maps are nested too deeply."""


def compose_document(text: str, deepest: int) -> Node | None:
    """Return the root node of the only document, None if there is none; its marks count characters in ``text``.

    Raise `UnreadableYaml`, and `TooDeep` for more than ``deepest`` levels of lists and maps.
    """
    return _composed(text, deepest, lambda: yaml.compose(text, Loader=_LOADER))


def load_documents(text: str, deepest: int, loader: Any = None, most_values: float = math.inf) -> list[Any]:
    """Return the values of all documents as a ``loader`` of PyYAML reads them, by default as kubectl does.

    Raise as `compose_document` does, and `UnreadableYaml` for more than ``most_values`` values, or for aliases that
    repeat more than `MOST_REPEATED`.
    """
    return _composed(
        text,
        deepest,
        lambda: list(yaml.load_all(text, Loader=loader or _KubectlLoader)),
        MOST_REPEATED,
        most_values,
    )


def _composed(
    text: str,
    deepest: int,
    compose: Callable[[], T],
    most_repeated: float = math.inf,
    most_values: float = math.inf,
) -> T:
    try:
        _check_size(text, deepest, most_repeated, most_values)
        return compose()
    except UnreadableYaml:
        raise
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        raise UnreadableYaml("half of a surrogate pair is no character", line) from None
    except yaml.YAMLError as error:
        raise _unreadable(error, text) from None
    except (ValueError, OverflowError) as error:
        # A number or a date that has the form of one, and no value.
        raise UnreadableYaml(str(error)) from None


def _check_size(text: str, deepest: int, most_repeated: float, most_values: float) -> None:
    """Raise `TooDeep`, or `UnreadableYaml` for too many values, or too many that aliases repeat.

    Composing recurses for each level, in C, where too many levels end the process. A few lines of aliases, each of
    which stands for several others, are more values than there is memory, once they are merged or written out.
    """
    begun: list[tuple[str | None, int]] = []
    sizes: dict[str, int] = {}
    values = repeated = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, AliasEvent):
            values += (size := sizes.get(event.anchor or "", 0))
            repeated += size
        elif isinstance(event, NodeEvent):
            values += (size := 1 + len(getattr(event, "value", "")) // CHARACTERS_OF_ONE)
        if isinstance(event, CollectionStartEvent):
            begun.append((event.anchor, values - 1))
        elif isinstance(event, CollectionEndEvent):
            anchor, before = begun.pop()
            sizes |= {anchor: values - before} if anchor else {}
        elif isinstance(event, ScalarEvent) and event.anchor:
            sizes[event.anchor] = size
        if len(begun) > deepest:
            raise TooDeep(f"is nested more than {deepest} levels deep")
        if repeated > most_repeated or values > most_values:
            assert event.start_mark is not None
            many = (
                f"aliases repeat more than {most_repeated:,}"
                if repeated > most_repeated
                else f"more than {most_values:,}"
            )
            raise UnreadableYaml(f"{many} values", event.start_mark.line + 1)


def _unreadable(error: yaml.YAMLError, text: str) -> UnreadableYaml:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    message = getattr(error, "problem", None) or getattr(error, "reason", None) or "it can't be read"
    if mark is None:
        return UnreadableYaml(message)
    # At the end of the text libyaml counts a line that isn't there.
    line = min(mark.line, text.count("\n", 0, mark.index)) + 1
    return UnreadableYaml(message, line, text[mark.index : mark.index + 1])
