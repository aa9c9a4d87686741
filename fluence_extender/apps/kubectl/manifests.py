"""Manifests as nodes that know their position in the text, so that a change touches nothing else.

Documents are split as a YAML parser does it, so that those without a request needn't be parsed. Nodes are navigated and
never turned into values: aliases cost nothing, and what is written in some dialect of YAML stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from fluence_extender.apps.kubectl.errors import CommandError
from fluence_extender.model.yaml_nodes import TAG, TooDeep, UnreadableYaml, compose_documents

DEEPEST = 200
"""Levels of lists and maps in a document that asks for a backend."""

_MARK = re.compile(r"^---(?=\s|\Z)|^\.\.\.(?=\s|\Z).*\n?", re.MULTILINE)
_SURROGATE = re.compile(r"(?<!\\)((?:\\\\)*)\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
Entry = tuple[ScalarNode, Node]


def split_documents(text: str) -> Iterator[str]:
    """Split a stream before each ``---`` and after each ``...`` that marks a document; the parts add up to the stream.

    Such a mark stands at the beginning of a line. No content of a document may look like one there, in any kind of
    scalar (YAML 1.2.2, section 9.1.2); what is indented is content.
    """
    start = 0
    for mark in _MARK.finditer(text):
        end = mark.start() if mark.group().startswith("-") else mark.end()
        if end > start:
            yield text[start:end]
            start = end
    yield text[start:]


def read_documents(text: str, name: str, line: int = 1) -> list[Node]:
    """Return the root nodes of all documents; their marks count characters in ``text``, which begins on ``line``.

    Raise `CommandError`.
    """
    if text.removeprefix("---").lstrip().startswith("{"):
        # JSON writes a character beyond 16 bits as two escapes, which YAML refuses. Nodes are only navigated, so any
        # character of the same length will do.
        text = _SURROGATE.sub(r"\1\\ufffd", text)
    try:
        return compose_documents(text, DEEPEST)
    except TooDeep as error:
        raise CommandError(f"{name}: {error}; make it flatter") from None
    except UnreadableYaml as error:
        place = f"{name}:{line + error.line - 1}" if error.line else name
        raise CommandError(f"{place}: isn't valid YAML: {error}; correct the syntax there") from None


def objects(root: Node) -> Iterator[MappingNode]:
    """Yield the Kubernetes objects in a document, each once: itself, or the items of a list, at any depth."""
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
    """Return the entry that a mapping has under ``key``, without those that ``<<`` merges."""
    if isinstance(node, MappingNode):
        for name, value in node.value:
            if isinstance(name, ScalarNode) and name.value == key:
                return name, value
    return None


def entries(node: Node | None) -> Iterator[Entry]:
    """Yield all entries of a mapping, those that ``<<`` merges last. A key may repeat; its first entry counts."""
    if not isinstance(node, MappingNode):
        return
    waiting, seen = [node], {id(node)}
    while waiting:
        merged: list[Node] = []
        for name, value in waiting.pop(0).value:
            if isinstance(name, ScalarNode) and name.tag == f"{TAG}merge":
                merged += value.value if isinstance(value, SequenceNode) else [value]
            elif isinstance(name, ScalarNode):
                yield name, value
        for one in merged:
            if isinstance(one, MappingNode) and id(one) not in seen:
                seen.add(id(one))
                waiting.append(one)


def child(node: Node | None, *path: str) -> Node | None:
    """Return the node under a path of keys."""
    for key in path:
        node = next((value for name, value in entries(node) if name.value == key), None)
    return node


def scalar(node: Node | None, *path: str) -> str:
    """Return the text under a path of keys, empty if there is none."""
    found = child(node, *path)
    return found.value if isinstance(found, ScalarNode) and not is_null(found) else ""


def is_null(node: Node) -> bool:
    """Return whether a node is null, as in ``annotations:``."""
    return isinstance(node, ScalarNode) and node.tag == f"{TAG}null"


def texts(node: Node | None) -> dict[str, str]:
    """Return the scalar values of a mapping by key."""
    found: dict[str, str] = {}
    for name, value in entries(node):
        if isinstance(value, ScalarNode) and not is_null(value):
            found.setdefault(name.value, value.value)
    return found
