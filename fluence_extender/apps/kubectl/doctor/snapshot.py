"""What the checks look at: the cluster and the service, read once before all checks.

Invariant: no question that kubectl or the service can't answer stops the reading. The failure is kept in place of the
answer, and raised to the check that looks at it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fluence_extender.apps.kubectl.errors import CommandError, KubectlFailed
from fluence_extender.apps.kubectl.figures import now
from fluence_extender.apps.kubectl.program import kubectl_output
from fluence_extender.apps.kubectl.state_api import SERVICE, Item, StateApiClient
from fluence_extender.model.names import DOMAIN, RESOURCE_PREFIX, SCHEDULER_NAME, WEBHOOK_NAME

OK, WARNING, FAULT, UNKNOWN = "ok", "warning", "fault", "unknown"

DASHBOARD = "fluence-dashboard"
"""The Deployment of ``deploy/dashboard``, which an installation can do without."""

QUEUE_KINDS = f"queues.{DOMAIN},reservations.{DOMAIN}"
REGISTRATION = f"mutatingwebhookconfiguration {WEBHOOK_NAME}"
MUTATING, VALIDATING = "mutatingadmissionpolicy", "validatingadmissionpolicy"
INSTALL = "kubectl apply -k deploy"

RIGHTS = {
    "watch nodes": "nodes",
    "create pods/binding": "pods --subresource=binding",
    "create pods/eviction": "pods --subresource=eviction",
    "patch pods/status": "pods --subresource=status",
    "patch jobs": "jobs",
}
"""What the service's account must be allowed -> what ``kubectl auth can-i`` is asked about after the verb."""

TRIAL = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"generateName": "fluence-doctor-"},
    "spec": {
        "schedulerName": SCHEDULER_NAME,
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": "main",
                "image": "registry.k8s.io/pause:3.10",
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                "resources": {"limits": {f"{RESOURCE_PREFIX}qpu": "1"}},
            }
        ],
    },
}
"""A pod with a device that meets the strictest Pod Security Standard. It is only created as a dry run."""

_PATIENCE = 10.0
"""Seconds for one call of kubectl."""

_TRIAL_PATIENCE = 20.0
"""Seconds; the API server waits for a webhook for up to 10."""

_AT_ONCE = 4
"""Calls of kubectl at the same time."""

_SAMPLE = re.compile(r"^(\w+)(?:\{[^}]*\})? (\S+)", re.M)
"""A line of the Prometheus text format: name, value."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A result of a check: ``status`` is ok, warning, fault or unknown; ``fix`` is what to do, "" if nothing is."""

    status: str
    text: str
    fix: str = ""


class Unseen(Exception):
    """Something that a check looks at couldn't be read. ``finding`` says why."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.text)
        self.finding = finding


class Missing(Unseen):
    """The cluster has no such object."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What there was at ``time``: answers of kubectl by question, and of the service by path, or why there is none."""

    client: StateApiClient
    time: datetime
    cluster: Mapping[str, bytes | KubectlFailed]
    service: Mapping[str, Any]

    @property
    def service_namespace(self) -> str:
        """The namespace in which the service is installed."""
        return self.client.service_namespace

    @property
    def cluster_answers(self) -> bool:
        """Whether the API server answers."""
        return not isinstance(self.cluster["version"], KubectlFailed)

    @property
    def service_answers(self) -> bool:
        """Whether the service gives a list of its backends."""
        backends = self.service["/v1/backends"]
        return isinstance(backends, dict) and "items" in backends

    def read(self, question: str) -> bytes:
        """Return what kubectl answered. Raise `KubectlFailed`."""
        answer = self.cluster[question]
        if isinstance(answer, KubectlFailed):
            raise answer
        return answer

    def object(self, name: str) -> dict[str, Any]:
        """Return an object of the cluster, by kind and name. Raise `Missing` or `Unseen`."""
        try:
            content: dict[str, Any] = json.loads(self.read(name))
        except KubectlFailed as error:
            if "(NotFound)" in str(error):
                raise Missing(Finding(FAULT, f"there is no {name}", INSTALL)) from None
            forbidden = "(Forbidden)" in str(error)
            raise Unseen(
                Finding(UNKNOWN, f"you may not look at {name}" if forbidden else str(error))
            ) from None
        except ValueError:
            raise Unseen(Finding(UNKNOWN, f"kubectl gave no JSON for {name}")) from None
        return content

    def items(self, path: str) -> list[Item] | None:
        """Return the items of a list of the service, None if it doesn't show them."""
        items = self.service[path]
        return None if isinstance(items, CommandError) else items

    @property
    def metrics(self) -> dict[str, float] | None:
        """The service's metrics, each as the sum over its labels; None if the service shows none."""
        totals = self.service["/metrics"]
        return None if isinstance(totals, CommandError) else totals


def ask_kubectl(
    client: StateApiClient, words: str, body: bytes | None = None, patience: float = _PATIENCE
) -> bytes:
    """Return the output of kubectl, given ``body`` on its standard input; ``patience`` is in seconds.

    Raise `KubectlFailed`.
    """
    limit = f"--request-timeout={patience:.0f}s"
    return kubectl_output([*words.split(), *client.connection, limit], patience + 5, body)


def take(client: StateApiClient, namespace: str) -> Snapshot:
    """Read the cluster and the service; ``namespace`` is that of the user's pods, "" for the kubeconfig's."""
    version = _or_failure(client, "get --raw /version")
    backends = _answer(client.document, "/v1/backends")
    answers: dict[str, bytes | KubectlFailed] = {"version": version}
    if not (client.server and isinstance(version, KubectlFailed)):
        questions = _questions(client.service_namespace)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            read = pool.map(lambda words: _or_failure(client, words), questions.values())
            answers |= zip(questions, read, strict=True)
        registration = answers[REGISTRATION]
        if isinstance(registration, bytes) and b"caBundle" in registration:
            answers["trial"] = _try(client, namespace)
    service: dict[str, Any] = {"/v1/backends": backends}
    if isinstance(backends, dict):
        service["/openapi.json"] = _answer(client.document, "/openapi.json")
        service |= {path: _answer(client.items, path) for path in ("/v1/nodes", "/v1/gangs")}
        service["/metrics"] = _answer(lambda path: _totals(client.text(path)), "/metrics")
    return Snapshot(client, now(), answers, service)


def _totals(metrics: bytes) -> dict[str, float]:
    """Return each metric as the sum over its labels."""
    totals: dict[str, float] = {}
    for name, value in _SAMPLE.findall(metrics.decode(errors="replace")):
        totals[name] = totals.get(name, 0) + float(value)
    return totals


def _questions(service_namespace: str) -> dict[str, str]:
    """Return what kubectl is asked, by the names that the checks use."""
    where = f"-n {service_namespace}"
    account = f"system:serviceaccount:{service_namespace}:{SERVICE}"
    there = [f"deployment {name}" for name in (SERVICE, WEBHOOK_NAME, DASHBOARD)]
    there += [f"lease {SERVICE}", f"serviceaccount {SERVICE}"]
    return {
        **{name: f"get {name} {where} -o json" for name in there},
        REGISTRATION: f"get {REGISTRATION} -o json",
        **{kind: f"get {kind},{kind}binding -o name" for kind in (MUTATING, VALIDATING)},
        "queues": f"get {QUEUE_KINDS} -o json",
        **{
            right: f"auth can-i {right.partition(' ')[0]} {subject} --as={account} -A"
            for right, subject in RIGHTS.items()
        },
    }


def _try(client: StateApiClient, namespace: str) -> bytes | KubectlFailed:
    """Create a pod that asks for a device, as a dry run, so that the webhook is called."""
    words = "create --dry-run=server -o name -f -" + (f" -n {namespace}" if namespace else "")
    return _or_failure(client, words, json.dumps(TRIAL).encode(), _TRIAL_PATIENCE)


def _or_failure(
    client: StateApiClient, words: str, body: bytes | None = None, patience: float = _PATIENCE
) -> bytes | KubectlFailed:
    try:
        return ask_kubectl(client, words, body, patience)
    except KubectlFailed as error:
        return error


def _answer(ask: Callable[[str], Any], path: str) -> Any:
    """Return what the service answers under ``path``, or the `CommandError` if it doesn't."""
    try:
        return ask(path)
    except CommandError as error:
        return error
