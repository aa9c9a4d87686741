"""The checks of ``kubectl fluence doctor``. Each looks at one thing and gives what it found."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from fluence_extender import __version__
from fluence_extender.apps.kubectl.errors import CommandError, KubectlFailed
from fluence_extender.apps.kubectl.figures import moment, now, span
from fluence_extender.apps.kubectl.program import ask_kubectl
from fluence_extender.apps.kubectl.question import Question
from fluence_extender.apps.kubectl.service import SERVICE, NotThere, Service
from fluence_extender.model.names import DOMAIN, RESOURCE_PREFIX, SCHEDULER_NAME, WEBHOOK_NAME

OK, WARNING, FAULT, UNKNOWN = "ok", "warning", "fault", "unknown"

FAULTS = ("PlanningFailed", "CannotSteer", "CannotBind")
"""Reasons of gangs that wait because something is wrong."""

LEASE_PATIENCE = 60.0
"""Seconds after which a leader that doesn't renew its Lease is taken to be gone."""

_PATIENCE = 10.0
_TRIAL_PATIENCE = 20.0
"""Seconds; the API server waits for a webhook for up to 10."""

_SAYS_NO = "kubectl ended with"
"""How a plain no of ``kubectl auth can-i`` looks: an exit code, and nothing on stderr."""

_SAMPLE = re.compile(r"^(\w+)(?:\{([^}]*)\})? (\S+)", re.M)


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found: ``status`` is ok, warning, fault or unknown; ``fix`` what to do, "" when nothing."""

    check: str
    status: str
    text: str
    fix: str = ""


@dataclass(slots=True)
class CheckUp:
    """What the checks look with, and what they have learnt: whether the service answers."""

    question: Question
    service: Service
    answers: bool = False
    samples: list[tuple[str, str, float]] = field(default_factory=list)

    @property
    def namespace(self) -> str:
        """Where the service is installed."""
        return self.question.service_namespace

    def kubectl(self, *words: str, body: bytes | None = None, patience: float = _PATIENCE) -> bytes:
        """What kubectl says, given ``body`` on standard input; ``patience`` in seconds. Raises `KubectlFailed`."""
        limit = f"--request-timeout={patience:.0f}s"
        return ask_kubectl([*words, *self.question.connection, limit], patience + 5, body)

    def total(self, metric: str) -> float:
        """The sum of a metric over all its labels."""
        return sum(value for name, _, value in self.samples if name == metric)


def cluster(at: CheckUp) -> Iterator[Finding]:
    """Whether the API server answers the user."""
    try:
        version = json.loads(at.kubectl("get", "--raw", "/version"))["gitVersion"]
    except (KubectlFailed, ValueError, KeyError) as error:
        yield Finding("cluster", FAULT, f"can't be asked: {error}", "check it with kubectl cluster-info")
        return
    yield Finding("cluster", OK, f"Kubernetes {version}")


def service(at: CheckUp) -> Iterator[Finding]:
    """Whether the service can be asked with the user's rights, and is ready."""
    try:
        found = at.service.document("/v1/nodes", limit=1)
        if not isinstance(found, dict) or "items" not in found:
            raise NotThere
    except NotThere:
        yield Finding(
            "service", FAULT, "it has no /v1/nodes as this is read: it is too old", "update its Deployment"
        )
        return
    except CommandError as error:
        told, _, fix = str(error).partition("; ")
        yield Finding("service", FAULT, told, fix)
        return
    at.answers = True
    leading = found.get("metadata", {}).get("leading", True)
    yield Finding("service", OK, "answers" + ("" if leading else ", by a replica that stands by"))


def versions(at: CheckUp) -> Iterator[Finding]:
    """Whether the plugin and the service are of one version."""
    if not at.answers:
        return
    try:
        theirs = str(at.service.document("/openapi.json")["info"]["version"])
    except (NotThere, CommandError, KeyError, TypeError):
        yield Finding("versions", UNKNOWN, "the service doesn't tell its version")
        return
    if theirs == __version__:
        yield Finding("versions", OK, f"kubectl-fluence and the service are both {theirs}")
    else:
        fix = "use the same version of both: pip install -U fluence-extender, or update the Deployment"
        yield Finding("versions", WARNING, f"kubectl-fluence {__version__}, the service {theirs}", fix)


def replicas(at: CheckUp) -> Iterator[Finding]:
    """Whether the Deployment has the pods that it should have."""
    yield _ready(at, "replicas", SERVICE)


def _ready(at: CheckUp, check: str, name: str) -> Finding:
    """Whether that Deployment has the pods that it should have."""
    found = _object(at, check, "deployment", name, "-n", at.namespace)
    if isinstance(found, Finding):
        return found
    wanted = found.get("spec", {}).get("replicas", 1)
    ready = found.get("status", {}).get("readyReplicas", 0)
    text = f"{ready} of {wanted} replicas are ready"
    if ready >= wanted:
        return Finding(check, OK, text)
    fix = f"see kubectl describe pods -n {at.namespace} -l app.kubernetes.io/name={name}"
    return Finding(check, WARNING if ready else FAULT, text, fix)


def scheduler(at: CheckUp) -> Iterator[Finding]:
    """Whether a kube-scheduler of ours holds its Lease and renews it."""
    found = _object(at, "scheduler", "lease", SERVICE, "-n", at.namespace)
    if isinstance(found, Finding):
        yield found
        return
    spec = found.get("spec", {})
    holder, renewed = spec.get("holderIdentity") or "", spec.get("renewTime") or ""
    fix = f"see kubectl logs -n {at.namespace} deployment/{SERVICE} -c kube-scheduler"
    if not holder or not renewed:
        yield Finding("scheduler", FAULT, "no kube-scheduler leads", fix)
        return
    ago = (now() - moment(renewed)).total_seconds()
    if ago > LEASE_PATIENCE:
        yield Finding("scheduler", FAULT, f"the leader {holder} was last heard of {span(ago)} ago", fix)
    else:
        yield Finding("scheduler", OK, f"{holder.partition('_')[0]} leads")


def gate(at: CheckUp) -> Iterator[Finding]:
    """Whether new pods are held back until their gang has a place, and those that the service binds are marked."""
    found = _object(at, "gate", "mutatingadmissionpolicybinding", "fluence-gate")
    if isinstance(found, Finding):
        yield found
        return
    yield Finding("gate", OK, "new pods of scheduler fluence wait for their gang")
    if isinstance(_object(at, "gate", "mutatingadmissionpolicybinding", "fluence-mark"), dict):
        fix = "kubectl delete mutatingadmissionpolicy,mutatingadmissionpolicybinding fluence-mark"
        yield Finding("gate", WARNING, "fluence-mark is evaluated for nothing: fluence-gate marks pods", fix)


def groups(at: CheckUp) -> Iterator[Finding]:
    """Whether labels of flux-k8s on a Deployment, ReplicaSet or StatefulSet are handed on to its pods."""
    found = _object(at, "groups", "mutatingadmissionpolicybinding", "fluence-groups")
    if isinstance(found, Finding):
        yield found
    else:
        yield Finding("groups", OK, "labels of flux-k8s on Deployments and the like make gangs")


def webhook(at: CheckUp) -> Iterator[Finding]:
    """Whether the admission webhook is registered and answers: without an answer pods with devices are refused."""
    found = _object(at, "webhook", "mutatingwebhookconfiguration", WEBHOOK_NAME)
    if isinstance(found, Finding):
        yield found
        return
    clients = [one.get("clientConfig", {}) for one in found.get("webhooks") or ()]
    url = next((str(one["url"]) for one in clients if one.get("url")), "")
    if not url:
        ready = _ready(at, "webhook", WEBHOOK_NAME)
        if ready.status != OK:
            yield replace(
                ready, text=f"{WEBHOOK_NAME}: {ready.text}" if "replicas" in ready.text else ready.text
            )
    fix = (
        f"see that its process answers at {url}"
        if url
        else f"see kubectl logs -n {at.namespace} deployment/{WEBHOOK_NAME}"
    )
    if not clients or not all(one.get("caBundle") for one in clients):
        yield Finding("webhook", FAULT, "its registration has no caBundle yet, so it can't be called", fix)
        return
    yield _tried(at, fix)


def _tried(at: CheckUp, fix: str) -> Finding:
    """Whether the webhook answers when a pod that asks for a device is created, as a dry run."""
    namespace = ("-n", at.question.namespace) if at.question.namespace else ()
    words = ("create", "--dry-run=server", "-o", "name", "-f", "-", *namespace)
    try:
        at.kubectl(*words, body=json.dumps(_TRIAL).encode(), patience=_TRIAL_PATIENCE)
    except KubectlFailed as error:
        told = str(error)
        if "failed calling webhook" in told and f".{DOMAIN}" in told:
            text = f"pods that ask for devices are refused: {told[told.index('failed calling') :]}"
            return Finding("webhook", FAULT, text, fix)
        if "denied the request" not in told or f".{DOMAIN}" not in told:
            who = "you may not create pods, by which it would be tried" if "cannot create" in told else told
            return Finding("webhook", UNKNOWN, f"registered, but not tried: {who}")
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
"""A pod that any admission lets through, of which nothing is kept."""


def controller_rights(at: CheckUp) -> Iterator[Finding]:
    """Whether the service's own account may do what it has to."""
    there = _object(at, "rights", "serviceaccount", SERVICE, "-n", at.namespace)
    if isinstance(there, Finding) and there.status == FAULT:
        yield replace(there, status=UNKNOWN, text=f"{there.text}: the service runs as somebody else", fix="")
        return
    account = f"system:serviceaccount:{at.namespace}:{SERVICE}"
    needed = {"nodes": "watch", "pods/binding": "create", "pods/eviction": "create", "pods/status": "patch"}
    refused: list[str] = []
    for resource, verb in needed.items():
        try:
            kind, _, part = resource.partition("/")
            wanted = [kind, f"--subresource={part}"] if part else [kind]
            at.kubectl("auth", "can-i", verb, *wanted, f"--as={account}", "-A")
        except KubectlFailed as error:
            told = str(error)
            if "impersonate" in told or "orbidden" in told:
                yield Finding("rights", UNKNOWN, "you may not ask what the service may do")
                return
            if not told.startswith((_SAYS_NO, "Warning")):
                yield Finding("rights", UNKNOWN, told)
                return
            refused.append(f"{verb} {resource}")
    if refused:
        fix = "kubectl apply -k deploy, which grants it"
        yield Finding("rights", FAULT, f"the service may not {', '.join(refused)}", fix)
    else:
        yield Finding("rights", OK, "the service may do what it has to")


def drift(at: CheckUp) -> Iterator[Finding]:
    """Whether the ledger ever had to be repaired."""
    if not at.answers:
        return
    try:
        text = at.service.text("/metrics").decode(errors="replace")
    except (NotThere, CommandError):
        yield Finding("drift", UNKNOWN, "the service shows no metrics")
        return
    for name, labels, value in _SAMPLE.findall(text):
        at.samples.append((name, labels, float(value)))
    if not any(name == "fluence_drift_total" for name, _, _ in at.samples):
        yield Finding("drift", UNKNOWN, "the service doesn't count it")
        return
    repaired = at.total("fluence_drift_total")
    if repaired:
        fix = f"look for drift in kubectl logs -n {at.namespace} deployment/{SERVICE} -c extender, and report it"
        yield Finding("drift", WARNING, f"{repaired:g} differences from the cluster were repaired", fix)
    else:
        yield Finding("drift", OK, "the ledger agrees with the cluster")


def resources(at: CheckUp) -> Iterator[Finding]:
    """Whether an edit of resources.yaml was refused, or a device can't be used."""
    if not at.answers:
        return
    refused = at.total("fluence_extender_resources_rejected_total")
    if refused:
        fix = f"see kubectl describe configmap -n {at.namespace} fluence-resources"
        yield Finding("resources", WARNING, f"{refused:g} edits of resources.yaml were refused", fix)
    found = _items(at, "/v1/backends")
    if found is None:
        return
    broken = [device for device in found if not device["usable"]]
    for device in broken[:5]:
        text = f"{device['backend']} can't be used: {'; '.join(device['problems'])}"
        yield Finding("resources", WARNING, text, "kubectl fluence backends shows all")
    if not broken and not refused:
        yield Finding("resources", OK, f"{len({device['backend'] for device in found})} backends, all usable")


def nodes(at: CheckUp) -> Iterator[Finding]:
    """Whether nodes are open, and none uses more than it has."""
    found = _items(at, "/v1/nodes")
    if found is None:
        return
    short = [node["name"] for node in found if any(one.startswith("deficit") for one in node["problems"])]
    closed = sum(1 for node in found if not node["schedulable"])
    text = f"{len(found) - closed} of {len(found)} are open to pods"
    if short:
        fix = f"kubectl fluence top nodes, and kubectl describe node {short[0]}"
        yield Finding(
            "nodes", WARNING, f"{text}; more is in use than there is on {', '.join(short[:5])}", fix
        )
    elif closed == len(found):
        yield Finding("nodes", FAULT, text, "kubectl fluence top nodes says why")
    else:
        yield Finding("nodes", OK, text)


def gangs(at: CheckUp) -> Iterator[Finding]:
    """Whether a gang waits because of a fault, rather than for room."""
    found = _items(at, "/v1/gangs")
    if found is None:
        return
    for gang in [gang for gang in found if gang["why"] in FAULTS][:5]:
        fix = f"kubectl fluence why gang/{gang['name']} -n {gang['namespace']}"
        yield Finding("gangs", FAULT, f"{gang['namespace']}/{gang['name']}: {gang['reason']}", fix)
    waiting = sum(1 for gang in found if gang["state"] == "waiting")
    yield Finding("gangs", OK, f"{len(found)} known, {waiting} waiting")


def _items(at: CheckUp, path: str) -> list[dict[str, Any]] | None:
    try:
        return at.service.items(path) if at.answers else None
    except CommandError:
        return None


def _object(at: CheckUp, check: str, kind: str, name: str, *words: str) -> dict[str, Any] | Finding:
    """The object, or what is wrong with it."""
    try:
        found: dict[str, Any] = json.loads(at.kubectl("get", kind, name, *words, "-o", "json"))
    except KubectlFailed as error:
        told = str(error)
        if "(NotFound)" in told:
            status, fix = _MISSING.get(f"{kind} {name}", (FAULT, "kubectl apply -k deploy"))
            return Finding(check, status, f"there is no {kind} {name}", fix)
        return Finding(
            check, UNKNOWN, f"you may not look at {kind} {name}" if "(Forbidden)" in told else told
        )
    except ValueError:
        return Finding(check, UNKNOWN, f"kubectl gave no JSON for {kind} {name}")
    return found


_MISSING = {
    f"mutatingwebhookconfiguration {WEBHOOK_NAME}": (
        WARNING,
        "pods are placed all the same, but those with devices aren't told their backend; kubectl apply -k deploy "
        "adds it",
    ),
    "mutatingadmissionpolicybinding fluence-gate": (
        WARNING,
        "pods are placed all the same, only slower, but those that ask for devices wait, unless the webhook marks them "
        "or the service binds every pod (scheduler-config --barrier); kubectl apply -k deploy adds it",
    ),
    "mutatingadmissionpolicybinding fluence-groups": (
        WARNING,
        "pods of Deployments, ReplicaSets and StatefulSets need the labels of flux-k8s on the template; kubectl apply "
        "-k deploy adds it",
    ),
}


Check = Callable[[CheckUp], Iterator[Finding]]

CHECKS: tuple[Check, ...] = (
    cluster,
    service,
    versions,
    replicas,
    scheduler,
    gate,
    groups,
    webhook,
    controller_rights,
    nodes,
    drift,
    resources,
    gangs,
)
