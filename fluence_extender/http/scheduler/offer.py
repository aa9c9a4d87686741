"""The nodes that kube-scheduler offers, in either of the two shapes it has for them.

A look-up asks for one name among thousands and answers with that one, so the list stays bytes until somebody
needs it whole. Invariant: a node in an answer was in the request, and an answer has the shape of its request.
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
    """What is offered; the three answers are JSON members ``"Nodes":…,"NodeNames":…``."""

    @property
    def names(self) -> Sequence[str]:
        """Every offered name. Raises `BadRequest` when the list isn't one of names."""
        ...

    def holds(self, node: str) -> bool:
        """Whether ``node`` is offered."""
        ...

    def everything(self) -> bytes:
        """All of it."""
        ...

    def only(self, node: str) -> bytes:
        """``node`` alone, which must be offered."""
        ...

    def nothing(self) -> bytes:
        """None of it."""
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
    """``NodeNames``, as a nodeCacheCapable extender gets them."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw

    @cached_property
    def names(self) -> Sequence[str]:
        return decode(_NAMES, self._raw)

    def holds(self, node: str) -> bool:
        # In a flat array without escapes the quoted name can only be an element: a quote inside a string
        # would be escaped, and between two strings stands a comma.
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
    """``Nodes``, whole objects, without nodeCacheCapable. They go back as they came."""

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
    """The offer of a request; the names win where both are given. Raises `BadRequest` where neither is."""
    names = bytes(args.node_names)
    if names != NULL:
        return NamesOffer(names)
    nodes = bytes(args.nodes)
    if nodes != NULL:
        return NodesOffer(nodes)
    raise BadRequest("the body offers no nodes: NodeNames and Nodes are both missing or null")
