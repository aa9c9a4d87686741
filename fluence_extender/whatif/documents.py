"""The objects in manifests and in kubectl's output about a cluster, as JSON.

The sender of manifests is not trusted, so their size is bounded. A cluster is read from a local file and may be large.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from fluence_extender.apiserver.faults import MODELS
from fluence_extender.apiserver.fields import as_sent
from fluence_extender.kinds.pod_sets import BadManifest

MOST_DOCUMENTS = 1_000
MOST_VALUES = 500_000
LARGEST_INTEGER = 2**64
DEEPEST = 64

Manifest = dict[str, Any]


class NothingToSimulate(BadManifest):
    """No object makes a pod; the message says which objects would."""


class TooManyPods(BadManifest):
    """The manifests make more pods, or larger ones, than are simulated at once."""


@contextmanager
def reading(name: str, fault: str = "") -> Iterator[None]:
    """Raise `BadManifest` about the object ``name`` for what reading a mapping of another form raises.

    ``fault`` is what is known to be wrong with it; then the error says that.
    """
    try:
        yield
    except TooManyPods:
        raise
    except KeyError as missing:
        raise BadManifest(fault or f"{name}: {missing.args[0]} is missing") from missing
    except (TypeError, AttributeError) as error:
        raise BadManifest(fault or f"{name}: a field of its spec is of the wrong type") from error
    except (ValueError, msgspec.MsgspecError) as error:
        raise BadManifest(fault or f"{name}: {error}") from error


class _Head(msgspec.Struct):
    kind: str = ""
    items: list[msgspec.Raw] | None = None


_head = msgspec.json.Decoder(_Head).decode


def read_manifests(body: bytes) -> list[Manifest]:
    """Return the objects in JSON, which is an array of objects or a single one, and those in lists.

    Raise `BadManifest`.
    """
    try:
        found = msgspec.json.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadManifest(f"not JSON: {error}; kubectl fluence simulate reads YAML as well") from error
    _check_size(found)
    objects: list[Manifest] = []
    for number, document in enumerate(found if isinstance(found, list) else [found], 1):
        given = _objects(document, f"document {number}")
        objects.extend(as_sent(one, MODELS.get(one["kind"], "any")) for one in given)
        if len(objects) > MOST_DOCUMENTS:
            raise BadManifest(f"more than {MOST_DOCUMENTS:,} objects")
    return objects


def read_cluster(content: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield each object in an array of kubectl's JSON outputs, as its kind and as JSON. Raise `BadManifest`."""
    for number, document in enumerate(msgspec.json.decode(content, type=list[msgspec.Raw]), 1):
        try:
            yield from _raw_objects(document, "")
        except msgspec.MsgspecError:
            raise BadManifest(
                f"document {number} of the cluster has something that is not an object (a mapping with apiVersion, "
                "kind and metadata)"
            ) from None


def as_json(value: Mapping[str, Any]) -> bytes:
    """Return a manifest as the API server would return it. Raise `BadManifest` for values that JSON can't express."""
    try:
        return msgspec.json.encode(value, enc_hook=str)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadManifest(str(error)) from error


def _raw_objects(raw: msgspec.Raw, kind: str) -> Iterator[tuple[str, bytes]]:
    """Yield an object, which is of this ``kind`` if it states none, or the objects of a list."""
    head = _head(raw)
    if head.items is None or not head.kind.endswith("List"):
        yield head.kind or kind, bytes(raw)
        return
    for item in head.items:
        yield from _raw_objects(item, head.kind.removesuffix("List"))


def _check_size(found: object) -> None:
    """Raise `BadManifest` for more values, more levels or larger numbers than are read."""
    values = 0
    waiting: list[tuple[object, int]] = [(found, 0)]
    while waiting:
        value, depth = waiting.pop()
        values += 1
        if values > MOST_VALUES:
            raise BadManifest(f"more than {MOST_VALUES:,} values")
        if depth > DEEPEST:
            raise BadManifest(f"mappings and lists nested more than {DEEPEST} deep")
        if isinstance(value, dict):
            waiting += ((one, depth + 1) for one in value.values())
        elif isinstance(value, list):
            waiting += ((one, depth + 1) for one in value)
        elif isinstance(value, int) and not -LARGEST_INTEGER < value < LARGEST_INTEGER:
            raise BadManifest("a number of more than 64 bits")


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


def _name(document: Mapping[Any, Any]) -> str:
    meta = document.get("metadata")
    return str(meta.get("name") or "") if isinstance(meta, dict) else ""
