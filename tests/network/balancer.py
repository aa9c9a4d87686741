"""Connections spread over several servers, as a Service spreads them over its pods."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence

from tests.network.relay import Relay


class Balancer(Relay):
    """Relays each connection to the next of these loopback ports that accepts it; at first there may be no ports."""

    def __init__(self, ports: Sequence[int] = ()) -> None:
        super().__init__("https://127.0.0.1:0")
        self.ports = list(ports)
        self._turns = itertools.count()

    async def _beyond(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        ports, first = list(self.ports), next(self._turns)
        for number in range(len(ports)):
            try:
                return await asyncio.open_connection("127.0.0.1", ports[(first + number) % len(ports)])
            except OSError:
                continue
        raise ConnectionRefusedError("no server accepts the connection")
