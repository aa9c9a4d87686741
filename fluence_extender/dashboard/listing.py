"""The items of a list of ``/v1``, as they were read: what is as before isn't decoded or worked out anew.

Invariant: nobody changes an item, so what was made of a listing stays true for as long as there is the listing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

Items = Sequence[dict[str, Any]]


class ListDocument(msgspec.Struct):
    """A list of ``/v1`` whose items are still text."""

    items: list[msgspec.Raw] = []
    metadata: dict[str, Any] = {}


_DOCUMENT = msgspec.json.Decoder(ListDocument)
_ITEM = msgspec.json.Decoder(dict[str, Any])


class KnownItems(list[dict[str, Any]]):
    """Items with the texts that they came from; ``made`` has what was made of all of them."""

    def __init__(self, texts: Iterable[bytes] = (), before: KnownItems | None = None) -> None:
        known = before.by_text if before is not None else {}
        self.by_text: dict[bytes, dict[str, Any]] = {}
        self.made: dict[object, Any] = {}
        super().__init__()
        for text in texts:
            item = known.get(text)
            if item is None:
                item = _ITEM.decode(text)
            self.by_text[text] = item
            self.append(item)


def decoded(content: bytes, before: KnownItems | None) -> tuple[KnownItems, dict[str, Any]]:
    """Return the items and the metadata of a document; items whose text is as ``before`` are the same objects.

    Raise `msgspec.DecodeError`.
    """
    document = _DOCUMENT.decode(content)
    return KnownItems(map(bytes, document.items), before), document.metadata


def made_once(items: Items, make: Callable[[Items], T]) -> T:
    """Return what ``make`` makes of the items, which is made once for those that were read together."""
    if not isinstance(items, KnownItems):
        return make(items)
    if make not in items.made:
        items.made[make] = make(items)
    found: T = items.made[make]
    return found
