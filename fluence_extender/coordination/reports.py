"""Receive the interceptor's reports: in another container of the pod, it names each task as soon as it is submitted.

Containers of a pod share a network namespace, and with it abstract socket names (unix(7)). So a report needs neither a
volume nor a port, and no other pod can send one. If a vendor's tasks can't be searched for, reports are the only way to
find them.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable

from fluence_extender.coordination.provider import read_id

LONGEST = 8192


def address(pod_uid: str) -> str:
    """Return the name at which the sidecar of a pod listens."""
    return f"\0fluence-{pod_uid}"


def read_report(message: bytes, pod_uid: str) -> str | None:
    """Return the task that a message names, None if it isn't a report from this pod."""
    if len(message) > LONGEST:
        return None
    try:
        report = json.loads(message)
    except (ValueError, RecursionError):
        return None
    if not isinstance(report, dict) or report.get("pod") != pod_uid:
        return None
    return read_id(report.get("task"))


class ReportListener(asyncio.DatagramProtocol):
    """Calls ``reported`` with each task."""

    def __init__(self, pod_uid: str, reported: Callable[[str], None]) -> None:
        self._pod_uid = pod_uid
        self._reported = reported

    def datagram_received(self, data: bytes, addr: object) -> None:
        """Read one report; drop anything else."""
        task = read_report(data, self._pod_uid)
        if task is not None:
            self._reported(task)


async def listen(pod_uid: str, reported: Callable[[str], None]) -> asyncio.DatagramTransport:
    """Listen until the transport is closed. Raises `OSError` if the address is taken or the system has none."""
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        opened.setblocking(False)
        opened.bind(address(pod_uid))
        transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
            lambda: ReportListener(pod_uid, reported), sock=opened
        )
    except BaseException:
        opened.close()
        raise
    return transport
