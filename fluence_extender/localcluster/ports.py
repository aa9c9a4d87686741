"""Free loopback ports that stay ours.

A port found free and then let go may be anyone's a moment later. Here each port stays bound by this process,
without listening, for as long as it is needed; the component binds it too, both with SO_REUSEPORT
(socket(7)). So nobody else gets it, not even while the component is down.
"""

from __future__ import annotations

import socket

LOOPBACK = "127.0.0.1"


class Ports:
    """The ports of one control plane."""

    def __init__(self) -> None:
        self._held: list[socket.socket] = []

    def reserve(self) -> int:
        """A TCP port on loopback which only a listener with SO_REUSEPORT of the same user can take."""
        held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind((LOOPBACK, 0))
        self._held.append(held)
        return int(held.getsockname()[1])

    def release(self) -> None:
        """Give all ports back."""
        while self._held:
            self._held.pop().close()
