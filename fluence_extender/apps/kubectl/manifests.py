"""Manifests as values that are written again as kubectl would read them.

kubectl and PyYAML disagree on what some plain scalars are: ``8080:30``, ``1e3``, ``0o17``, a time. So a plain scalar is
kept as its text and is written plain again, and a quoted text that could be taken for anything else is quoted again.
Documents are split as a YAML parser does it, so that those without a request needn't be parsed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import yaml

from fluence_extender.apps.kubectl.errors import CommandError
from fluence_extender.apps.kubectl.sources import documents

Manifest = dict[str, Any]

_MARK = re.compile(r"^---(?=\s|\Z)|^\.\.\.(?=\s|\Z).*\n?", re.MULTILINE)
_ENDED = re.compile(r"^\.\.\.(?=\s|\Z).*\n?\Z", re.MULTILINE)
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*", re.ASCII)
_BREAKS = frozenset("\x85\u2028\u2029")
"""Characters that end a line for some parsers of YAML and not for others."""
_NOT_TEXT = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
_LONGEST_LINE = 2**31
_TEXT = "tag:yaml.org,2002:str"


class Plain(str):
    """A scalar that is written without quotes."""

    __slots__ = ()


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Reads each plain scalar but null as `Plain`."""


class _Dumper(yaml.SafeDumper):
    """Writes `Plain` without quotes, and of other texts only words."""

    def ignore_aliases(self, data: Any) -> bool:
        """Write everything out."""
        return True


def _scalar(loader: Any, node: yaml.ScalarNode) -> str:
    """Return a scalar; one whose tag is written out stays what the tag says."""
    if node.tag == _TEXT and (
        node.style or loader.resolve(yaml.ScalarNode, node.value, (True, False)) != _TEXT
    ):
        return str(node.value)
    return Plain(node.value)


def _plain(dumper: _Dumper, value: Plain) -> yaml.ScalarNode:
    tag = dumper.resolve(yaml.ScalarNode, value, (True, False))  # type: ignore[no-untyped-call]
    return dumper.represent_scalar(tag, str(value))


def _text(dumper: _Dumper, value: str) -> yaml.ScalarNode:
    word = _WORD.fullmatch(value) and value.lower() not in _NOT_TEXT
    style = None if word else '"' if _BREAKS & {*value} else "|" if "\n" in value else "'"
    return dumper.represent_scalar(_TEXT, value, style)


for _kind in ("bool", "int", "float", "timestamp", "str", "value", "merge"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_kind}", _scalar)
_Dumper.add_representer(Plain, _plain)
_Dumper.add_representer(str, _text)


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


def read_documents(text: str, name: str, line: int = 1) -> list[Any]:
    """Return the values of all documents in a ``text`` that begins on ``line``; no two share anything.

    Raise `CommandError`.
    """
    if text.lstrip().startswith("{"):
        try:
            return [json.loads(text, parse_int=Plain, parse_float=Plain)]
        except (ValueError, RecursionError):
            # It may be YAML in braces.
            pass
    try:
        return [_own(one) for one in documents(text, name, line, _Loader)]
    except RecursionError:
        raise CommandError(f"{name}: has an alias to what it is in; write it out") from None


def _own(value: Any) -> Any:
    """Return a value with everything in it that aliases share as copies."""
    if isinstance(value, dict):
        return {key: _own(one) for key, one in value.items()}
    return [_own(one) for one in value] if isinstance(value, list) else value


def written(values: list[Any], before: str) -> str:
    """Return documents as YAML in place of the text ``before``, with the marks that it has at its ends."""
    dumped = [
        yaml.dump(
            one,
            Dumper=_Dumper,
            sort_keys=False,
            default_flow_style=False,
            allow_unicode=True,
            width=_LONGEST_LINE,
        )
        for one in values
    ]
    start = "---\n" if before.startswith("---") else ""
    return start + "---\n".join(dumped) + ("...\n" if _ENDED.search(before) else "")


def objects(document: Any) -> Iterator[Manifest]:
    """Yield the Kubernetes objects in a document: itself, or the items of a list, at any depth."""
    if not isinstance(document, dict):
        return
    items = document.get("items")
    if text(document, "kind").endswith("List") and isinstance(items, list):
        for item in items:
            yield from objects(item)
    else:
        yield document


def child(value: Any, *path: str) -> Any:
    """Return what is under a path of keys, None if there is nothing."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def text(value: Any, *path: str) -> str:
    """Return the text under a path of keys, empty if there is none."""
    found = child(value, *path)
    return str(found) if isinstance(found, str) else ""
