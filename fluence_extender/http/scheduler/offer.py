"""The nodes that kube-scheduler offers, in either of its two shapes for them.

A look-up needs only one name among thousands, so the list stays bytes until it is needed as a whole. Invariant: a node
in an answer was in the request, and an answer has the shape of its request.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

import msgspec
from msgspec import Raw, Struct

from fluence_extender.http.scheduler.wire import NULL, BadRequest, ExtenderArgs, decode, encode

NO_NAMES = b'"Nodes":null,"NodeNames":[]'


class Offer(Protocol):
    """The offered nodes; the last three methods return JSON members ``"Nodes":…,"NodeNames":…``."""

    @property
    def names(self) -> Sequence[str]:
        """Every offered name. Raises `BadRequest` if the list isn't one of names."""
        ...

    def holds(self, node: str) -> bool:
        """Return whether ``node`` is offered."""
        ...

    def everything(self) -> bytes:
        """Return all nodes."""
        ...

    def only(self, node: str) -> bytes:
        """Return only ``node``, which must be offered."""
        ...

    def nothing(self) -> bytes:
        """Return no node."""
        ...


class _NamedMeta(Struct, frozen=True, gc=False):
    name: str


class _NamedNode(Struct, frozen=True, gc=False):
    metadata: _NamedMeta


class _NodeList(Struct, frozen=True):
    items: list[Raw] | None = None


_NAMES = msgspec.json.Decoder(list[str])
_NODE = msgspec.json.Decoder(_NamedNode)
_NODE_LIST = msgspec.json.Decoder(_NodeList)


class NamesOffer:
    """``NodeNames``, which a nodeCacheCapable extender gets."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw

    @cached_property
    def names(self) -> Sequence[str]:
        return decode(_NAMES, self._raw)

    def holds(self, node: str) -> bool:
        # In a flat array without escapes the quoted name can only be an element: a quote inside a string
        # would be escaped, and there is a comma between two strings.
        raw = self._raw
        if raw.find(encode(node)) > 0 and _flat(raw):
            return True
        return node in self.names

    def everything(self) -> bytes:
        _ = self.names
        return b'"Nodes":null,"NodeNames":%b' % self._raw

    def only(self, node: str) -> bytes:
        return b'"Nodes":null,"NodeNames":[%b]' % encode(node)

    def nothing(self) -> bytes:
        return NO_NAMES


def _flat(raw: bytes) -> bool:
    return raw.startswith(b"[") and raw.find(b"[", 1) < 0 and raw.find(b"{") < 0 and raw.find(b"\\") < 0


class NodesOffer:
    """``Nodes``, whole objects, which other extenders get. They are sent back as they came."""

    def __init__(self, raw: bytes) -> None:
        self._items = decode(_NODE_LIST, raw).items or []

    @cached_property
    def names(self) -> Sequence[str]:
        return [decode(_NODE, item).metadata.name for item in self._items]

    def holds(self, node: str) -> bool:
        return node in self.names

    def everything(self) -> bytes:
        _ = self.names
        return _node_list(self._items)

    def only(self, node: str) -> bytes:
        return _node_list([self._items[self.names.index(node)]])

    def nothing(self) -> bytes:
        return _node_list([])


def _node_list(items: Sequence[Raw]) -> bytes:
    return b'"Nodes":{"metadata":{},"items":[%b]},"NodeNames":null' % b",".join(map(bytes, items))


def offered(args: ExtenderArgs) -> Offer:
    """Return the offer of a request; the names win if both are given. Raises `BadRequest` if neither is."""
    names = bytes(args.node_names)
    if names != NULL:
        return NamesOffer(names)
    nodes = bytes(args.nodes)
    if nodes != NULL:
        return NodesOffer(nodes)
    raise BadRequest("the body offers no nodes: NodeNames and Nodes are both missing or null")
