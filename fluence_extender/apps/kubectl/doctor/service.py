"""Checks of what the service itself reports."""

from __future__ import annotations

from collections.abc import Iterator

from fluence_extender import __version__
from fluence_extender.apps.kubectl.doctor.examination import (
    FAULT,
    OK,
    UNKNOWN,
    WARNING,
    Examination,
    Finding,
)
from fluence_extender.apps.kubectl.errors import CommandError, NotFound
from fluence_extender.apps.kubectl.state_api import SERVICE

FAULTS = ("PlanningFailed", "CannotSteer", "CannotBind")
"""Reasons of gangs that wait because something is wrong, rather than for capacity."""

_MOST_LISTED = 5


def answers(examination: Examination) -> Iterator[Finding]:
    """Check that the service answers a request with the user's rights."""
    try:
        found = examination.client.document("/v1/backends")
        if not isinstance(found, dict) or "items" not in found:
            raise NotFound
    except NotFound:
        text = "it has no /v1/backends as kubectl-fluence reads it: it is too old"
        yield Finding("service", FAULT, text, "update its Deployment")
        return
    except CommandError as error:
        text, _, fix = str(error).partition("; ")
        yield Finding("service", FAULT, text, fix)
        return
    examination.answers = True
    leading = found.get("metadata", {}).get("leading", True)
    yield Finding("service", OK, "answers" + ("" if leading else ", by a standby replica"))


def versions(examination: Examination) -> Iterator[Finding]:
    """Check that the plugin and the service have the same version."""
    if not examination.answers:
        return
    try:
        theirs = str(examination.client.document("/openapi.json")["info"]["version"])
    except (CommandError, KeyError, TypeError):
        yield Finding("versions", UNKNOWN, "the service doesn't tell its version")
        return
    if theirs == __version__:
        yield Finding("versions", OK, f"kubectl-fluence and the service are both {theirs}")
    else:
        fix = "use the same version of both: pip install . in its clone, or update the Deployment"
        yield Finding("versions", WARNING, f"kubectl-fluence {__version__}, the service {theirs}", fix)


def nodes(examination: Examination) -> Iterator[Finding]:
    """Check that there are open nodes, and that no node has more in use than it has."""
    found = examination.items("/v1/nodes")
    if found is None:
        if examination.answers:
            yield Finding("nodes", UNKNOWN, "the service doesn't show you nodes: you may not list them")
        return
    short = [node["name"] for node in found if any(one.startswith("deficit") for one in node["problems"])]
    closed = sum(1 for node in found if not node["schedulable"])
    text = f"{len(found) - closed} of {len(found)} are open to pods"
    if short:
        fix = f"kubectl fluence top nodes, and kubectl describe node {short[0]}"
        names = ", ".join(short[:_MOST_LISTED])
        yield Finding("nodes", WARNING, f"{text}; more is in use than there is on {names}", fix)
    elif closed == len(found):
        yield Finding("nodes", FAULT, text, "kubectl fluence top nodes says why")
    else:
        yield Finding("nodes", OK, text)


def drift(examination: Examination) -> Iterator[Finding]:
    """Check that the ledger has never had to be repaired."""
    if not examination.answers:
        return
    if examination.metrics is None:
        yield Finding("drift", UNKNOWN, "the service doesn't show you metrics: you may not get /metrics")
        return
    repaired = examination.metrics.get("fluence_drift_total")
    if repaired is None:
        yield Finding("drift", UNKNOWN, "the service doesn't count it")
    elif repaired:
        logs = f"kubectl logs -n {examination.service_namespace} deployment/{SERVICE} -c extender"
        fix = f"look for drift in {logs}, and report it"
        yield Finding("drift", WARNING, f"{repaired:g} differences from the cluster were repaired", fix)
    else:
        yield Finding("drift", OK, "the ledger agrees with the cluster")


def resources(examination: Examination) -> Iterator[Finding]:
    """Check that no edit of resources.yaml was refused, that selectors are evaluated, and that devices can be used."""
    if not examination.answers:
        return
    refused = (examination.metrics or {}).get("fluence_extender_resources_rejected_total", 0)
    if refused:
        fix = f"see kubectl describe configmap -n {examination.service_namespace} fluence-resources"
        yield Finding("resources", WARNING, f"{refused:g} edits of resources.yaml were refused", fix)
    stuck = (examination.metrics or {}).get("fluence_selector_process_failures_total", 0)
    if stuck:
        text = f"the process that evaluates the selectors of claims couldn't be started {stuck:g} times"
        yield Finding(
            "resources", WARNING, text, "see the log of the service, and the memory that its pod may use"
        )
    found = examination.items("/v1/backends")
    if found is None:
        return
    broken = [device for device in found if not device["usable"]]
    for device in broken[:_MOST_LISTED]:
        text = f"{device['backend']} can't be used: {'; '.join(device['problems'])}"
        yield Finding("resources", WARNING, text, "kubectl fluence backends shows all")
    if not (broken or refused or stuck):
        yield Finding("resources", OK, f"{len({device['backend'] for device in found})} backends, all usable")


def gangs(examination: Examination) -> Iterator[Finding]:
    """Check that no gang waits because of a fault, rather than for capacity."""
    found = examination.items("/v1/gangs")
    if found is None:
        return
    for gang in [gang for gang in found if gang["why"] in FAULTS][:_MOST_LISTED]:
        fix = f"kubectl fluence why gang/{gang['name']} -n {gang['namespace']}"
        yield Finding("gangs", FAULT, f"{gang['namespace']}/{gang['name']}: {gang['reason']}", fix)
    waiting = sum(1 for gang in found if gang["state"] == "waiting")
    yield Finding("gangs", OK, f"{len(found)} known, {waiting} waiting")
