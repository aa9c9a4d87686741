"""YAML text to plain values, for text that is not trusted.

The values are built from libyaml's events. PyYAML's safe schema (YAML 1.1) resolves each different scalar once.
Invariants: the values are those of ``yaml.safe_load_all``. The time is linear in the length of the text. Therefore
numbers of more than 64 bits aren't read: YAML 1.1 writes some in base 60, and as keys of a mapping they can be chosen
to collide.

``yaml.CSafeLoader`` reads the same, but must not read what users send. It copies the content of merged mappings, so
that twenty lines of ``<<: [*a, *a]`` take seconds and each further line doubles the time, and it recurses in C, so that
200,000 opening brackets end the process. It also takes six times as long for a large file, because it creates a node
for every value.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import yaml
from yaml.constructor import ConstructorError

MERGE = "<<"
NUMERIC = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
SEQUENCES = ("!", "tag:yaml.org,2002:seq")
MAPPINGS = ("!", "tag:yaml.org,2002:map")
LONGEST_NUMBER = 256
"""Characters of a number."""
LARGEST_INTEGER = 2**64
Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def documents(text: bytes | str, most: float = math.inf) -> Iterator[object]:
    """Yield the values of the documents, without empty ones. Raise `yaml.YAMLError`.

    More than ``most`` values in all, keys included, are refused.
    """
    parser = Parser(text)
    try:
        reader = _Reader(parser, most)
        while True:
            event = parser.get_event()
            if isinstance(event, yaml.StreamEndEvent):
                return
            if isinstance(event, yaml.DocumentStartEvent):
                yield reader.document()
    finally:
        parser.dispose()


class _Reader:
    """Reads one document after the other from the events of ``parser``."""

    def __init__(self, parser: Any, most: float) -> None:
        self._event = parser.get_event
        self._most = most
        self._left = most
        self._rules: Any = yaml.SafeLoader("")
        self._words: dict[str, object] = {}
        self._anchors: dict[str, object] = {}

    def document(self) -> object:
        self._anchors = {}
        return self._value(self._event())

    def _value(self, event: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            raise ConstructorError(None, None, f"more than {self._most:,} values", event.start_mark)
        kind = type(event)
        if kind is yaml.ScalarEvent:
            return self._scalar(event)
        if kind is yaml.AliasEvent:
            if event.anchor not in self._anchors:
                raise ConstructorError(
                    None, None, f"found undefined alias {event.anchor!r}", event.start_mark
                )
            return self._anchors[event.anchor]
        if kind is yaml.SequenceStartEvent and (event.implicit or event.tag in SEQUENCES):
            return self._sequence(event)
        if kind is yaml.MappingStartEvent and (event.implicit or event.tag in MAPPINGS):
            return self._mapping(event)
        raise ConstructorError(
            None, None, f"values of the tag {event.tag!r} are not supported", event.start_mark
        )

    def _scalar(self, event: Any) -> object:
        plain, word = event.implicit[0], event.value
        if plain and word in self._words:
            value = self._words[word]
        elif not plain and event.tag in (None, "!"):
            value = word
        else:
            tag = event.tag
            if tag in (None, "!"):
                tag = self._rules.resolve(yaml.ScalarNode, word, event.implicit)
            value = self._constructed(tag, event) if tag != "tag:yaml.org,2002:merge" else MERGE
            if plain:
                self._words[word] = value
        if event.anchor:
            self._anchors[event.anchor] = value
        return value

    def _constructed(self, tag: str, event: Any) -> object:
        numeric = tag in NUMERIC
        if numeric and len(event.value) > LONGEST_NUMBER:
            raise ConstructorError(
                None, None, f"a number of more than {LONGEST_NUMBER} characters", event.start_mark
            )
        value = self._rules.construct_document(
            yaml.ScalarNode(tag, event.value, event.start_mark, event.end_mark)
        )
        if numeric and isinstance(value, int) and not -LARGEST_INTEGER < value < LARGEST_INTEGER:
            raise ConstructorError(None, None, "a number of more than 64 bits", event.start_mark)
        return value

    def _sequence(self, start: Any) -> list[object]:
        found: list[object] = []
        if start.anchor:
            self._anchors[start.anchor] = found
        event = self._event()
        while type(event) is not yaml.SequenceEndEvent:
            found.append(self._value(event))
            event = self._event()
        return found

    def _mapping(self, start: Any) -> dict[Any, object]:
        found: dict[Any, object] = {}
        if start.anchor:
            self._anchors[start.anchor] = found
        merged: list[dict[Any, object]] = []
        event = self._event()
        while type(event) is not yaml.MappingEndEvent:
            merges = type(event) is yaml.ScalarEvent and event.value == MERGE and event.implicit[0]
            key = self._value(event)
            value = self._value(self._event())
            if merges:
                merged.extend(_merged(value, event))
            else:
                try:
                    found[key] = value
                except TypeError as error:
                    raise ConstructorError(None, None, "found unhashable key", event.start_mark) from error
            event = self._event()
        for one in merged:
            for key, value in one.items():
                found.setdefault(key, value)
        return found


def _merged(value: object, event: Any) -> list[dict[Any, object]]:
    """Return the mappings that ``<<: value`` merges; of several the first counts (YAML merge key, 1.1)."""
    sources: list[Any] = value if isinstance(value, list) else [value]
    if not all(isinstance(one, dict) for one in sources):
        raise ConstructorError(None, None, "<< can only merge mappings", event.start_mark)
    return sources
