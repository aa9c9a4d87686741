"""YAML and JSON text as values, or as nodes that know their position in it.

Nodes are PyYAML's (`yaml.nodes`). They are composed and not constructed: an alias is the node that it stands for, and a
scalar is its text with the tag that YAML 1.1 gives it. So aliases cost nothing, and callers decide what a value means.

Invariant: every failure is an `UnreadableYaml`, also where the parser alone would end the process.
"""

from __future__ import annotations

import math
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

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


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
    """Return the values of all documents as a ``loader`` of PyYAML reads them, by default its safe one.

    Raise as `compose_document` does, and `UnreadableYaml` for more than ``most_values`` values, or for aliases that
    repeat more than `MOST_REPEATED`.
    """
    return _composed(
        text,
        deepest,
        lambda: list(yaml.load_all(text, Loader=loader or _LOADER)),
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
