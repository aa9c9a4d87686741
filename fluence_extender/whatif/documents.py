"""The objects in manifests, and in what kubectl writes about a cluster, in YAML or JSON.

Who asks is not trusted: how much may be asked is bounded. A cluster is a file of one's own, and may be large.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
import yaml

from fluence_extender.whatif.yaml_values import documents

MOST_DOCUMENTS = 1_000
MOST_VALUES = 500_000
DEEPEST = 64

Manifest = dict[str, Any]


class BadManifest(ValueError):
    """A manifest can't be read; the text says which and why."""


class NothingAsked(BadManifest):
    """No object makes a pod, so that nothing can be said; the text says what would."""


class _Head(msgspec.Struct):
    kind: str = ""
    items: list[msgspec.Raw] | None = None


_head = msgspec.json.Decoder(_Head).decode


def read_manifests(text: bytes | str) -> list[Manifest]:
    """The objects in YAML or JSON, lists taken apart. Raises `BadManifest`."""
    left = [MOST_VALUES]
    found: list[Manifest] = []
    for number, document in enumerate(_documents(text), 1):
        _count_values(document, left, 0)
        found.extend(_objects(document, f"document {number}"))
        if len(found) > MOST_DOCUMENTS:
            raise BadManifest(f"more than {MOST_DOCUMENTS:,} objects")
    return found


def read_cluster(text: bytes) -> Iterator[tuple[str, bytes]]:
    """The objects in what kubectl writes, each as its kind and as JSON; of any number. Raises `BadManifest`."""
    if text.lstrip()[:1] == b"{":
        try:
            yield from _raw_objects(text)
            return
        except (msgspec.MsgspecError, RecursionError):
            # Several objects one after the other, or YAML after all.
            pass
    for number, document in enumerate(_documents(text), 1):
        for one in _objects(document, f"document {number}"):
            yield one["kind"], as_json(one)


def as_json(value: Mapping[str, Any]) -> bytes:
    """A manifest as the API server would give it. Raises `BadManifest` for what JSON doesn't have."""
    try:
        return msgspec.json.encode(value, enc_hook=str)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadManifest(str(error)) from error


def _raw_objects(text: bytes) -> Iterable[tuple[str, bytes]]:
    head = _head(text)
    if head.items is None or not head.kind.endswith("List"):
        return [(head.kind, text)]
    of_list = head.kind.removesuffix("List")
    return [(_head(item).kind or of_list, bytes(item)) for item in head.items]


def _documents(text: bytes | str) -> Iterator[object]:
    """The values in YAML or JSON. Raises `BadManifest`."""
    if text.lstrip()[:1] in (b"{", "{"):
        try:
            yield msgspec.json.decode(text)
            return
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            # YAML has braces, too; if it isn't that either, its reader says where it ends.
            pass
    try:
        yield from documents(text)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise BadManifest(f"not YAML or JSON: {_said(error)}") from error


def _count_values(value: object, left: list[int], depth: int) -> None:
    """Refuse documents that aliases make huge, and endless ones."""
    left[0] -= 1
    if left[0] < 0:
        raise BadManifest(f"more than {MOST_VALUES:,} values")
    if depth > DEEPEST:
        raise BadManifest(f"more than {DEEPEST} mappings and lists one in another")
    if isinstance(value, dict):
        for one in value.values():
            _count_values(one, left, depth + 1)
    elif isinstance(value, list):
        for one in value:
            _count_values(one, left, depth + 1)


def _objects(document: object, where: str) -> Iterator[Manifest]:
    if document is None:
        return
    if not isinstance(document, dict):
        raise BadManifest(f"{where} is no object (a mapping with apiVersion, kind and metadata)")
    kind = document.get("kind")
    if not isinstance(kind, str) or not kind:
        name = _name(document)
        raise BadManifest(f"{where}{f' ({name})' if name else ''} is an object without a kind")
    if not kind.endswith("List") or "items" not in document:
        yield document
        return
    items = document["items"] or []
    if not isinstance(items, list):
        raise BadManifest(f"{where}: items of {kind} isn't a list")
    of_list = kind.removesuffix("List")
    for number, item in enumerate(items, 1):
        whole = {"kind": of_list, **item} if isinstance(item, dict) and of_list else item
        yield from _objects(whole, f"{where}, item {number}")


def _said(error: Exception) -> str:
    """An error of the YAML reader on one line, without the names that it gives to texts."""
    text = " ".join(str(error).split())
    for name in ("byte string", "unicode string"):
        text = text.replace(f'in "<{name}>", ', "at ")
    return text


def _name(document: Mapping[Any, Any]) -> str:
    meta = document.get("metadata")
    return str(meta.get("name") or "") if isinstance(meta, dict) else ""
