"""YAML text to plain values, several times as fast as by way of PyYAML's nodes.

libyaml's events are put together here; which scalar means what is PyYAML's safe schema (YAML 1.1), asked once for each
different word. Invariant: the values are those of ``yaml.safe_load_all``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml
from yaml.constructor import ConstructorError

MERGE = "<<"
SEQUENCES = ("!", "tag:yaml.org,2002:seq")
MAPPINGS = ("!", "tag:yaml.org,2002:map")
Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def documents(text: bytes | str) -> Iterator[object]:
    """The values of the documents, empty ones left out. Raises `yaml.YAMLError`."""
    parser = Parser(text)
    try:
        reader = _Reader(parser)
        while True:
            event = parser.get_event()
            if isinstance(event, yaml.StreamEndEvent):
                return
            if isinstance(event, yaml.DocumentStartEvent):
                yield reader.document()
    finally:
        parser.dispose()


class _Reader:
    """Takes the events of one document after the other from ``parser``."""

    def __init__(self, parser: Any) -> None:
        self._event = parser.get_event
        self._rules: Any = yaml.SafeLoader("")
        self._words: dict[str, object] = {}
        self._anchors: dict[str, object] = {}

    def document(self) -> object:
        self._anchors = {}
        return self._value(self._event())

    def _value(self, event: Any) -> Any:
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
        raise ConstructorError(None, None, f"values of the tag {event.tag!r} aren't read", event.start_mark)

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
            node = yaml.ScalarNode(tag, word, event.start_mark, event.end_mark)
            value = self._rules.construct_document(node) if tag != "tag:yaml.org,2002:merge" else MERGE
            if plain:
                self._words[word] = value
        if event.anchor:
            self._anchors[event.anchor] = value
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
    """What ``<<: value`` merges; of several mappings the first counts (YAML merge key, 1.1)."""
    sources: list[Any] = value if isinstance(value, list) else [value]
    if not all(isinstance(one, dict) for one in sources):
        raise ConstructorError(None, None, "<< merges mappings only", event.start_mark)
    return sources
