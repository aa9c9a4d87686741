"""Reports from the pod's other containers are received, and nothing else."""

from __future__ import annotations

import asyncio
import json
import socket
from uuid import uuid4

import pytest

from fluence_extender.coordination.reports import LONGEST, address, listen, read_report


def report(**fields: object) -> bytes:
    return json.dumps({"pod": "uid", "task": "t", **fields}).encode()


def test_report_names_a_task() -> None:
    assert read_report(report(), "uid") == "t"
    assert read_report(report(more="later"), "uid") == "t"


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"5",
        b"{",
        report(pod="another"),
        report(task=""),
        report(task=None),
        report(task=["t"]),
        report(task="a\nb"),
        b"[" * 5000,
        b'"' + b"x" * LONGEST + b'"',
    ],
)
def test_other_messages_are_dropped(message: bytes) -> None:
    assert read_report(message, "uid") is None


async def test_reports_arrive_among_nonsense() -> None:
    uid = str(uuid4())
    reported: list[str] = []
    arrived = asyncio.Event()

    def take(task: str) -> None:
        reported.append(task)
        if len(reported) == 2:
            arrived.set()

    transport = await listen(uid, take)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            for message in (report(pod=uid, task="a"), b"nonsense", report(), report(pod=uid, task="b")):
                sender.sendto(message, address(uid))
        async with asyncio.timeout(30):
            await arrived.wait()
    finally:
        transport.close()
        await asyncio.sleep(0)
    assert reported == ["a", "b"]


async def test_second_listener_is_refused() -> None:
    uid = str(uuid4())
    transport = await listen(uid, lambda task: None)
    try:
        with pytest.raises(OSError):
            await listen(uid, lambda task: None)
    finally:
        transport.close()
        await asyncio.sleep(0)
