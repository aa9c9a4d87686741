"""What all objects have in common: metadata, pages of lists, and events of watches (meta/v1).

`tolerant_decoder` is the one rule for objects with fields that can't be read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from fluence_extender.model.submission import Submission, submission
from fluence_extender.objects.fields import Int64, Time
from fluence_extender.objects.reading import report

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError)
"""The errors with which decoding fails."""

DEEPEST = 200
"""Values that are nested deeper than this are read as null. The API server accepts ten thousand levels."""


class OwnerReference(msgspec.Struct, gc=False):
    """meta/v1 OwnerReference."""

    kind: str
    name: str
    uid: str
    controller: bool | None = None
    api_version: str = msgspec.field(name="apiVersion", default="")


class Metadata(msgspec.Struct):
    """meta/v1 ObjectMeta."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    resource_version: str = msgspec.field(name="resourceVersion", default="")
    generation: Int64 = 0
    creation_timestamp: Time | None = msgspec.field(name="creationTimestamp", default=None)
    deletion_timestamp: str | None = msgspec.field(name="deletionTimestamp", default=None)
    owner_references: list[OwnerReference] | None = msgspec.field(name="ownerReferences", default=None)

    @property
    def identity(self) -> tuple[str, str, str]:
        """Namespace, name and uid."""
        return self.namespace, self.name, self.uid

    @property
    def created(self) -> float:
        """When the object was created, in seconds since the epoch, 0 if that isn't known."""
        return self.creation_timestamp.timestamp() if self.creation_timestamp is not None else 0.0

    @property
    def submission(self) -> Submission:
        """The submission that the object states."""
        return submission(self.labels, self.annotations, self.uid)


class StatusCondition(msgspec.Struct):
    """meta/v1 Condition: the fields that most kinds have."""

    type: str = ""
    status: str = ""
    message: str = ""


class Conditions(msgspec.Struct):
    """A status with conditions."""

    conditions: list[StatusCondition] | None = None

    @property
    def true(self) -> set[str]:
        """The types of the conditions that hold."""
        return {one.type for one in self.conditions or () if one.status == "True"}


class ListMeta(msgspec.Struct, gc=False):
    """meta/v1 ListMeta."""

    resource_version: str = msgspec.field(name="resourceVersion", default="")
    next_page: str | None = msgspec.field(name="continue", default=None)


class ListPage(msgspec.Struct):
    """One page of any list."""

    metadata: ListMeta
    items: list[msgspec.Raw] | None = None


class Event(msgspec.Struct, gc=False):
    """meta/v1 WatchEvent."""

    type: str
    object: msgspec.Raw


class ObjectHead(msgspec.Struct, gc=False):
    """The fields of meta/v1 ObjectMeta that identify an object and its version."""

    name: str = ""
    uid: str = ""
    resource_version: str = msgspec.field(name="resourceVersion", default="")


class Headed(msgspec.Struct, gc=False):
    """An object of any kind. Only its head is read."""

    metadata: ObjectHead


class Unread(msgspec.Struct):
    """The status of an object whose status the service doesn't read."""


Decoded = TypeVar("Decoded")
Spec = TypeVar("Spec")
Status = TypeVar("Status")

_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)


def _deep(decode: Callable[[bytes], Decoded]) -> Callable[[bytes], Decoded]:
    """Return a decoder that also reads values that are nested deeper than the interpreter's limit."""

    def deep(raw: bytes) -> Decoded:
        try:
            return decode(raw)
        except RecursionError:
            return decode(_shallow(raw))

    return deep


def _shallow(raw: bytes) -> bytes:
    """Return the JSON text with null in place of the values that are nested too deep."""
    kept: list[bytes] = []
    depth = begin = 0
    for token in _TOKEN.finditer(raw):
        if token[0] in b"[{":
            depth += 1
            if depth == DEEPEST:
                kept.append(raw[begin : token.start()])
        elif token[0] in b"]}":
            if depth == DEEPEST:
                kept.append(b"null")
                begin = token.end()
            depth -= 1
    return b"".join((*kept, raw[begin:]))


def readable(raw: bytes) -> bytes:
    """Return the JSON text of an object, without the values that are nested too deep to be read."""
    return _deep(lambda text: (_fields(text), text)[1])(raw)


decode_page = _deep(msgspec.json.Decoder(ListPage).decode)


decode_event = _deep(msgspec.json.Decoder(Event).decode)


decode_headed = msgspec.json.Decoder(Headed).decode
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_metadata = msgspec.json.Decoder(Metadata).decode


def tolerant_decoder(
    kind: str, spec: type[Spec], status: type[Status]
) -> Callable[[bytes], tuple[Metadata, Spec, Status, str]]:
    """Return a decoder of objects that have metadata, a ``spec`` and a ``status``; all fields of these have defaults.

    The decoder returns metadata, spec, status and a problem. The problem says which field can't be read and why; it is
    "" if all can. A field that can't be read has its default, and the log has the reason once. The decoder raises
    `msgspec.MsgspecError` only if there is no object with a name.
    """
    fields: list[Any] = [("metadata", Metadata), ("spec", spec | None, None), ("status", status | None, None)]
    decode = msgspec.json.Decoder(msgspec.defstruct("Object", fields)).decode
    decode_spec, decode_status = msgspec.json.Decoder(spec).decode, msgspec.json.Decoder(status).decode

    def tolerant(raw: bytes) -> tuple[Metadata, Spec, Status, str]:
        try:
            found: Any = decode(raw)
        except UNREADABLE as error:
            parts = _fields(raw)
            meta = _readable(parts.get("metadata"), _metadata)
            if not meta.name:
                raise
            report_unreadable(kind, meta, str(error))
            found_spec = _readable(parts.get("spec"), decode_spec)
            return meta, found_spec, _readable(parts.get("status"), decode_status), str(error)
        return found.metadata, found.spec or spec(), found.status or status(), ""

    return tolerant


def _readable(raw: msgspec.Raw | None, decode: Callable[[bytes], Decoded]) -> Decoded:
    """Decode an object without those of its fields that can't be read."""
    kept: dict[str, msgspec.Raw] = {}
    try:
        fields = _fields(raw or b"{}")
    except UNREADABLE:
        fields = {}
    for name, value in fields.items():
        try:
            decode(msgspec.json.encode({name: value}))
        except UNREADABLE:
            continue
        kept[name] = value
    return decode(msgspec.json.encode(kept))


def report_unreadable(kind: str, meta: Metadata, problem: str) -> None:
    """Log why an object can't be read, once for each such problem."""
    report(kind, f"{meta.namespace}/{meta.name}".removeprefix("/"), problem)
