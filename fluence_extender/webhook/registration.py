"""What the API server is told about the webhook: for whom it is, where it is, whom to trust, what an outage means.

Two entries, because an outage must not mean the same for all. Without the webhook a pod that asks for a virtual
resource would start without knowing its backend, and a shared quantum job without its order, so such pods are refused
until the webhook answers again (``Fail``; Jobs and the like try again by themselves). Every other pod of ours is
admitted as it is (``Ignore``): its gate comes from an admission policy, and its gang is held together by its label.
Pods of other schedulers never get here, by ``matchConditions``, which the API server evaluates itself.

Invariant: the object says everything, defaults included, so that what is stored can be compared with what is wanted.
"""

from __future__ import annotations

import base64
import copy
from dataclasses import dataclass

from fluence_extender.model.names import RESOURCE_PREFIX, SCHEDULER_NAME, WEBHOOK_NAME
from fluence_extender.webhook.contract import Json

PATH = f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{WEBHOOK_NAME}"
MUTATE = "/mutate"

OWNER_LABEL = "app.kubernetes.io/managed-by"
OWNER = "fluence-extender"

DEVICES = "devices.fluence.flux-framework.org"
PODS = "pods.fluence.flux-framework.org"

DEVICES_TIMEOUT = 10
"""Seconds: the pod is refused after them, so rather a little longer."""

PODS_TIMEOUT = 3
"""Seconds: the pod is admitted without us after them."""

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


@dataclass(frozen=True, slots=True)
class Service:
    """The Service that leads to the webhook."""

    namespace: str
    name: str
    port: int = 443

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names under which it is called."""
        inside = f"{self.name}.{self.namespace}"
        return f"{inside}.svc", f"{inside}.svc.cluster.local", inside


@dataclass(frozen=True, slots=True)
class Url:
    """Where the webhook is called from a control plane that it isn't in; ``host`` is the URL's."""

    url: str
    host: str

    @property
    def hosts(self) -> tuple[str, ...]:
        """The name or address under which it is called."""
        return (self.host,)


Target = Service | Url


def registration(target: Target, bundle: bytes = b"") -> Json:
    """The MutatingWebhookConfiguration; ``bundle`` is the PEM of whom to trust."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": WEBHOOK_NAME, "labels": {OWNER_LABEL: OWNER}},
        "webhooks": [
            _webhook(DEVICES, "Fail", DEVICES_TIMEOUT, ASKS_FOR_DEVICES, target, bundle),
            _webhook(PODS, "Ignore", PODS_TIMEOUT, f"!({ASKS_FOR_DEVICES})", target, bundle),
        ],
    }


def _webhook(name: str, policy: str, seconds: int, condition: str, target: Target, bundle: bytes) -> Json:
    return {
        "name": name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": _client(target, bundle),
        "failurePolicy": policy,
        "matchConditions": [
            {"name": "for-our-scheduler", "expression": OURS},
            {"name": "asks-for-devices" if name == DEVICES else "asks-for-none", "expression": condition},
        ],
        "matchPolicy": "Equivalent",
        "namespaceSelector": {},
        "objectSelector": {},
        # Others may set schedulerName or add containers after us; what we add isn't added twice.
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
        # Accounts of sidecars are made at admission, except in a dry run.
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": seconds,
    }


def _client(target: Target, bundle: bytes) -> Json:
    trusted = {"caBundle": base64.b64encode(bundle).decode()} if bundle else {}
    if isinstance(target, Url):
        return {**trusted, "url": target.url}
    service = {"namespace": target.namespace, "name": target.name, "path": MUTATE, "port": target.port}
    return {**trusted, "service": service}


def is_ours(stored: Json) -> bool:
    """Whether we may write this object."""
    labels = stored.get("metadata", {}).get("labels") or {}
    return bool(labels.get(OWNER_LABEL) == OWNER)


def corrected(stored: Json, wanted: Json) -> Json | None:
    """``stored`` as it should be, None where it is so already.

    Kept as they are: labels and annotations of others, and selectors, with which administrators and cloud providers
    exempt namespaces or objects.
    """
    webhooks = copy.deepcopy(wanted["webhooks"])
    narrowed = {one.get("name"): one for one in stored.get("webhooks") or ()}
    for one in webhooks:
        for selector in ("namespaceSelector", "objectSelector"):
            one[selector] = narrowed.get(one["name"], {}).get(selector) or {}
    if stored.get("webhooks") == webhooks:
        return None
    return {**stored, "webhooks": webhooks}


def registered_bundle(stored: Json | None) -> bytes:
    """Whom the API server trusts according to the object as it is stored: what all its entries have in common."""
    bundles = {
        (one.get("clientConfig") or {}).get("caBundle") or "" for one in (stored or {}).get("webhooks") or ()
    }
    if len(bundles) != 1:
        return b""
    try:
        return base64.b64decode(bundles.pop())
    except ValueError:
        return b""
