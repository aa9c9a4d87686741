"""Keep the webhook's registration: which pods the API server sends it, where, and what an outage means.

The registration has two entries, because an outage must not have the same effect for all pods. Without the webhook a
pod that requests a virtual resource would start without its backend, and a shared quantum job without its order. Such
pods are refused until the webhook answers again (``Fail``; Jobs and other controllers try again by themselves). Every
other pod of ours is admitted unchanged (``Ignore``): an admission policy adds its gate, and its label names its gang.
Pods of other schedulers are never sent, because the API server itself evaluates ``matchConditions``.

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
from fluence_extender.identity.registration import (
    OWNER,
    OWNER_LABEL,
    Identity,
    IdentityReconciler,
    IdentitySource,
    RegisteredObject,
)
from fluence_extender.model.names import RESOURCE_PREFIX, SCHEDULER_NAMES, WEBHOOK_NAME
from fluence_extender.webhook.contract import Json

PATH = f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{WEBHOOK_NAME}"
MUTATE = "/mutate"

DEVICES = "devices.fluence.flux-framework.org"
PODS = "pods.fluence.flux-framework.org"

DEVICES_TIMEOUT = 10
"""Seconds until the pod is refused, so this is rather long."""

PODS_TIMEOUT = 3
"""Seconds until the pod is admitted without an answer."""

OURS = f"has(object.spec.schedulerName) && object.spec.schedulerName in {list(SCHEDULER_NAMES)}"

_ASKS = " || ".join(
    f"(has(c.resources.{part}) && c.resources.{part}.exists(name, name.startsWith('{RESOURCE_PREFIX}')))"
    for part in ("requests", "limits")
)
_CONTAINER_ASKS = f"has(c.resources) && ({_ASKS})"
ASKS_FOR_DEVICES = (
    f"object.spec.containers.exists(c, {_CONTAINER_ASKS}) || "
    f"(has(object.spec.initContainers) && object.spec.initContainers.exists(c, {_CONTAINER_ASKS}))"
)


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


def registration(target: Target, bundle: bytes = b"") -> Json:
    """Return the MutatingWebhookConfiguration; ``bundle`` holds the authorities to trust, in PEM."""
    entries = [
        _of_pods(DEVICES, "Fail", DEVICES_TIMEOUT, "asks-for-devices", ASKS_FOR_DEVICES),
        _of_pods(PODS, "Ignore", PODS_TIMEOUT, "asks-for-none", f"!({ASKS_FOR_DEVICES})"),
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
        "rules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["pods"],
                "scope": "Namespaced",
            }
        ],
        # Admission records which request creates a producer, except in a dry run.
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": seconds,
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
    ) -> None:
        registered = RegisteredObject(
            server="the webhook",
            kind="MutatingWebhookConfiguration",
            name=WEBHOOK_NAME,
            path=PATH,
            folder="deploy/webhook",
            wanted=lambda bundle: registration(target, bundle),
            corrected=corrected,
            bundle=registered_bundle,
        )
        super().__init__(objects, source, registered, install, may_register)
