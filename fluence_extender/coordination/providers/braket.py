"""Amazon Braket: tasks are found by the tag that the interceptor gave them; a task's status includes its position.

SearchQuantumTasks can't filter by tag, so tags are compared here, page after page. A device's tasks are in one region,
which its ARN or attribute names, so that region is searched first. Then come the other regions in which Braket has
devices. A region that denies the search is left out from then on, unless all deny it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote

from fluence_extender.coordination.provider import (
    ProviderError,
    TaskState,
    TaskStatus,
    read_id,
    read_position,
)
from fluence_extender.coordination.providers.aws import AwsCredentials, signed
from fluence_extender.coordination.vendor_http import VendorResponse, send

TAG = "fluence-pod-uid"
REGIONS = ("us-east-1", "us-west-1", "us-west-2", "eu-west-2", "eu-north-1")
REGIONS_VARIABLE = "FLUENCE_BRAKET_REGIONS"
PAGE = 100
MOST_PAGES = 50
DENIED = (401, 403)
SKEW = 60.0
"""Seconds by which the clocks may differ before our signatures use the service's clock."""
STATES = {
    "CREATED": TaskState.QUEUED,
    "QUEUED": TaskState.QUEUED,
    "RUNNING": TaskState.RUNNING,
    "COMPLETED": TaskState.COMPLETED,
    "FAILED": TaskState.FAILED,
    "CANCELLING": TaskState.CANCELLED,
    "CANCELLED": TaskState.CANCELLED,
}


class Braket:
    """The provider ``braket``."""

    name = "braket"

    def matches(self, attributes: Mapping[str, str]) -> bool:
        """Decide by QRMI's type of the resource, else by vendor, else by the name or ARN of the device."""
        kind = attributes.get("qrmi_type", "").lower()
        if kind:
            return kind.startswith("braket")
        vendor = attributes.get("vendor", "").lower()
        if vendor in ("braket", "amazon", "aws"):
            return True
        name = f"{attributes.get('backend', '')} {_arn(attributes)}".lower()
        return "braket" in name

    def connect(self, attributes: Mapping[str, str], environ: Mapping[str, str]) -> BraketQueue:
        """Return the device's queue."""
        return BraketQueue(regions(attributes, environ), environ)


def regions(attributes: Mapping[str, str], environ: Mapping[str, str]) -> list[str]:
    """Return the regions to search, the likeliest first."""
    likely = [_region(_arn(attributes)), attributes.get("region", ""), environ.get("AWS_DEFAULT_REGION", "")]
    configured = [one.strip() for one in environ.get(REGIONS_VARIABLE, "").split(",")]
    others = configured if any(configured) else list(REGIONS)
    return [one for one in dict.fromkeys([*likely, *others]) if one]


@dataclass
class BraketQueue:
    """Tasks of one account in ``regions``."""

    regions: list[str]
    environ: Mapping[str, str]
    _credentials: AwsCredentials = field(init=False)
    _denied: dict[str, str] = field(default_factory=dict)
    _ahead: timedelta = timedelta()

    def __post_init__(self) -> None:
        self._credentials = AwsCredentials(self.environ, self.regions[0])

    def find_my_tasks(self, pod_uid: str) -> Sequence[str]:
        """Return the pod's tasks in all regions, oldest first. A region that fails hides no other region's tasks."""
        found: list[tuple[str, str]] = []
        failed = ""
        for region in self.regions:
            if region in self._denied:
                continue
            try:
                found += self._search(region, pod_uid)
            except ProviderError as error:
                failed = str(error)
        if not found and failed:
            raise ProviderError(failed)
        if len(self._denied) == len(self.regions):
            first = next(iter(self._denied.values()))
            self._denied.clear()
            raise ProviderError(f"every region denies the search: {first}")
        return [arn for _, arn in sorted(found)]

    def status(self, task: str) -> TaskStatus:
        """Return the status of a task; its ARN names the region."""
        region = _region(task) or self.regions[0]
        path = f"/quantum-task/{quote(task, safe='')}?additionalAttributeNames=QueueInfo"
        found = self._call("GET", region, path).checked(f"read task {task}")
        state = STATES.get(str(found.get("status", "")))
        if state is None:
            raise ProviderError(f"task {task} has the unknown status {found.get('status')!r}")
        queue = found.get("queueInfo")
        return TaskStatus(state, read_position(queue.get("position")) if isinstance(queue, dict) else None)

    def _search(self, region: str, pod_uid: str) -> list[tuple[str, str]]:
        """Return creation time and ARN of the pod's tasks in ``region``."""
        found: list[tuple[str, str]] = []
        query: dict[str, Any] = {"filters": [], "maxResults": PAGE}
        for _ in range(MOST_PAGES):
            response = self._call("POST", region, "/quantum-tasks", json.dumps(query).encode())
            if response.status in DENIED:
                self._denied[region] = f"{region}: HTTP {response.status}: {response.text[:200]}"
                return found
            for one in response.items("quantumTasks", f"search for tasks in {region}"):
                tags = one.get("tags")
                arn = read_id(one.get("quantumTaskArn")) if isinstance(tags, dict) else None
                if arn is not None and isinstance(tags, dict) and tags.get(TAG) == pod_uid:
                    found.append((str(one.get("createdAt", "")), arn))
            if not response.body.get("nextToken"):
                break
            query["nextToken"] = response.body["nextToken"]
        return found

    def _call(self, method: str, region: str, path: str, body: bytes = b"") -> VendorResponse:
        """Send a signed request, and repeat it once if it is refused because clocks differ or the keys have expired."""
        response = self._call_once(method, region, path, body)
        if response.status in DENIED:
            ahead = _clock_difference(response, datetime.now(UTC) + self._ahead)
            skewed = abs(ahead.total_seconds()) > SKEW
            expired = "expired" in response.text.lower()
            if skewed:
                self._ahead += ahead
            if expired:
                self._credentials.forget()
            if skewed or expired:
                response = self._call_once(method, region, path, body)
        return response

    def _call_once(self, method: str, region: str, path: str, body: bytes) -> VendorResponse:
        base = self.environ.get("AWS_ENDPOINT_URL_BRAKET") or self.environ.get("AWS_ENDPOINT_URL")
        url = f"{(base or f'https://braket.{region}.amazonaws.com').rstrip('/')}{path}"
        now = datetime.now(UTC) + self._ahead
        headers = {"Content-Type": "application/json"} if body else {}
        sent = signed(method, url, headers, body, self._credentials.keys(), region, "braket", now)
        del sent["Host"]
        return send(method, url, sent, body or None)


def _clock_difference(response: VendorResponse, ours: datetime) -> timedelta:
    """Return how far the service's clock is ahead of ours, zero if it doesn't say."""
    try:
        return parsedate_to_datetime(response.headers.get("date", "")) - ours
    except (ValueError, TypeError):
        return timedelta()


def _arn(attributes: Mapping[str, str]) -> str:
    return attributes.get("arn") or attributes.get("device_arn") or ""


def _region(arn: str) -> str:
    """Return the region of an ARN, "" if it names none."""
    return (arn.split(":") + [""] * 4)[3]
