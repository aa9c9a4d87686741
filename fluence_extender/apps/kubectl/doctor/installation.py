"""Checks of what is installed in the cluster, which kubectl reads with the user's rights."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

from fluence_extender.apps.kubectl.doctor.examination import (
    FAULT,
    OK,
    UNKNOWN,
    WARNING,
    Examination,
    Finding,
)
from fluence_extender.apps.kubectl.errors import KubectlFailed
from fluence_extender.apps.kubectl.figures import moment, now, span
from fluence_extender.apps.kubectl.state_api import SERVICE
from fluence_extender.model.names import (
    DOMAIN,
    RESOURCE_PREFIX,
    SCHEDULER_NAME,
    WEBHOOK_NAME,
)
from fluence_extender.model.requirement import NEEDS, is_too_old

DASHBOARD = "fluence-dashboard"
"""The Deployment of ``deploy/dashboard``, which an installation can do without."""

LEASE_PATIENCE = 60.0
"""Seconds after which a leader that doesn't renew its Lease is taken to be gone."""

_TRIAL_PATIENCE = 20.0
"""Seconds; the API server waits for a webhook for up to 10."""

_PLAIN_NO = "kubectl ended with"
"""The message of `KubectlFailed` for a plain no of ``kubectl auth can-i``: an exit code, and nothing on stderr."""

_NEEDED_RIGHTS = {
    "nodes": "watch",
    "pods/binding": "create",
    "pods/eviction": "create",
    "pods/status": "patch",
    "jobs": "patch",
}


def cluster(examination: Examination) -> Iterator[Finding]:
    """Check that the API server answers the user, and that it isn't too old."""
    try:
        version = json.loads(examination.kubectl("get", "--raw", "/version"))["gitVersion"]
    except (KubectlFailed, ValueError, KeyError) as error:
        if examination.client.server:
            text = f"can't be asked, so only the service at {examination.client.server} is looked at: {error}"
            yield Finding("cluster", UNKNOWN, text)
            return
        yield Finding("cluster", FAULT, f"can't be asked: {error}", "check it with kubectl cluster-info")
        return
    examination.cluster = True
    if is_too_old(version):
        yield Finding("cluster", FAULT, f"Kubernetes {version}: {NEEDS}", "update the cluster")
    else:
        yield Finding("cluster", OK, f"Kubernetes {version}")


def replicas(examination: Examination) -> Iterator[Finding]:
    """Check that the service's Deployment has its pods."""
    yield _ready(examination, "replicas", SERVICE)


def _ready(examination: Examination, check: str, name: str) -> Finding:
    """Return whether the Deployment ``name`` has its pods."""
    found = examination.object(check, "deployment", name, "-n", examination.service_namespace)
    if isinstance(found, Finding):
        return found
    wanted = found.get("spec", {}).get("replicas", 1)
    ready = found.get("status", {}).get("readyReplicas", 0)
    text = f"{ready} of {wanted} replicas are ready"
    if ready >= wanted:
        return Finding(check, OK, text)
    fix = f"see kubectl describe pods -n {examination.service_namespace} -l app.kubernetes.io/name={name}"
    return Finding(check, WARNING if ready else FAULT, text, fix)


def dashboard(examination: Examination) -> Iterator[Finding]:
    """Check that the dashboard of ``deploy/dashboard`` has its pods, where it is installed."""
    found = _ready(examination, "dashboard", DASHBOARD)
    if not found.text.startswith("there is no"):
        yield found


def scheduler(examination: Examination) -> Iterator[Finding]:
    """Check that a kube-scheduler of ours holds its Lease and renews it."""
    found = examination.object("scheduler", "lease", SERVICE, "-n", examination.service_namespace)
    if isinstance(found, Finding):
        yield found
        return
    spec = found.get("spec", {})
    holder, renewed = spec.get("holderIdentity") or "", spec.get("renewTime") or ""
    fix = f"see kubectl logs -n {examination.service_namespace} deployment/{SERVICE} -c kube-scheduler"
    if not holder or not renewed:
        yield Finding("scheduler", FAULT, "no kube-scheduler leads", fix)
        return
    ago = (now() - moment(renewed)).total_seconds()
    if ago > LEASE_PATIENCE:
        text = f"the leader {holder} last renewed its Lease {span(ago)} ago"
        yield Finding("scheduler", FAULT, text, fix)
    else:
        yield Finding("scheduler", OK, f"{holder.partition('_')[0]} leads")


def webhook(examination: Examination) -> Iterator[Finding]:
    """Check that the admission webhook is registered and answers: without its answer pods with devices are refused."""
    found = examination.webhook
    if isinstance(found, Finding):
        yield found
        return
    clients = [one.get("clientConfig", {}) for one in found.get("webhooks") or ()]
    url = next((str(one["url"]) for one in clients if one.get("url")), "")
    if not url:
        ready = _ready(examination, "webhook", WEBHOOK_NAME)
        if ready.status != OK:
            yield replace(
                ready, text=f"{WEBHOOK_NAME}: {ready.text}" if "replicas" in ready.text else ready.text
            )
    fix = (
        f"see that its process answers at {url}"
        if url
        else f"see kubectl logs -n {examination.service_namespace} deployment/{WEBHOOK_NAME}"
    )
    if not clients or not all(one.get("caBundle") for one in clients):
        yield Finding("webhook", FAULT, "its registration has no caBundle yet, so it can't be called", fix)
        return
    yield _tried(examination, fix)


def _tried(examination: Examination, fix: str) -> Finding:
    """Create a pod that asks for a device, as a dry run, and return whether the webhook answered."""
    namespace = ("-n", examination.namespace) if examination.namespace else ()
    words = ("create", "--dry-run=server", "-o", "name", "-f", "-", *namespace)
    try:
        examination.kubectl(*words, body=json.dumps(_TRIAL).encode(), patience=_TRIAL_PATIENCE)
    except KubectlFailed as error:
        message = str(error)
        if "failed calling webhook" in message and f".{DOMAIN}" in message:
            text = f"pods that ask for devices are refused: {message[message.index('failed calling') :]}"
            return Finding("webhook", FAULT, text, fix)
        # A refusal by the webhook itself is an answer.
        if "denied the request" not in message or f".{DOMAIN}" not in message:
            why = "you may not create pods, which the trial needs" if "cannot create" in message else message
            return Finding("webhook", UNKNOWN, f"registered, but not tried: {why}")
    return Finding("webhook", OK, "answers")


_TRIAL = {
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
"""A pod that meets the strictest Pod Security Standard. It is only created as a dry run."""


def rights(examination: Examination) -> Iterator[Finding]:
    """Check that the service's own account has the rights that it needs."""
    where = ("-n", examination.service_namespace)
    account_object = examination.object("rights", "serviceaccount", SERVICE, *where)
    if isinstance(account_object, Finding) and account_object.status == FAULT:
        text = f"{account_object.text}: the service runs under another account"
        yield replace(account_object, status=UNKNOWN, text=text, fix="")
        return
    account = f"system:serviceaccount:{examination.service_namespace}:{SERVICE}"
    refused: list[str] = []
    for resource, verb in _NEEDED_RIGHTS.items():
        try:
            kind, _, part = resource.partition("/")
            wanted = [kind, f"--subresource={part}"] if part else [kind]
            examination.kubectl("auth", "can-i", verb, *wanted, f"--as={account}", "-A")
        except KubectlFailed as error:
            message = str(error)
            if "impersonate" in message or "orbidden" in message:
                yield Finding("rights", UNKNOWN, "you may not ask what the service may do")
                return
            if not message.startswith((_PLAIN_NO, "Warning")):
                yield Finding("rights", UNKNOWN, message)
                return
            refused.append(f"{verb} {resource}")
    if refused:
        fix = "kubectl apply -k deploy, which grants it"
        yield Finding("rights", FAULT, f"the service may not {', '.join(refused)}", fix)
    else:
        yield Finding("rights", OK, "the service may do what it has to")
