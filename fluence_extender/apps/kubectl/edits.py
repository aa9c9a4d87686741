"""Write annotations into the text of a manifest and leave every other character as it is.

An edit replaces a range of characters. New lines follow a given entry, with its indentation and the text's line ends.
In JSON and flow style a new member follows the opening brace.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from yaml.nodes import MappingNode, Node, ScalarNode

from fluence_extender.apps.kubectl.errors import CommandError
from fluence_extender.apps.kubectl.manifests import Entry, child, entry, is_null

Entries = Mapping[str, "str | Entries"]

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*", re.ASCII)
_NOT_TEXT = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})


@dataclass(frozen=True, slots=True)
class ManifestEdit:
    """Put ``text`` in place of the characters from ``start`` to before ``end``."""

    start: int
    end: int
    text: str


def edited(text: str, edits: Sequence[ManifestEdit]) -> str:
    """Return ``text`` with all edits made. They must not overlap."""
    parts: list[str] = []
    position = 0
    for one in sorted(edits, key=lambda one: one.start):
        parts += [text[position : one.start], one.text]
        position = one.end
    return "".join([*parts, text[position:]])


def annotate(
    text: str, holder: MappingNode, values: Mapping[str, str], beside: str, label: str
) -> list[ManifestEdit]:
    """Return the edits that give the object or pod template ``holder`` these annotations.

    New ones follow the annotation ``beside`` if there is one. ``label`` names the object in messages. Raise
    `CommandError` if an alias shares the annotations with another object, which an edit would change as well.
    """
    metadata = _own(holder, "metadata", label)
    if metadata is None:
        return [_insertion(text, holder, {"metadata": {"annotations": values}}, "")]
    if is_null(metadata):
        return [_filled(text, metadata, {"annotations": values})]
    annotations = _own(metadata, "annotations", label)
    if annotations is None:
        return [_insertion(text, metadata, {"annotations": values}, "name")]
    if is_null(annotations):
        return [_filled(text, annotations, values)]
    if not isinstance(annotations, MappingNode):
        raise CommandError(f"{label}: annotations are not a map; write them as KEY: VALUE")
    edits: list[ManifestEdit] = []
    added: dict[str, str] = {}
    for key, value in values.items():
        present = entry(annotations, key)
        if present is None:
            added[key] = value
        else:
            edits.append(_replaced(text, present[1], value, bool(annotations.flow_style)))
    if added:
        edits.append(_insertion(text, annotations, added, beside))
    return edits


def _own(node: Node, key: str, label: str) -> Node | None:
    """Return the value that ``node`` itself has under ``key``. Raise `CommandError` if it is shared."""
    found = entry(node, key)
    if found is None:
        if child(node, key) is not None:
            raise CommandError(
                f"{label}: its {key} come from a merge (<<); write them out to have a backend chosen"
            )
        return None
    name, value = found
    if value.start_mark.index < name.start_mark.index:
        raise CommandError(f"{label}: its {key} are a YAML alias; write them out to have a backend chosen")
    return value


def _replaced(text: str, node: Node, value: str, flow: bool) -> ManifestEdit:
    start, end = node.start_mark.index, node.end_mark.index
    written = json.dumps(value) if flow else _scalar(value)
    if start == end:
        return ManifestEdit(start, end, f" {written}")
    old = text[start:end]
    # A block scalar includes its last line break and the blank lines behind it.
    return ManifestEdit(start, end, written + old[len(old.rstrip()) :])


def _filled(text: str, node: Node, entries: Entries) -> ManifestEdit:
    space = " " if node.start_mark.index == node.end_mark.index else ""
    return ManifestEdit(node.start_mark.index, node.end_mark.index, f"{space}{{{_members(entries)}}}")


def _insertion(text: str, node: Node, entries: Entries, beside: str) -> ManifestEdit:
    assert isinstance(node, MappingNode)
    if node.flow_style or not node.value:
        return _flow_insertion(text, node, entries)
    start, column = _first(text, node)
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = _lines(entries, column)
    anchor = _anchor(node, beside)
    if anchor is None:
        return ManifestEdit(start, start, newline.join(lines).lstrip() + newline + " " * column)
    end = text.find("\n", anchor.end_mark.index)
    if end < 0:
        return ManifestEdit(len(text), len(text), newline + newline.join(lines))
    return ManifestEdit(end + 1, end + 1, newline.join(lines) + newline)


def _first(text: str, node: MappingNode) -> tuple[int, int]:
    """Return the index and the column at which the first entry of a block mapping begins."""
    mark = node.value[0][0].start_mark
    before = text[mark.index - mark.column : mark.index].rstrip()
    # An entry may have the form "? KEY", ": VALUE".
    back = mark.column - len(before) + 1 if before.endswith("?") else 0
    return mark.index - back, mark.column - back


def _anchor(node: MappingNode, beside: str) -> Node | None:
    """Return the value of an entry that new ones may follow: its line ends where it ends. Prefer ``beside``."""
    pairs: list[Entry] = [
        (name, value)
        for name, value in node.value
        if isinstance(value, ScalarNode)
        and value.style not in ("|", ">")
        and value.start_mark.index >= name.start_mark.index
    ]
    preferred = next((value for name, value in pairs if name.value == beside), None)
    return preferred or (pairs[-1][1] if pairs else None)


def _flow_insertion(text: str, node: MappingNode, entries: Entries) -> ManifestEdit:
    brace = text.index("{", node.start_mark.index) + 1
    if not node.value:
        return ManifestEdit(brace, brace, _members(entries))
    space = text[brace : node.value[0][0].start_mark.index]
    indent = space if not space.strip() else ""
    return ManifestEdit(brace, brace, f"{indent}{_members(entries)}," + ("" if space else " "))


def _members(entries: Entries) -> str:
    return json.dumps(entries)[1:-1]


def _lines(entries: Entries, column: int) -> list[str]:
    lines: list[str] = []
    for key, value in entries.items():
        if isinstance(value, str):
            lines.append(f"{' ' * column}{key}: {_scalar(value)}")
        else:
            lines += [f"{' ' * column}{key}:", *_lines(value, column + 2)]
    return lines


def _scalar(value: str) -> str:
    """Return a text as a YAML scalar for block style, on one line."""
    if _PLAIN.fullmatch(value) and value.lower() not in _NOT_TEXT:
        return value
    if value.isascii() and value.isprintable():
        return "'" + value.replace("'", "''") + "'"
    return json.dumps(value)
