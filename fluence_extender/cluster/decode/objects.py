"""What all objects have in common: metadata, pages of lists, and events of watches (meta/v1)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

import msgspec
import structlog

log = structlog.get_logger(__name__)


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
    creation_timestamp: datetime | None = msgspec.field(name="creationTimestamp", default=None)
    deletion_timestamp: str | None = msgspec.field(name="deletionTimestamp", default=None)
    owner_references: list[OwnerReference] | None = msgspec.field(name="ownerReferences", default=None)

    @property
    def identity(self) -> tuple[str, str, str]:
        """Namespace, name and uid."""
        return self.namespace, self.name, self.uid


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


class Versioned(msgspec.Struct):
    """Any object, of which only the resourceVersion is read."""

    metadata: ListMeta


class Unread(msgspec.Struct):
    """The status of an object whose status the service doesn't read."""


class _Identified(msgspec.Struct):
    metadata: Metadata


Spec = TypeVar("Spec", bound=msgspec.Struct)
Status = TypeVar("Status", bound=msgspec.Struct)

decode_page = msgspec.json.Decoder(ListPage).decode
decode_event = msgspec.json.Decoder(Event).decode
decode_versioned = msgspec.json.Decoder(Versioned).decode
_identified = msgspec.json.Decoder(_Identified).decode


def tolerant_decoder(
    spec: type[Spec], status: type[Status]
) -> Callable[[bytes], tuple[Metadata, Spec, Status]]:
    """Return a decoder of objects that have metadata, a ``spec`` and a ``status``.

    What is missing, and both parts of an object with an unreadable field, are decoded as their defaults.
    """
    fields: list[Any] = [("metadata", Metadata), ("spec", spec | None, None), ("status", status | None, None)]
    decode = msgspec.json.Decoder(msgspec.defstruct("Object", fields)).decode

    def tolerant(raw: bytes) -> tuple[Metadata, Spec, Status]:
        try:
            found: Any = decode(raw)
        except msgspec.ValidationError as error:
            meta = _identified(raw).metadata
            log.warning("an object can't be read", object=f"{meta.namespace}/{meta.name}", problem=str(error))
            return meta, spec(), status()
        return found.metadata, found.spec or spec(), found.status or status()

    return tolerant
