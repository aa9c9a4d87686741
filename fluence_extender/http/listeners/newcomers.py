"""Limits how many bearer tokens the API server is asked about, among those that it hasn't accepted lately.

Whoever reaches the port can send any number of tokens, and each would cost a TokenReview. So a text that can't be a
token is refused first. Every other token takes one unit from a bucket of the client's address, and one from a bucket of
all addresses. A token that was accepted lately takes nothing, so a flood of other tokens doesn't keep its owner out.

The API server takes more than tokens of ServiceAccounts: those of OIDC providers, bootstrap tokens, and whatever a file
or a webhook of its administrator knows. So the form of a token proves little. Only two things are certain: no token has
spaces or characters beyond ASCII, and no JSON Web Token is accepted that has expired or isn't signed.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections import OrderedDict
from collections.abc import Callable

import msgspec

from fluence_extender.model.pace import Pace

AT_ONCE, A_SECOND = 50, 2.0
"""The tokens of one address that the API server is asked about at once, and how many more each second."""

ALL_AT_ONCE, ALL_A_SECOND = 200, 20.0
"""The same for all addresses together."""

ALL = "all"

MOST_ACCEPTED = 1_000
ACCEPTED_FOR = 3_600.0
"""Seconds for which a token that was accepted takes nothing from the buckets."""

LEEWAY = 300.0
"""Seconds by which clocks may differ."""

_VISIBLE = re.compile(r"[\x21-\x7e]+")


class _Header(msgspec.Struct):
    alg: str


class _Claims(msgspec.Struct):
    exp: float | None = None


_header = msgspec.json.Decoder(_Header).decode
_claims = msgspec.json.Decoder(_Claims).decode


def impossible(token: str, now: float) -> str:
    """Return why no API server accepts the token, "" if one may; ``now`` is in seconds since the epoch."""
    if not _VISIBLE.fullmatch(token):
        return "it has characters that no token has"
    parts = token.split(".")
    if len(parts) != 3:
        return ""
    try:
        header, claims = _header(_decoded(parts[0])), _claims(_decoded(parts[1]))
    except (msgspec.MsgspecError, binascii.Error, ValueError, RecursionError):
        # It isn't a JSON Web Token, but it may be a token of another form.
        return ""
    if header.alg.lower() == "none" or not parts[2]:
        return "it isn't signed"
    return "it has expired" if claims.exp is not None and claims.exp + LEEWAY < now else ""


def _decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


class Newcomers:
    """Says which tokens the API server may be asked about; ``clock`` returns seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._all = Pace(ALL_AT_ONCE, ALL_A_SECOND, clock)
        self._by_network = Pace(AT_ONCE, A_SECOND, clock)
        self._accepted: OrderedDict[bytes, float] = OrderedDict()

    def may_ask(self, key: bytes, address: str) -> bool:
        """Return whether the API server may be asked about the token ``key`` of a client, and count that."""
        if self._accepted.get(key, 0.0) > self._clock():
            return True
        network = _network(address)
        if self._by_network.left(network) < 1 or self._all.left(ALL) < 1:
            return False
        self._by_network.spend(network, 1)
        self._all.spend(ALL, 1)
        return True

    def answered(self, key: bytes, accepted: bool) -> None:
        """Record what the API server said about a token."""
        self._accepted.pop(key, None)
        if accepted:
            self._accepted[key] = self._clock() + ACCEPTED_FOR
            if len(self._accepted) > MOST_ACCEPTED:
                self._accepted.popitem(last=False)


def _network(address: str) -> str:
    """Return what counts as one address: of an IPv6 address the network, because a host has 2**64 addresses in it."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return address
    if ip.version == 6 and ip.ipv4_mapped is None:
        return str(ipaddress.ip_network((ip, 64), strict=False))
    return address
