"""Manifests as trees of nodes that know their place in the text, so that a change touches nothing else.

Documents are told apart as a YAML parser does it, so that those that ask for nothing needn't be parsed. Nodes are only
navigated, never built into values: aliases cost nothing, and what a document says in a dialect of YAML stays as it is
written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import yaml
from yaml.events import CollectionEndEvent, CollectionStartEvent
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from fluence_extender.apps.kubectl.errors import CommandError

DEEPEST = 200
"""Levels of lists and maps in a document that asks for a backend."""

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NULL = "tag:yaml.org,2002:null"
_MERGE = "tag:yaml.org,2002:merge"
_MARK = re.compile(r"^---(?=\s|\Z)|^\.\.\.(?=\s|\Z).*\n?", re.MULTILINE)
_HALF = re.compile(r"(?<!\\)((?:\\\\)*)\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
Entry = tuple[ScalarNode, Node]


def split_documents(text: str) -> Iterator[str]:
    """A stream cut before each ``---`` and after each ``...`` that marks a document; the parts make up the whole.

    These marks count at the beginning of a line only, and inside a document nothing may look like them there, whatever
    kind of scalar it is in (YAML 1.2.2, section 9.1.2): indented ones are content.
    """
    start = 0
    for mark in _MARK.finditer(text):
        end = mark.start() if mark.group().startswith("-") else mark.end()
        if end > start:
            yield text[start:end]
            start = end
    yield text[start:]


def read_documents(text: str, name: str, line: int = 1) -> list[Node]:
    """The root nodes of all documents; their marks count characters in ``text``, which begins on ``line``.

    Raises `CommandError`.
    """
    plain = _as_yaml(text) if text.removeprefix("---").lstrip().startswith("{") else text
    try:
        _check_depth(plain, name)
        return [node for node in yaml.compose_all(plain, Loader=_Loader) if node is not None]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        place = f"{name}:{line + mark.line}" if mark is not None else name
        said = getattr(error, "problem", None) or getattr(error, "reason", None) or "it can't be read"
        raise CommandError(f"{place}: isn't valid YAML: {said}; correct the syntax there") from None


def _check_depth(text: str, name: str) -> None:
    """Composing calls itself for each level, in C, where too many of them end the process."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, CollectionStartEvent):
            depth += 1
        elif isinstance(event, CollectionEndEvent):
            depth -= 1
        if depth > DEEPEST:
            raise CommandError(f"{name}: is nested more than {DEEPEST} levels deep; make it flatter")


def _as_yaml(text: str) -> str:
    """JSON in the form that YAML can read, each character in its place.

    YAML refuses tabs between values, and halves of characters beyond 16 bits, which JSON writes as two escapes.
    """
    return _HALF.sub(r"\1\\ufffd", text.replace("\t", " "))


def objects(root: Node) -> Iterator[MappingNode]:
    """The Kubernetes objects in a document: itself, or the items of a list, at any depth; each once."""
    waiting, seen = [root], set[int]()
    while waiting:
        node = waiting.pop()
        if not isinstance(node, MappingNode) or id(node) in seen:
            continue
        seen.add(id(node))
        items = child(node, "items")
        if scalar(node, "kind").endswith("List") and isinstance(items, SequenceNode):
            waiting += reversed(items.value)
        else:
            yield node


def entry(node: Node | None, key: str) -> Entry | None:
    """The entry that a mapping itself has under ``key``."""
    if isinstance(node, MappingNode):
        for name, value in node.value:
            if isinstance(name, ScalarNode) and name.value == key:
                return name, value
    return None


def entries(node: Node | None) -> Iterator[Entry]:
    """All entries of a mapping, those of ``<<`` after its own; keys may repeat, and the first one counts."""
    if not isinstance(node, MappingNode):
        return
    waiting, seen = [node], {id(node)}
    while waiting:
        merged: list[Node] = []
        for name, value in waiting.pop(0).value:
            if isinstance(name, ScalarNode) and name.tag == _MERGE:
                merged += value.value if isinstance(value, SequenceNode) else [value]
            elif isinstance(name, ScalarNode):
                yield name, value
        for one in merged:
            if isinstance(one, MappingNode) and id(one) not in seen:
                seen.add(id(one))
                waiting.append(one)


def child(node: Node | None, *path: str) -> Node | None:
    """What is under a path of keys."""
    for key in path:
        node = next((value for name, value in entries(node) if name.value == key), None)
    return node


def scalar(node: Node | None, *path: str) -> str:
    """The text under a path of keys, empty where there is none."""
    found = child(node, *path)
    return found.value if isinstance(found, ScalarNode) and not is_null(found) else ""


def is_null(node: Node) -> bool:
    """Whether a node says nothing, as in ``annotations:``."""
    return isinstance(node, ScalarNode) and node.tag == _NULL


def texts(node: Node | None) -> dict[str, str]:
    """A mapping's scalar values by key."""
    found: dict[str, str] = {}
    for name, value in entries(node):
        if isinstance(value, ScalarNode) and not is_null(value):
            found.setdefault(name.value, value.value)
    return found
