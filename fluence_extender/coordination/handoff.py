"""Where the interceptor, in another container of the pod, tells the sidecar of a task at once.

Containers of a pod share a network namespace, and with it abstract socket names (unix(7)): no volume, no port, and
nothing that another pod could reach. A vendor whose tasks can't be searched for is followed by this alone.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable

from fluence_extender.coordination.tasks import read_id

LONGEST = 8192


def address(pod_uid: str) -> str:
    """The name at which the sidecar of a pod listens."""
    return f"\0fluence-{pod_uid}"


def read_report(message: bytes, pod_uid: str) -> str | None:
    """The task that a message names; None for what isn't a report from this pod."""
    if len(message) > LONGEST:
        return None
    try:
        report = json.loads(message)
    except (ValueError, RecursionError):
        return None
    if not isinstance(report, dict) or report.get("pod") != pod_uid:
        return None
    return read_id(report.get("task"))


class Listener(asyncio.DatagramProtocol):
    """Passes tasks on to ``told``."""

    def __init__(self, pod_uid: str, told: Callable[[str], None]) -> None:
        self._pod_uid = pod_uid
        self._told = told

    def datagram_received(self, data: bytes, addr: object) -> None:
        """Read one report; anything else is dropped."""
        task = read_report(data, self._pod_uid)
        if task is not None:
            self._told(task)


async def listen(pod_uid: str, told: Callable[[str], None]) -> asyncio.DatagramTransport:
    """Listen until the transport is closed. Raises `OSError` where somebody listens already, or nobody can."""
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        opened.setblocking(False)
        opened.bind(address(pod_uid))
        transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
            lambda: Listener(pod_uid, told), sock=opened
        )
    except BaseException:
        opened.close()
        raise
    return transport
