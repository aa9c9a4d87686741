"""The objects in manifests and in kubectl's output about a cluster, in YAML or JSON.

The sender of manifests is not trusted, so their size is bounded. A cluster is read from a local file and may be large.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
import yaml

from fluence_extender.whatif.yaml_values import documents

MOST_DOCUMENTS = 1_000
MOST_VALUES = 500_000
MOST_CHARACTERS = 16 * 2**20
"""The most characters of all texts. A text that aliases repeat counts each time."""
LARGEST_INTEGER = 2**64
DEEPEST = 64

Manifest = dict[str, Any]


class BadManifest(ValueError):
    """A manifest can't be read; the message names it and says why."""


class NothingToSimulate(BadManifest):
    """No object makes a pod; the message says which objects would."""


class _Head(msgspec.Struct):
    kind: str = ""
    items: list[msgspec.Raw] | None = None


_head = msgspec.json.Decoder(_Head).decode


def read_manifests(text: bytes | str) -> list[Manifest]:
    """Return the objects in YAML or JSON, and those in lists. Raise `BadManifest`."""
    room = _Room()
    found: list[Manifest] = []
    for number, document in enumerate(_documents(text, 2 * MOST_VALUES), 1):
        room.take(document, 0)
        found.extend(_objects(document, f"document {number}"))
        if len(found) > MOST_DOCUMENTS:
            raise BadManifest(f"more than {MOST_DOCUMENTS:,} objects")
    return found


def read_cluster(text: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield each object in kubectl's output, as its kind and as JSON. Raise `BadManifest`."""
    if text.lstrip()[:1] == b"{":
        try:
            yield from _raw_objects(text)
            return
        except (msgspec.MsgspecError, RecursionError):
            # It may be several objects one after the other, or YAML in braces.
            pass
    for number, document in enumerate(_documents(text), 1):
        for one in _objects(document, f"document {number}"):
            yield one["kind"], as_json(one)


def as_json(value: Mapping[str, Any]) -> bytes:
    """Return a manifest as the API server would return it. Raise `BadManifest` for values that JSON can't express."""
    try:
        return msgspec.json.encode(value, enc_hook=str)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadManifest(str(error)) from error


def _raw_objects(text: bytes) -> Iterable[tuple[str, bytes]]:
    head = _head(text)
    if head.items is None or not head.kind.endswith("List"):
        return [(head.kind, text)]
    item_kind = head.kind.removesuffix("List")
    return [(_head(item).kind or item_kind, bytes(item)) for item in head.items]


def _documents(text: bytes | str, most: float = math.inf) -> Iterator[object]:
    """Yield the values in YAML or JSON, ``most`` values and keys of YAML at most. Raise `BadManifest`."""
    if text.lstrip()[:1] in (b"{", "{"):
        try:
            yield msgspec.json.decode(text)
            return
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            # YAML may begin with a brace, too. If it isn't YAML either, the YAML reader reports the position.
            pass
    try:
        yield from documents(text, most)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError, OverflowError) as error:
        raise BadManifest(f"not YAML or JSON: {_on_one_line(error)}") from error


class _Room:
    """The number of values and characters that are still allowed. Aliases can make a short document huge or endless."""

    def __init__(self) -> None:
        self._values = MOST_VALUES
        self._characters = MOST_CHARACTERS

    def take(self, value: object, depth: int) -> None:
        """Subtract a value and what it contains. Raise `BadManifest` if there is no more room."""
        self._values -= 1
        if self._values < 0:
            raise BadManifest(f"more than {MOST_VALUES:,} values")
        if depth > DEEPEST:
            raise BadManifest(f"mappings and lists nested more than {DEEPEST} deep")
        match value:
            case dict():
                for key, one in value.items():
                    self._take_text(key)
                    self.take(one, depth + 1)
            case list():
                for one in value:
                    self.take(one, depth + 1)
            case int() if not -LARGEST_INTEGER < value < LARGEST_INTEGER:
                raise BadManifest("a number of more than 64 bits")
            case _:
                self._take_text(value)

    def _take_text(self, value: object) -> None:
        if isinstance(value, str | bytes):
            self._characters -= len(value)
            if self._characters < 0:
                raise BadManifest(f"more than {MOST_CHARACTERS:,} characters")


def _objects(document: object, where: str) -> Iterator[Manifest]:
    if document is None:
        return
    if not isinstance(document, dict):
        raise BadManifest(f"{where} is not an object (a mapping with apiVersion, kind and metadata)")
    kind = document.get("kind")
    if not isinstance(kind, str) or not kind:
        name = _name(document)
        raise BadManifest(f"{where}{f' ({name})' if name else ''} is an object without a kind")
    if not kind.endswith("List") or "items" not in document:
        yield document
        return
    items = document["items"] or []
    if not isinstance(items, list):
        raise BadManifest(f"{where}: items of {kind} is not a list")
    item_kind = kind.removesuffix("List")
    for number, item in enumerate(items, 1):
        whole = {"kind": item_kind, **item} if isinstance(item, dict) and item_kind else item
        yield from _objects(whole, f"{where}, item {number}")


def _on_one_line(error: Exception) -> str:
    """Return an error of the YAML reader on one line, without the reader's name for the text."""
    text = " ".join(str(error).split())
    for name in ("byte string", "unicode string"):
        text = text.replace(f'in "<{name}>", ', "at ")
    return text


def _name(document: Mapping[Any, Any]) -> str:
    meta = document.get("metadata")
    return str(meta.get("name") or "") if isinstance(meta, dict) else ""
