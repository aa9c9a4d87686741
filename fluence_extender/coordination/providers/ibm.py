"""IBM Quantum, through the REST API of its compute service (formerly Qiskit Runtime), which QRMI uses too.

Jobs are found by the tag that the interceptor gave them. Jobs started through QRMI have no tags; the interceptor
reports them. The service states no position of a job, only how many jobs wait for a backend. So a queued job counts as
the next one if it waits alone.

Credentials are read as QRMI reads them (``<backend>_QRMI_IBM_QRS_ENDPOINT``, ``..._IAM_ENDPOINT``, ``..._IAM_APIKEY``,
``..._SERVICE_CRN``; QCS for QRS, and without the backend's name), else as Qiskit does (``QISKIT_IBM_TOKEN``,
``QISKIT_IBM_INSTANCE``, ``QISKIT_IBM_URL``).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlencode, urlsplit

from fluence_extender.coordination.provider import ProviderError, TaskState, TaskStatus, read_id
from fluence_extender.coordination.vendor_http import VendorResponse, send

SERVICE = "https://quantum.cloud.ibm.com/api/v1"
IAM = "https://iam.cloud.ibm.com"
API_VERSION = "2025-05-01"
GRANT = "urn:ibm:params:oauth:grant-type:apikey"
PAGE = 200
EARLY = 60.0
TYPES = ("qiskit-runtime-service", "ibm-quantum-compute-service", "ibm-quantum-system", "direct-access")
STATES = {
    "queued": TaskState.QUEUED,
    "running": TaskState.RUNNING,
    "completed": TaskState.COMPLETED,
    "cancelled": TaskState.CANCELLED,
    "cancelled - ran too long": TaskState.CANCELLED,
    "failed": TaskState.FAILED,
}


@dataclass(frozen=True, slots=True)
class IbmAccount:
    """The service, and the account that asks it."""

    endpoint: str
    iam: str
    key: str
    instance: str


class Ibm:
    """The provider ``ibm``."""

    name = "ibm"

    def matches(self, attributes: Mapping[str, str]) -> bool:
        """Decide by QRMI's type of the resource, else by vendor, else by the name of the backend."""
        kind = attributes.get("qrmi_type", "").lower()
        if kind:
            return kind in TYPES
        vendor = attributes.get("vendor", "").lower()
        if vendor:
            return vendor in ("ibm", "ibmq", "ibm-quantum", "qiskit")
        return attributes.get("backend", "").lower().startswith("ibm_")

    def connect(self, attributes: Mapping[str, str], environ: Mapping[str, str]) -> IbmQueue:
        """Return the backend's queue."""
        backend = attributes.get("backend", "")
        return IbmQueue(backend, account(backend, environ))


def account(backend: str, environ: Mapping[str, str]) -> IbmAccount:
    """Return the credentials for ``backend``. Raises `ProviderError`; the text says what to set."""

    def first(name: str, usual: str, default: str = "") -> str:
        prefixes = (f"{backend}_QRMI_IBM_QCS", f"{backend}_QRMI_IBM_QRS", "QRMI_IBM_QCS", "QRMI_IBM_QRS")
        names = [*(f"{prefix}_{name}" for prefix in prefixes), usual]
        return next((environ[one] for one in names if environ.get(one)), default)

    key, instance = first("IAM_APIKEY", "QISKIT_IBM_TOKEN"), first("SERVICE_CRN", "QISKIT_IBM_INSTANCE")
    if not key or not instance:
        raise ProviderError(
            f"the sidecar has no credentials for {backend or 'IBM Quantum'}: set {backend}_QRMI_IBM_QRS_IAM_APIKEY and "
            f"{backend}_QRMI_IBM_QRS_SERVICE_CRN, or QISKIT_IBM_TOKEN and QISKIT_IBM_INSTANCE, from a Secret in the "
            "first container"
        )
    endpoint = first("ENDPOINT", "QISKIT_IBM_URL", SERVICE).rstrip("/")
    if urlsplit(endpoint).path in ("", "/"):
        endpoint = f"{endpoint}/api/v1"
    return IbmAccount(endpoint, first("IAM_ENDPOINT", "IAM_URL", IAM).rstrip("/"), key, instance)


class IbmQueue:
    """Jobs of one account."""

    def __init__(self, backend: str, account: IbmAccount) -> None:
        self._backend = backend
        self._account = account
        self._token = ""
        self._renew_at = 0.0

    def find_my_tasks(self, pod_uid: str) -> Sequence[str]:
        """Return the pod's jobs, as far as they are on the first page, which has the newest ones."""
        tag = f"fluence-pod-uid={pod_uid}"
        response = self._get(f"/jobs?{urlencode({'tags': tag, 'limit': PAGE})}")
        mine = [one for one in response.items("jobs", "list jobs") if tag in (one.get("tags") or ())]
        mine.sort(key=lambda one: str(one.get("created", "")))
        return [found for one in mine if (found := read_id(one.get("id"))) is not None]

    def status(self, task: str) -> TaskStatus:
        """Return the status of a job."""
        job = self._get(f"/jobs/{quote(task, safe='')}").checked(f"read job {task}")
        nested = job.get("state")
        status = str(nested.get("status", "") if isinstance(nested, dict) else job.get("status", ""))
        state = STATES.get(status.lower())
        if state is None:
            raise ProviderError(f"job {task} has the unknown status {status!r}")
        return TaskStatus(
            state,
            self._position(str(job.get("backend") or self._backend)) if state is TaskState.QUEUED else None,
        )

    def _position(self, backend: str) -> int | None:
        """Return 1 if no other job waits for the backend, None otherwise: the service states no positions."""
        if not backend:
            return None
        response = self._get(f"/backends/{quote(backend, safe='')}/status")
        waiting = response.checked(f"read the status of {backend}").get("length_queue")
        return 1 if isinstance(waiting, int) and waiting <= 1 else None

    def _get(self, path: str) -> VendorResponse:
        """Return the response, after trying a refused token once more with a new one."""
        response = self._get_once(path)
        if response.status == 401:
            self._token = ""
            response = self._get_once(path)
        return response

    def _get_once(self, path: str) -> VendorResponse:
        headers = {
            "Accept": "application/json",
            "Authorization": f"Bearer {self._bearer()}",
            "Service-CRN": self._account.instance,
            "IBM-API-Version": API_VERSION,
        }
        return send("GET", f"{self._account.endpoint}{path}", headers)

    def _bearer(self) -> str:
        """Return an access token. IAM issues one for the key, for an hour."""
        if self._token and time.monotonic() < self._renew_at:
            return self._token
        form = urlencode({"grant_type": GRANT, "apikey": self._account.key}).encode()
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        response = send("POST", f"{self._account.iam}/identity/token", headers, form)
        issued = response.checked("get a token of IBM Cloud")
        token, lasts = issued.get("access_token"), issued.get("expires_in")
        if not isinstance(token, str) or not token:
            raise ProviderError("the answer of IBM Cloud holds no access token")
        self._token = token
        self._renew_at = time.monotonic() + max(EARLY, (lasts if isinstance(lasts, int) else 0) - EARLY)
        return token
