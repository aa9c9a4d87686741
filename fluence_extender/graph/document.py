"""A YAML or JSON text as values with their positions.

Messages that name a line need the position of each value. A configuration file may also contain faults that a plain
loader ignores: a key given twice, an alias inside its own anchor, aliases that multiply.

Invariant: every `Item` that `read_document` returns is a finite tree; anything else in the text is a `Problem`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from fluence_extender.graph.errors import Problem
from fluence_extender.model.wording import shortened
from fluence_extender.model.yaml_nodes import TAG, TooDeep, UnreadableYaml, compose_document

LARGEST_TEXT = 2**20
"""The largest text in characters; a ConfigMap holds at most 1 MiB."""

_LARGEST_TREE = 200_000
_DEEPEST_TREE = 100
_DEEPEST_TEXT = 250
"""The most levels of the text itself; aliases may make the tree deeper or shallower than the text."""

_KINDS = {
    "str": "text",
    "value": "text",
    "int": "number",
    "float": "number",
    "bool": "boolean",
    "null": "null",
    "timestamp": "date",
    "seq": "list",
    "map": "map",
}
_WHOLE_NUMBER = re.compile(r"[+-]?(?:0|[1-9]\d{0,18})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Item:
    """One value.

    ``kind`` is text, number, boolean, null, date, list or map. ``text`` is a scalar as written.
    """

    kind: str
    path: str
    line: int
    text: str = ""
    items: tuple[Item, ...] = ()
    entries: dict[str, Item] = field(default_factory=dict)

    @property
    def whole(self) -> int | None:
        """The value as an integer, or None when it isn't one."""
        return int(self.text) if self.kind == "number" and _WHOLE_NUMBER.fullmatch(self.text) else None

    def __str__(self) -> str:
        """Return a description for messages: ``the number 80``, ``a list``."""
        if self.kind in ("list", "map"):
            return f"a {self.kind}"
        if self.kind == "null":
            return "nothing"
        shown = shortened(self.text, 40)
        return repr(shown) if self.kind == "text" else f"the {self.kind} {shown}"


def read_document(text: str, source: str) -> tuple[Item | None, list[Problem]]:
    """Return ``text`` as a tree, None if it has no content, and all of its problems."""
    if len(text) > LARGEST_TEXT:
        return None, [
            Problem(
                source,
                "",
                0,
                f"is larger than {LARGEST_TEXT} characters",
                "split it or remove what isn't used",
            )
        ]
    try:
        node = compose_document(text.removeprefix("\ufeff"), _DEEPEST_TEXT)
    except TooDeep:
        return None, [Problem(source, "", 0, "is nested too deeply to be read", "check brackets and aliases")]
    except UnreadableYaml as error:
        fix = "correct the YAML or JSON syntax there"
        if error.at == "\t":
            fix = "indent with spaces, not tabs"
        elif "document" in str(error):
            fix = "keep one document, without a second ---"
        return None, [Problem(source, "", error.line, f"isn't valid YAML: {error}", fix)]
    if node is None:
        return None, []
    reader = _Reader(source)
    # For a document without content, the mark may be on a line after the text.
    line = text.count("\n", 0, node.start_mark.index) + 1
    return reader.read(node, "", line), reader.problems


def child_path(path: str, key: str) -> str:
    """Join a key to a path inside a document."""
    shown = key if re.fullmatch(r"[\w.-]{1,60}", key) else json.dumps(key[:60])
    return f"{path}.{shown}" if path else shown


def _kind(node: yaml.Node) -> str:
    return _KINDS.get(node.tag.removeprefix(TAG), "")


class _Reader:
    """Converts composed nodes to `Item` values and notes the nodes that can't be converted."""

    def __init__(self, source: str) -> None:
        self.problems: list[Problem] = []
        self._source = source
        self._open: set[int] = set()
        self._count = 0

    def read(self, node: yaml.Node, path: str, line: int) -> Item:
        self._count += 1
        if self._count > _LARGEST_TREE:
            if self._count == _LARGEST_TREE + 1:
                self._note(path, line, f"holds more than {_LARGEST_TREE} values", "don't multiply aliases")
            return Item("null", path, line)
        if id(node) in self._open:
            self._note(path, line, "is an alias to a value that contains it", "remove the alias")
            return Item("null", path, line)
        if len(self._open) >= _DEEPEST_TREE:
            self._note(path, line, f"is nested more than {_DEEPEST_TREE} levels deep", "make it flatter")
            return Item("null", path, line)
        self._open.add(id(node))
        try:
            return self._read(node, path, line)
        finally:
            self._open.remove(id(node))

    def _read(self, node: yaml.Node, path: str, line: int) -> Item:
        kind = _kind(node)
        if isinstance(node, yaml.MappingNode) and kind == "map":
            return Item(kind, path, line, entries=self._entries(node, path))
        if isinstance(node, yaml.SequenceNode) and kind == "list":
            items = tuple(
                self.read(one, f"{path}[{index}]", one.start_mark.line + 1)
                for index, one in enumerate(node.value)
            )
            return Item(kind, path, line, items=items)
        if isinstance(node, yaml.ScalarNode) and kind not in ("", "list", "map"):
            return Item(kind, path, line, text=node.value)
        self._note(path, line, f"has the tag {node.tag!r}, which has no meaning here", "remove the tag")
        return Item("null", path, line)

    def _entries(self, node: yaml.MappingNode, path: str) -> dict[str, Item]:
        entries: dict[str, Item] = {}
        merged: dict[str, Item] = {}
        for key_node, value in node.value:
            line = key_node.start_mark.line + 1
            if key_node.tag == TAG + "merge":
                for key, item in self._merge(value, path, line).items():
                    merged.setdefault(key, item)
                continue
            key = self._key(key_node, path, line)
            if not key:
                continue
            if key in entries:
                first = entries[key].line
                self._note(
                    child_path(path, key),
                    line,
                    f"is given twice, first on line {first}",
                    "keep one of the two",
                )
                continue
            entries[key] = self.read(value, child_path(path, key), line)
        return {**merged, **entries}

    def _key(self, node: Any, path: str, line: int) -> str:
        if isinstance(node, yaml.ScalarNode) and _kind(node) == "text" and node.value:
            return str(node.value)
        shown = node.value if isinstance(node, yaml.ScalarNode) else "a list or map"
        self._note(path, line, f"has a key that isn't text: {shown}", "put the key in quotes")
        return ""

    def _merge(self, node: yaml.Node, path: str, line: int) -> dict[str, Item]:
        """Return the entries that ``<<`` merges; of several maps, the first one with a key wins."""
        entries: dict[str, Item] = {}
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        for one in sources:
            item = self.read(one, path, line)
            if item.kind == "map":
                for key, value in item.entries.items():
                    entries.setdefault(key, value)
            else:
                self._note(child_path(path, "<<"), line, f"must be a map, not {item}", "merge maps only")
        return entries

    def _note(self, path: str, line: int, message: str, fix: str) -> None:
        self.problems.append(Problem(self._source, path, line, message, fix))
