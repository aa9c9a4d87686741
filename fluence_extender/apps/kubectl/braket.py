"""Live queue length and status of Amazon Braket devices, through the user's own ``aws`` command line.

Only devices with a known ARN are queried, and only if a policy uses queue or status. Credentials stay with ``aws``. A
query that fails gives ``status: UNKNOWN`` and the kind of error in ``query_error``; selection goes on.

An error's text may name the user's account. It is only printed: descriptions, and so the
record on the object, have only the error's code.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fluence_extender.apps.kubectl.terminal import tell_note, waiting
from fluence_extender.selection.backend import DEVICE_ARN, QUEUE, REGION, STATUS, Backend
from fluence_extender.selection.providers import BackendQuery, Description

UNREADABLE_QUEUE = 1e9
"""The queue size that stands for one which can't be read: longer than any other."""

_AT_ONCE = 8
"""Queries at the same time."""

_PATIENCE = 30.0
"""Seconds for one device."""


class BraketLive:
    """The provider ``braket-live``."""

    name = "braket-live"

    def wanted(self, needs: frozenset[str]) -> bool:
        """Return whether queue or status is needed. They change by the minute, so no file has them."""
        return bool(needs & {QUEUE, STATUS})

    def describe(self, query: BackendQuery) -> Description:
        """Query each device with an ARN."""
        devices = [one for one in query.backends if one.strings.get(DEVICE_ARN)]
        if not devices:
            return Description()
        aws = shutil.which("aws")
        if aws is None:
            note = "aws is not on the PATH; install the AWS CLI for live queue and status"
            return Description(
                tuple(_unknown(one.name, "aws is not on the PATH") for one in devices), (note,)
            )
        with waiting("asking Amazon Braket"), ThreadPoolExecutor(_AT_ONCE) as pool:
            return Description(tuple(pool.map(lambda one: _query(aws, one), devices)))


def queue_size(text: str) -> float:
    """Return the number of tasks in a queue size: ``12``, ``>4000`` (4001), or 1e9 if it can't be read."""
    stripped = text.strip()
    above = stripped.startswith(">")
    digits = stripped.removeprefix(">").strip()
    if not (digits.isascii() and digits.isdigit()):
        return UNREADABLE_QUEUE
    return float(digits) + above


def read_device(name: str, device: Mapping[str, Any]) -> Backend:
    """Return the status and the queue of ordinary tasks of a device, from the answer of GetDevice."""
    strings = {STATUS: str(device.get("deviceStatus") or "UNKNOWN")}
    for queue in device.get("deviceQueueInfo") or ():
        ordinary = str(queue.get("queuePriority", "")).lower() != "priority"
        if "QUANTUM_TASKS" in str(queue.get("queue", "")) and ordinary:
            return Backend(name, {QUEUE: queue_size(str(queue.get("queueSize", "")))}, strings)
    return Backend(name, {}, strings)


def _query(aws: str, one: Backend) -> Backend:
    arn = one.strings[DEVICE_ARN]
    command = [aws, "braket", "get-device", "--device-arn", arn, "--output", "json"]
    region = one.strings.get(REGION) or (arn.split(":") + [""] * 4)[3]
    if region:
        command += ["--region", region]
    try:
        ended = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE,
            check=False,
            env={**os.environ, "AWS_PAGER": ""},
        )
        if ended.returncode:
            return _unknown(one.name, _error_code(one.name, ended.stderr.decode(errors="replace")))
        return read_device(one.name, json.loads(ended.stdout))
    except subprocess.TimeoutExpired:
        return _unknown(one.name, f"no answer within {_PATIENCE:.0f} s")
    except (OSError, ValueError, AttributeError):
        return _unknown(one.name, "aws gave no device")


def _error_code(name: str, output: str) -> str:
    """Print the error that ``aws`` wrote, in full, and return ``aws: CODE``."""
    lines = output.strip().splitlines()
    if lines:
        tell_note(f"{name}: {lines[-1]}")
    code = re.search(r"\((\w+)\)", output)
    return f"aws: {code.group(1)}" if code else "aws failed"


def _unknown(name: str, why: str) -> Backend:
    return Backend(name, {}, {STATUS: "UNKNOWN", "query_error": why})
