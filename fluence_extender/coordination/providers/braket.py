"""Amazon Braket: tasks are found by the tag that the interceptor gave them, their queue is read with their status.

SearchQuantumTasks can't filter by tag, so tags are compared here, page after page. A device's tasks live in one region,
which its ARN or attribute names first; the regions in which Braket has devices are searched, and those that deny it are
left out from then on, unless all do.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote

from fluence_extender.coordination.aws.credentials import Credentials
from fluence_extender.coordination.aws.signing import signed
from fluence_extender.coordination.provider import ProviderError
from fluence_extender.coordination.tasks import State, Status, read_id, read_position
from fluence_extender.coordination.web import Answer, ask, asked, listed

TAG = "fluence-pod-uid"
REGIONS = ("us-east-1", "us-west-1", "us-west-2", "eu-west-2", "eu-north-1")
REGIONS_VARIABLE = "FLUENCE_BRAKET_REGIONS"
PAGE = 100
MOST_PAGES = 50
DENIED = (401, 403)
SKEW = 60.0
STATES = {
    "CREATED": State.QUEUED,
    "QUEUED": State.QUEUED,
    "RUNNING": State.RUNNING,
    "COMPLETED": State.COMPLETED,
    "FAILED": State.FAILED,
    "CANCELLING": State.CANCELLED,
    "CANCELLED": State.CANCELLED,
}


class Braket:
    """The provider ``braket``."""

    name = "braket"

    def matches(self, attributes: Mapping[str, str]) -> bool:
        """By QRMI's type of the resource, else by vendor, else by the name or ARN of the device."""
        kind = attributes.get("qrmi_type", "").lower()
        if kind:
            return kind.startswith("braket")
        vendor = attributes.get("vendor", "").lower()
        if vendor in ("braket", "amazon", "aws"):
            return True
        named = f"{attributes.get('backend', '')} {_arn(attributes)}".lower()
        return "braket" in named

    def connect(self, attributes: Mapping[str, str], environ: Mapping[str, str]) -> BraketQueue:
        """The device's queue."""
        return BraketQueue(regions(attributes, environ), environ)


def regions(attributes: Mapping[str, str], environ: Mapping[str, str]) -> list[str]:
    """The regions to search, the likeliest first."""
    said = [_region(_arn(attributes)), attributes.get("region", ""), environ.get("AWS_DEFAULT_REGION", "")]
    asked_for = [one.strip() for one in environ.get(REGIONS_VARIABLE, "").split(",")]
    listed = asked_for if any(asked_for) else list(REGIONS)
    return [one for one in dict.fromkeys([*said, *listed]) if one]


@dataclass
class BraketQueue:
    """Tasks of one account in ``regions``."""

    regions: list[str]
    environ: Mapping[str, str]
    _credentials: Credentials = field(init=False)
    _denied: dict[str, str] = field(default_factory=dict)
    _ahead: timedelta = timedelta()

    def __post_init__(self) -> None:
        self._credentials = Credentials(self.environ, self.regions[0])

    def find_my_tasks(self, pod_uid: str) -> Sequence[str]:
        """See `Queue`."""
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
            told = next(iter(self._denied.values()))
            self._denied.clear()
            raise ProviderError(f"every region denies the search: {told}")
        return [arn for _, arn in sorted(found)]

    def status(self, task: str) -> Status:
        """See `Queue`."""
        region = _region(task) or self.regions[0]
        path = f"/quantum-task/{quote(task, safe='')}?additionalAttributeNames=QueueInfo"
        told = asked(self._call("GET", region, path), f"read task {task}")
        state = STATES.get(str(told.get("status", "")))
        if state is None:
            raise ProviderError(f"task {task} is said to be {told.get('status')!r}, which is no state")
        queue = told.get("queueInfo")
        return Status(state, read_position(queue.get("position")) if isinstance(queue, dict) else None)

    def _search(self, region: str, pod_uid: str) -> list[tuple[str, str]]:
        """Creation time and ARN of the pod's tasks in ``region``."""
        found: list[tuple[str, str]] = []
        query: dict[str, Any] = {"filters": [], "maxResults": PAGE}
        for _ in range(MOST_PAGES):
            answer = self._call("POST", region, "/quantum-tasks", json.dumps(query).encode())
            if answer.status in DENIED:
                self._denied[region] = f"{region}: HTTP {answer.status}: {answer.text[:200]}"
                return found
            for one in listed(answer, "quantumTasks", f"search for tasks in {region}"):
                tags = one.get("tags")
                arn = read_id(one.get("quantumTaskArn")) if isinstance(tags, dict) else None
                if arn is not None and isinstance(tags, dict) and tags.get(TAG) == pod_uid:
                    found.append((str(one.get("createdAt", "")), arn))
            if not answer.body.get("nextToken"):
                break
            query["nextToken"] = answer.body["nextToken"]
        return found

    def _call(self, method: str, region: str, path: str, body: bytes = b"") -> Answer:
        """A signed call; where it is refused because clocks differ or keys expired, once more."""
        answer = self._call_once(method, region, path, body)
        if answer.status in DENIED:
            ahead = _ahead(answer, datetime.now(UTC) + self._ahead)
            expired = "ExpiredToken" in answer.text or "expired" in answer.text.lower()
            if abs(ahead.total_seconds()) > SKEW or expired:
                self._ahead += ahead if abs(ahead.total_seconds()) > SKEW else timedelta()
                if expired:
                    self._credentials.forget()
                answer = self._call_once(method, region, path, body)
        return answer

    def _call_once(self, method: str, region: str, path: str, body: bytes) -> Answer:
        base = self.environ.get("AWS_ENDPOINT_URL_BRAKET") or self.environ.get("AWS_ENDPOINT_URL")
        url = f"{(base or f'https://braket.{region}.amazonaws.com').rstrip('/')}{path}"
        now = datetime.now(UTC) + self._ahead
        headers = {"Content-Type": "application/json"} if body else {}
        sent = signed(method, url, headers, body, self._credentials.keys(), region, "braket", now)
        del sent["Host"]
        return ask(method, url, sent, body or None)


def _ahead(answer: Answer, ours: datetime) -> timedelta:
    """How far the service's clock is ahead of ours, nothing where it doesn't say."""
    try:
        return parsedate_to_datetime(answer.headers.get("date", "")) - ours
    except (ValueError, TypeError):
        return timedelta()


def _arn(attributes: Mapping[str, str]) -> str:
    return attributes.get("arn") or attributes.get("device_arn") or ""


def _region(arn: str) -> str:
    """The region of an ARN, "" where it names none."""
    return (arn.split(":") + [""] * 4)[3]
