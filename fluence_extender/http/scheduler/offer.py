"""The nodes that kube-scheduler offers, by their names.

A look-up needs only one name among thousands, so the list stays bytes until it is needed as a whole. Invariant: a node
in an answer was in the request.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import msgspec

from fluence_extender.http.scheduler.wire import NOT_CACHED, NULL, BadRequest, ExtenderArgs, decode, encode

NO_NAMES = b'"Nodes":null,"NodeNames":[]'

_NAMES = msgspec.json.Decoder(list[str])


class Offer:
    """The offered nodes. `everything` and `only` return JSON members ``"Nodes":null,"NodeNames":…``."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw

    @cached_property
    def names(self) -> Sequence[str]:
        """Every offered name. Raises `BadRequest` if the list isn't one of names."""
        return decode(_NAMES, self._raw)

    def holds(self, node: str) -> bool:
        """Return whether ``node`` is offered."""
        # In a flat array without escapes the quoted name can only be an element: a quote inside a string
        # would be escaped, and there is a comma between two strings.
        raw = self._raw
        if raw.find(encode(node)) > 0 and _flat(raw):
            return True
        return node in self.names

    def everything(self) -> bytes:
        """Return all nodes."""
        _ = self.names
        return b'"Nodes":null,"NodeNames":%b' % self._raw

    def only(self, node: str) -> bytes:
        """Return only ``node``, which must be offered."""
        return b'"Nodes":null,"NodeNames":[%b]' % encode(node)


def _flat(raw: bytes) -> bool:
    return raw.startswith(b"[") and raw.find(b"[", 1) < 0 and raw.find(b"{") < 0 and raw.find(b"\\") < 0


def offered(args: ExtenderArgs) -> Offer:
    """Return the offer of a request. Raises `BadRequest` if it has no names."""
    if (names := bytes(args.node_names)) != NULL:
        return Offer(names)
    if bytes(args.nodes) != NULL:
        raise BadRequest(f"the body offers whole nodes: {NOT_CACHED}")
    raise BadRequest("the body offers no nodes: NodeNames is missing or null")
