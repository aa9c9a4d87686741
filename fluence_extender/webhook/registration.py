"""Keep the webhook's registration: which pods the API server sends it, where, and what an outage means.

The registration has two entries, because an outage must not have the same effect for all pods. Without the webhook a
pod that requests a virtual resource would start without its backend, and a shared quantum job without its order. Such
pods are refused until the webhook answers again (``Fail``; Jobs and other controllers try again by themselves). Every
other pod of ours is admitted unchanged (``Ignore``): an admission policy adds its gate, and its label names its gang.
Pods of other schedulers are never sent, because the API server itself evaluates ``matchConditions``.

If no admission policy suspends new workloads, a third entry sends these, too. While the webhook doesn't answer they are
created unchanged, and their pods wait at the gate.

Invariant: the registration states all fields, even defaults, so that the stored object can be compared with the wanted
one.
"""

from __future__ import annotations

import base64
import copy
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from fluence_extender.cluster.port import Objects
from fluence_extender.identity.identity import Identity, IdentitySource
from fluence_extender.identity.registration import OWNER, OWNER_LABEL, IdentityReconciler, RegisteredObject
from fluence_extender.model.names import (
    NEVER_SUSPEND,
    RESOURCE_PREFIX,
    SCHEDULER_NAME,
    SUSPEND_LABEL,
    SUSPENDED_FOR_ANNOTATION,
    WEBHOOK_NAME,
    WORKLOADS_WEBHOOK,
)
from fluence_extender.webhook.contract import Json
from fluence_extender.webhook.suspension import SUSPENDED

PATH = f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{WEBHOOK_NAME}"
MUTATE = "/mutate"

DEVICES = "devices.fluence.flux-framework.org"
PODS = "pods.fluence.flux-framework.org"

DEVICES_TIMEOUT = 10
"""Seconds until the pod is refused, so this is rather long."""

PODS_TIMEOUT = 3
"""Seconds until the pod is admitted without an answer."""

OURS = f"has(object.spec.schedulerName) && object.spec.schedulerName == '{SCHEDULER_NAME}'"

_ASKS = " || ".join(
    f"(has(c.resources.{part}) && c.resources.{part}.exists(name, name.startsWith('{RESOURCE_PREFIX}')))"
    for part in ("requests", "limits")
)
_CONTAINER_ASKS = f"has(c.resources) && ({_ASKS})"
ASKS_FOR_DEVICES = (
    f"object.spec.containers.exists(c, {_CONTAINER_ASKS}) || "
    f"(has(object.spec.initContainers) && object.spec.initContainers.exists(c, {_CONTAINER_ASKS}))"
)


OUR_JOBS = (
    "request.kind.kind != 'Job' || has(object.spec.template.spec.schedulerName) && "
    f"object.spec.template.spec.schedulerName == '{SCHEDULER_NAME}'"
)
NEW_OR_HELD = (
    "oldObject == null || has(object.metadata.annotations) && "
    f"'{SUSPENDED_FOR_ANNOTATION}' in object.metadata.annotations"
)
NOT_OPTED_OUT = {"matchExpressions": [{"key": SUSPEND_LABEL, "operator": "NotIn", "values": [NEVER_SUSPEND]}]}
"""The namespaces whose workloads are sent, unless an administrator chooses others."""


@dataclass(frozen=True, slots=True)
class ServiceTarget:
    """The API server calls the webhook through a Service, at port 443."""

    namespace: str
    name: str

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names by which the webhook is called."""
        inside = f"{self.name}.{self.namespace}"
        return f"{inside}.svc", f"{inside}.svc.cluster.local", inside


@dataclass(frozen=True, slots=True)
class UrlTarget:
    """The API server calls the webhook by a URL, because it runs outside the cluster."""

    url: str

    @property
    def hosts(self) -> tuple[str, ...]:
        """The name or address by which the webhook is called."""
        return (urlsplit(self.url).hostname or "",)


Target = ServiceTarget | UrlTarget


def registration(target: Target, bundle: bytes = b"", workloads: bool = False) -> Json:
    """Return the MutatingWebhookConfiguration; ``bundle`` holds the authorities to trust, in PEM.

    With ``workloads`` it also has the entry for what is created suspended.
    """
    entries = [
        _of_pods(DEVICES, "Fail", DEVICES_TIMEOUT, "asks-for-devices", ASKS_FOR_DEVICES),
        _of_pods(PODS, "Ignore", PODS_TIMEOUT, "asks-for-none", f"!({ASKS_FOR_DEVICES})"),
        *([_of_workloads()] if workloads else []),
    ]
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": WEBHOOK_NAME, "labels": {OWNER_LABEL: OWNER}},
        "webhooks": [{**one, "clientConfig": _client(target, bundle)} for one in entries],
    }


def _of_pods(name: str, policy: str, seconds: int, condition: str, expression: str) -> Json:
    return {
        "name": name,
        "admissionReviewVersions": ["v1"],
        "failurePolicy": policy,
        "matchConditions": [
            {"name": "for-our-scheduler", "expression": OURS},
            {"name": condition, "expression": expression},
        ],
        "matchPolicy": "Equivalent",
        "namespaceSelector": {},
        "objectSelector": {},
        # Other webhooks may set schedulerName or add containers after us. What we add isn't added twice.
        "reinvocationPolicy": "IfNeeded",
        "rules": [_rule("", "v1", "pods", "CREATE")],
        # Admission records which request creates a producer, except in a dry run.
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": seconds,
    }


def _of_workloads() -> Json:
    """Return the entry for workloads. Without the webhook each is created unchanged, and its pods wait at the gate."""
    rules = [
        _rule(group, version, f"{kind.lower()}s", "CREATE", "UPDATE")
        for kind, (group, version) in SUSPENDED.items()
    ]
    return {
        "name": WORKLOADS_WEBHOOK,
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Ignore",
        "matchConditions": [
            {"name": "for-our-scheduler", "expression": OUR_JOBS},
            {"name": "new-or-held", "expression": NEW_OR_HELD},
        ],
        "matchPolicy": "Equivalent",
        "namespaceSelector": NOT_OPTED_OUT,
        "objectSelector": {},
        # In a second call our own suspension would look like its user's.
        "reinvocationPolicy": "Never",
        "rules": rules,
        "sideEffects": "None",
        "timeoutSeconds": PODS_TIMEOUT,
    }


def _rule(group: str, version: str, resource: str, *operations: str) -> Json:
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "operations": list(operations),
        "resources": [resource],
        "scope": "Namespaced",
    }


def _client(target: Target, bundle: bytes) -> Json:
    trusted = {"caBundle": base64.b64encode(bundle).decode()} if bundle else {}
    if isinstance(target, UrlTarget):
        return {**trusted, "url": target.url}
    service = {"namespace": target.namespace, "name": target.name, "path": MUTATE, "port": 443}
    return {**trusted, "service": service}


def corrected(stored: Json, wanted: Json) -> Json | None:
    """Return ``stored`` with the entries it should have, None if it has them already.

    Labels and annotations stay as they are. So do selectors, with which administrators and cloud providers exempt
    namespaces or objects.
    """
    webhooks = copy.deepcopy(wanted["webhooks"])
    narrowed = {one.get("name"): one for one in stored.get("webhooks") or ()}
    for one in webhooks:
        if one["name"] in narrowed:
            for selector in ("namespaceSelector", "objectSelector"):
                one[selector] = narrowed[one["name"]].get(selector) or {}
    if stored.get("webhooks") == webhooks:
        return None
    return {**stored, "webhooks": webhooks}


def registered_bundle(stored: Json | None) -> bytes:
    """Return the bundle that the API server trusts by the stored object, b"" unless all its entries agree."""
    bundles = {
        (one.get("clientConfig") or {}).get("caBundle") or "" for one in (stored or {}).get("webhooks") or ()
    }
    if len(bundles) != 1:
        return b""
    try:
        return base64.b64decode(bundles.pop())
    except ValueError:
        return b""


class RegistrationReconciler(IdentityReconciler):
    """Keeps the webhook's certificate and registration as they should be; see `IdentityReconciler`."""

    def __init__(
        self,
        objects: Objects,
        source: IdentitySource,
        target: Target,
        install: Callable[[Identity], None],
        may_register: Callable[[], bool],
        suspends: Callable[[], bool],
    ) -> None:
        """``suspends`` returns whether the webhook suspends workloads, because no admission policy does."""
        registered = RegisteredObject(
            server="the webhook",
            kind="MutatingWebhookConfiguration",
            name=WEBHOOK_NAME,
            path=PATH,
            folder="deploy/webhook",
            wanted=lambda bundle: registration(target, bundle, suspends()),
            corrected=corrected,
            bundle=registered_bundle,
        )
        super().__init__(objects, source, registered, install, may_register)
