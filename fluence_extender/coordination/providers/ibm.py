"""IBM Quantum, by the REST API of its compute service (formerly Qiskit Runtime), which QRMI speaks too.

Jobs are found by the tag that the interceptor gave them; what was started through QRMI has no tags and is reported by
the interceptor. The service tells no position of a job, only how many jobs wait for a backend: a queued job is the next
one where it waits alone.

Credentials are read as QRMI reads them (``<backend>_QRMI_IBM_QRS_ENDPOINT``, ``..._IAM_ENDPOINT``, ``..._IAM_APIKEY``,
``..._SERVICE_CRN``; QCS for QRS, and without the backend's name), else as Qiskit does (``QISKIT_IBM_TOKEN``,
``QISKIT_IBM_INSTANCE``, ``QISKIT_IBM_URL``).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from fluence_extender.coordination.provider import ProviderError
from fluence_extender.coordination.tasks import State, Status, read_id
from fluence_extender.coordination.web import Answer, ask, asked, listed

SERVICE = "https://quantum.cloud.ibm.com/api/v1"
IAM = "https://iam.cloud.ibm.com"
API_VERSION = "2025-05-01"
GRANT = "urn:ibm:params:oauth:grant-type:apikey"
PAGE = 200
EARLY = 60.0
TYPES = ("qiskit-runtime-service", "ibm-quantum-compute-service", "ibm-quantum-system", "direct-access")
STATES = {
    "queued": State.QUEUED,
    "running": State.RUNNING,
    "completed": State.COMPLETED,
    "cancelled": State.CANCELLED,
    "cancelled - ran too long": State.CANCELLED,
    "failed": State.FAILED,
}


@dataclass(frozen=True, slots=True)
class Account:
    """Where the service is, and who asks."""

    endpoint: str
    iam: str
    key: str
    instance: str


class Ibm:
    """The provider ``ibm``."""

    name = "ibm"

    def matches(self, attributes: Mapping[str, str]) -> bool:
        """By QRMI's type of the resource, else by vendor, else by the name of the backend."""
        kind = attributes.get("qrmi_type", "").lower()
        if kind:
            return kind in TYPES
        vendor = attributes.get("vendor", "").lower()
        if vendor:
            return vendor in ("ibm", "ibmq", "ibm-quantum", "qiskit")
        return attributes.get("backend", "").lower().startswith("ibm_")

    def connect(self, attributes: Mapping[str, str], environ: Mapping[str, str]) -> IbmQueue:
        """The backend's queue."""
        backend = attributes.get("backend", "")
        return IbmQueue(backend, account(backend, environ))


def account(backend: str, environ: Mapping[str, str]) -> Account:
    """The credentials for ``backend``. Raises `ProviderError`, naming what is missing."""

    def first(name: str, usual: str, otherwise: str = "") -> str:
        prefixes = (f"{backend}_QRMI_IBM_QCS", f"{backend}_QRMI_IBM_QRS", "QRMI_IBM_QCS", "QRMI_IBM_QRS")
        names = [*(f"{prefix}_{name}" for prefix in prefixes), usual]
        return next((environ[one] for one in names if environ.get(one)), otherwise)

    key, instance = first("IAM_APIKEY", "QISKIT_IBM_TOKEN"), first("SERVICE_CRN", "QISKIT_IBM_INSTANCE")
    if not key or not instance:
        raise ProviderError(
            f"no credentials for {backend or 'IBM Quantum'}: set {backend}_QRMI_IBM_QRS_IAM_APIKEY and "
            f"{backend}_QRMI_IBM_QRS_SERVICE_CRN, or QISKIT_IBM_TOKEN and QISKIT_IBM_INSTANCE, from a Secret in the "
            "first container"
        )
    endpoint = first("ENDPOINT", "QISKIT_IBM_URL", SERVICE).rstrip("/")
    if urlsplit(endpoint).path in ("", "/"):
        endpoint = f"{endpoint}/api/v1"
    return Account(endpoint, first("IAM_ENDPOINT", "IAM_URL", IAM).rstrip("/"), key, instance)


class IbmQueue:
    """Jobs of one account."""

    def __init__(self, backend: str, account: Account) -> None:
        self._backend = backend
        self._account = account
        self._token = ""
        self._renew_at = 0.0

    def find_my_tasks(self, pod_uid: str) -> Sequence[str]:
        """See `Queue`. One page, the newest jobs first."""
        tag = f"fluence-pod-uid={pod_uid}"
        answer = self._answer(f"/jobs?{urlencode({'tags': tag, 'limit': PAGE})}")
        mine = [one for one in listed(answer, "jobs", "list jobs") if tag in (one.get("tags") or ())]
        mine.sort(key=lambda one: str(one.get("created", "")))
        return [found for one in mine if (found := read_id(one.get("id"))) is not None]

    def status(self, task: str) -> Status:
        """See `Queue`."""
        job = self._get(f"/jobs/{quote(task, safe='')}", f"read job {task}")
        told = job.get("state")
        said = str(told.get("status", "") if isinstance(told, dict) else job.get("status", ""))
        state = STATES.get(said.lower())
        if state is None:
            raise ProviderError(f"job {task} is said to be {said!r}, which is no state")
        return Status(
            state, self._position(str(job.get("backend") or self._backend)) if state is State.QUEUED else None
        )

    def _position(self, backend: str) -> int | None:
        """The position of a job that waits: 1 where no other does; else not more than that others wait is known."""
        if not backend:
            return None
        waiting = self._get(f"/backends/{quote(backend, safe='')}/status", f"ask for {backend}").get(
            "length_queue"
        )
        return 1 if isinstance(waiting, int) and waiting <= 1 else None

    def _get(self, path: str, what: str) -> Mapping[str, Any]:
        return asked(self._answer(path), what)

    def _answer(self, path: str) -> Answer:
        answer = self._ask(path)
        if answer.status == 401:
            self._token = ""
            answer = self._ask(path)
        return answer

    def _ask(self, path: str) -> Answer:
        headers = {
            "Accept": "application/json",
            "Authorization": f"Bearer {self._bearer()}",
            "Service-CRN": self._account.instance,
            "IBM-API-Version": API_VERSION,
        }
        return ask("GET", f"{self._account.endpoint}{path}", headers)

    def _bearer(self) -> str:
        """An access token, which IAM gives for the key and an hour."""
        if self._token and time.monotonic() < self._renew_at:
            return self._token
        form = urlencode({"grant_type": GRANT, "apikey": self._account.key}).encode()
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        given = asked(
            ask("POST", f"{self._account.iam}/identity/token", headers, form), "get a token of IBM Cloud"
        )
        token, lasts = given.get("access_token"), given.get("expires_in")
        if not isinstance(token, str) or not token:
            raise ProviderError("IBM Cloud gave an answer without an access token")
        self._token = token
        self._renew_at = time.monotonic() + max(EARLY, (lasts if isinstance(lasts, int) else 0) - EARLY)
        return token
