"""The checks: each is a function of the snapshot that yields what it finds, and what to do about it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace

from fluence_extender import __version__
from fluence_extender.apps.kubectl.doctor.snapshot import (
    DASHBOARD,
    FAULT,
    INSTALL,
    MUTATING,
    OK,
    REGISTRATION,
    RIGHTS,
    UNKNOWN,
    VALIDATING,
    WARNING,
    Finding,
    Missing,
    Snapshot,
    Unseen,
)
from fluence_extender.apps.kubectl.errors import CommandError, KubectlFailed, NotFound
from fluence_extender.apps.kubectl.figures import moment, span
from fluence_extender.apps.kubectl.state_api import SERVICE
from fluence_extender.model.names import DOMAIN, WEBHOOK_NAME
from fluence_extender.model.requirement import NEEDS, is_too_old

LEASE_PATIENCE = 60.0
"""Seconds after which a leader that doesn't renew its Lease is taken to be gone."""

FAULTS = ("PlanningFailed", "CannotSteer", "CannotBind")
"""Reasons of gangs that wait because something is wrong, rather than for capacity."""

POLICIES = {
    MUTATING: ("gate", "deviceclasses", "suspend", "suspend-operators", "groups", "intake", "submitters"),
    VALIDATING: (
        *("stamps", "stamps-jobs", "stamps-operators", "stamps-submitters"),
        *("accounts-jobs", "accounts-operators", "accounts-nodes", "accounts-sidecars"),
        *("accounts-podgroups", "accounts-registration"),
        *("quantum-classical", "stateful-gangs", "sidecars"),
    ),
}
"""The admission policies of ``deploy/`` by kind, without the prefix ``fluence-``. Each has a binding of its name."""

PROTECTING = ("stamps", "stamps-jobs", "stamps-submitters")
"""The policies without which users can take what isn't theirs."""

_PLAIN_NO = "kubectl ended with"
"""The message of `KubectlFailed` for a plain no of ``kubectl auth can-i``: an exit code, and nothing on stderr."""

_MOST_LISTED = 5


def findings(seen: Snapshot) -> Iterator[tuple[str, Finding]]:
    """Yield what all checks find, each with the name of its check.

    Checks of the cluster are left out where the service is at an address and no cluster can be asked, and checks of
    what the service says where it doesn't answer.
    """
    for check in CHECKS:
        if check in OF_THE_CLUSTER and seen.client.server and not seen.cluster_answers:
            continue
        if check in OF_THE_SERVICE and not seen.service_answers:
            continue
        try:
            for finding in check(seen):
                yield check.__name__, finding
        except Unseen as error:
            yield check.__name__, error.finding


def cluster(seen: Snapshot) -> Iterator[Finding]:
    """Check that the API server answers the user, and that it isn't too old."""
    try:
        version = json.loads(seen.read("version"))["gitVersion"]
    except (KubectlFailed, ValueError, KeyError) as error:
        if seen.client.server:
            text = f"can't be asked, so only the service at {seen.client.server} is looked at: {error}"
            yield Finding(UNKNOWN, text)
        else:
            yield Finding(FAULT, f"can't be asked: {error}", "check it with kubectl cluster-info")
        return
    if is_too_old(version):
        yield Finding(FAULT, f"Kubernetes {version}: {NEEDS}", "update the cluster")
    else:
        yield Finding(OK, f"Kubernetes {version}")


def service(seen: Snapshot) -> Iterator[Finding]:
    """Check that the service answers a request with the user's rights."""
    backends = seen.service["/v1/backends"]
    if seen.service_answers:
        leading = backends.get("metadata", {}).get("leading", True)
        yield Finding(OK, "answers" + ("" if leading else ", by a standby replica"))
    elif isinstance(backends, CommandError) and not isinstance(backends, NotFound):
        text, _, fix = str(backends).partition("; ")
        yield Finding(FAULT, text, fix)
    else:
        text = "it has no /v1/backends as kubectl-fluence reads it: it is too old"
        yield Finding(FAULT, text, "update its Deployment")


def versions(seen: Snapshot) -> Iterator[Finding]:
    """Check that the plugin and the service have the same version."""
    try:
        theirs = str(seen.service["/openapi.json"]["info"]["version"])
    except (KeyError, TypeError):
        yield Finding(UNKNOWN, "the service doesn't tell its version")
        return
    if theirs == __version__:
        yield Finding(OK, f"kubectl-fluence and the service are both {theirs}")
    else:
        fix = "use the same version of both: pip install . in its clone, or update the Deployment"
        yield Finding(WARNING, f"kubectl-fluence {__version__}, the service {theirs}", fix)


def replicas(seen: Snapshot) -> Iterator[Finding]:
    """Check that the service's Deployment has its pods."""
    yield _ready(seen, SERVICE)


def _ready(seen: Snapshot, name: str) -> Finding:
    """Return whether a Deployment has its pods. Raise `Unseen`."""
    deployment = seen.object(f"deployment {name}")
    wanted = deployment.get("spec", {}).get("replicas", 1)
    ready = deployment.get("status", {}).get("readyReplicas", 0)
    text = f"{ready} of {wanted} replicas are ready"
    if ready >= wanted:
        return Finding(OK, text)
    fix = f"see kubectl describe pods -n {seen.service_namespace} -l app.kubernetes.io/name={name}"
    return Finding(WARNING if ready else FAULT, text, fix)


def scheduler(seen: Snapshot) -> Iterator[Finding]:
    """Check that a kube-scheduler of ours holds its Lease and renews it."""
    spec = seen.object(f"lease {SERVICE}").get("spec", {})
    holder, renewed = spec.get("holderIdentity") or "", spec.get("renewTime") or ""
    fix = f"see kubectl logs -n {seen.service_namespace} deployment/{SERVICE} -c kube-scheduler"
    if not holder or not renewed:
        yield Finding(FAULT, "no kube-scheduler leads", fix)
    elif (ago := (seen.time - moment(renewed)).total_seconds()) > LEASE_PATIENCE:
        yield Finding(FAULT, f"the leader {holder} last renewed its Lease {span(ago)} ago", fix)
    else:
        yield Finding(OK, f"{holder.partition('_')[0]} leads")


def policies(seen: Snapshot) -> Iterator[Finding]:
    """Check that each policy of ``deploy/`` is there with its binding."""
    complete = True
    for kind, names in POLICIES.items():
        try:
            lines = seen.read(kind).decode().split()
        except KubectlFailed as error:
            complete = False
            text = f"you may not list {kind} objects" if "(Forbidden)" in str(error) else str(error)
            yield Finding(UNKNOWN, text)
            continue
        there = {line.replace(".admissionregistration.k8s.io/", " ") for line in lines}
        for name in names:
            parts = [f"{part} fluence-{name}" for part in (kind, f"{kind}binding")]
            if absent := [part for part in parts if part not in there]:
                complete = False
                status = FAULT if name in PROTECTING else WARNING
                fix = f"{INSTALL} adds it; docs/security.md says what it is for"
                yield Finding(status, f"there is no {absent[0]}", fix)
    if complete:
        yield Finding(OK, f"all {sum(map(len, POLICIES.values()))} are installed")


def queues(seen: Snapshot) -> Iterator[Finding]:
    """Check that both kinds are served, and that all objects are in force as they are written."""
    try:
        items = json.loads(seen.read("queues"))["items"]
    except KubectlFailed as error:
        message = str(error)
        if "have a resource type" in message:
            text = "there are no Queues and Reservations, so all work is in one queue"
            yield Finding(WARNING, text, f"{INSTALL} adds both kinds")
        else:
            yield Finding(UNKNOWN, "you may not list Queues" if "orbidden" in message else message)
        return
    except (ValueError, KeyError):
        yield Finding(UNKNOWN, "kubectl gave no list")
        return
    accepted = True
    for item in items:
        conditions = item.get("status", {}).get("conditions") or ()
        why = next((each.get("message", "") for each in conditions if each.get("status") == "False"), "")
        if why:
            accepted = False
            text = f"{item.get('kind')} {item.get('metadata', {}).get('name')}: {why}"
            yield Finding(WARNING, text, "docs/queues.md says what each field means")
    if accepted:
        yield Finding(
            OK, f"{len(items)} Queues and Reservations are in force" if items else "all work is in one queue"
        )


def webhook(seen: Snapshot) -> Iterator[Finding]:
    """Check that the admission webhook is registered and answers: without its answer pods with devices are refused."""
    try:
        registered = seen.object(REGISTRATION).get("webhooks") or ()
    except Missing as error:
        fix = f"pods are placed all the same, but those with devices don't know their backend; {INSTALL} adds it"
        yield replace(error.finding, status=WARNING, fix=fix)
        return
    clients = [each.get("clientConfig", {}) for each in registered]
    url = next((str(client["url"]) for client in clients if client.get("url")), "")
    fix = f"see kubectl logs -n {seen.service_namespace} deployment/{WEBHOOK_NAME}"
    if url:
        fix = f"see that its process answers at {url}"
    else:
        try:
            ready = _ready(seen, WEBHOOK_NAME)
            ready = replace(ready, text=f"{WEBHOOK_NAME}: {ready.text}")
        except Unseen as error:
            ready = error.finding
        if ready.status != OK:
            yield ready
    if not clients or not all(client.get("caBundle") for client in clients):
        yield Finding(FAULT, "its registration has no caBundle yet, so it can't be called", fix)
    else:
        yield _tried(seen, fix)


def _tried(seen: Snapshot, fix: str) -> Finding:
    """Return whether the webhook answered when a pod that asks for a device was created as a dry run."""
    try:
        seen.read("trial")
    except KubectlFailed as error:
        message = str(error)
        ours = f".{DOMAIN}" in message
        if "failed calling webhook" in message and ours:
            text = f"pods that ask for devices are refused: {message[message.index('failed calling') :]}"
            return Finding(FAULT, text, fix)
        # A refusal by the webhook itself is an answer.
        if not ("denied the request" in message and ours):
            why = "you may not create pods, which the trial needs" if "cannot create" in message else message
            return Finding(UNKNOWN, f"registered, but not tried: {why}")
    return Finding(OK, "answers")


def dashboard(seen: Snapshot) -> Iterator[Finding]:
    """Check that the dashboard of ``deploy/dashboard`` has its pods, where it is installed."""
    try:
        yield _ready(seen, DASHBOARD)
    except Missing:
        return


def rights(seen: Snapshot) -> Iterator[Finding]:
    """Check that the service's own account has the rights that it needs."""
    try:
        seen.object(f"serviceaccount {SERVICE}")
    except Missing as error:
        yield Finding(UNKNOWN, f"{error}: the service runs under another account")
        return
    except Unseen:
        pass  # Who may not look at an account may yet be allowed to ask for its rights.
    refused: list[str] = []
    for right in RIGHTS:
        try:
            seen.read(right)
        except KubectlFailed as error:
            message = str(error)
            if "impersonate" in message or "orbidden" in message:
                yield Finding(UNKNOWN, "you may not ask what the service may do")
                return
            if not message.startswith((_PLAIN_NO, "Warning")):
                yield Finding(UNKNOWN, message)
                return
            refused.append(right)
    if refused:
        yield Finding(FAULT, f"the service may not {', '.join(refused)}", f"{INSTALL}, which grants it")
    else:
        yield Finding(OK, "the service may do what it has to")


def nodes(seen: Snapshot) -> Iterator[Finding]:
    """Check that there are open nodes, and that no node has more in use than it has."""
    items = seen.items("/v1/nodes")
    if items is None:
        yield Finding(UNKNOWN, "the service doesn't show you nodes: you may not list them")
        return
    short = [node["name"] for node in items if any(text.startswith("deficit") for text in node["problems"])]
    opened = sum(1 for node in items if node["schedulable"])
    text = f"{opened} of {len(items)} are open to pods"
    if short:
        fix = f"kubectl fluence top nodes, and kubectl describe node {short[0]}"
        names = ", ".join(short[:_MOST_LISTED])
        yield Finding(WARNING, f"{text}; more is in use than there is on {names}", fix)
    elif not opened:
        yield Finding(FAULT, text, "kubectl fluence top nodes says why")
    else:
        yield Finding(OK, text)


def drift(seen: Snapshot) -> Iterator[Finding]:
    """Check that the ledger has never had to be repaired."""
    if seen.metrics is None:
        yield Finding(UNKNOWN, "the service doesn't show you metrics: you may not get /metrics")
        return
    repaired = seen.metrics.get("fluence_drift_total")
    if repaired is None:
        yield Finding(UNKNOWN, "the service doesn't count it")
    elif repaired:
        logs = f"kubectl logs -n {seen.service_namespace} deployment/{SERVICE} -c extender"
        fix = f"look for drift in {logs}, and report it"
        yield Finding(WARNING, f"{repaired:g} differences from the cluster were repaired", fix)
    else:
        yield Finding(OK, "the ledger agrees with the cluster")


def resources(seen: Snapshot) -> Iterator[Finding]:
    """Check that no edit of resources.yaml was refused, that selectors are evaluated, and that devices can be used."""
    metrics = seen.metrics or {}
    refused = metrics.get("fluence_extender_resources_rejected_total", 0)
    if refused:
        fix = f"see kubectl describe configmap -n {seen.service_namespace} fluence-resources"
        yield Finding(WARNING, f"{refused:g} edits of resources.yaml were refused", fix)
    stuck = metrics.get("fluence_selector_process_failures_total", 0)
    if stuck:
        text = f"the process that evaluates the selectors of claims couldn't be started {stuck:g} times"
        yield Finding(WARNING, text, "see the log of the service, and the memory that its pod may use")
    devices = seen.service["/v1/backends"]["items"]
    broken = [device for device in devices if not device["usable"]]
    for device in broken[:_MOST_LISTED]:
        text = f"{device['backend']} can't be used: {'; '.join(device['problems'])}"
        yield Finding(WARNING, text, "kubectl fluence backends shows all")
    if not (broken or refused or stuck):
        yield Finding(OK, f"{len({device['backend'] for device in devices})} backends, all usable")


def gangs(seen: Snapshot) -> Iterator[Finding]:
    """Check that no gang waits because of a fault, rather than for capacity."""
    items = seen.items("/v1/gangs")
    if items is None:
        return
    for gang in [gang for gang in items if gang["why"] in FAULTS][:_MOST_LISTED]:
        fix = f"kubectl fluence why gang/{gang['name']} -n {gang['namespace']}"
        yield Finding(FAULT, f"{gang['namespace']}/{gang['name']}: {gang['reason']}", fix)
    waiting = sum(1 for gang in items if gang["state"] == "waiting")
    yield Finding(OK, f"{len(items)} known, {waiting} waiting")


Check = Callable[[Snapshot], Iterator[Finding]]

OF_THE_CLUSTER: tuple[Check, ...] = (replicas, scheduler, policies, queues, webhook, dashboard, rights)
OF_THE_SERVICE: tuple[Check, ...] = (versions, nodes, drift, resources, gangs)
CHECKS: tuple[Check, ...] = (
    *(cluster, service, versions),
    *OF_THE_CLUSTER,
    *(nodes, drift, resources, gangs),
)
"""All checks, in the order in which they are shown."""
