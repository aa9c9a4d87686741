"""Keep the webhook's registration: which pods the API server sends it, where, and what an outage means.

The registration has two entries, because an outage must not mean the same for all pods. Without the webhook a pod that
requests a virtual resource would start without knowing its backend, and a shared quantum job without its order. Such
pods are refused until the webhook answers again (``Fail``; Jobs and other controllers try again by themselves). Every
other pod of ours is admitted as it is (``Ignore``): an admission policy adds its gate, and its label makes its gang.
Pods of other schedulers never get here, because the API server itself evaluates ``matchConditions``.

Each replica looks every few seconds and corrects what differs. It reads the registration before the authority, and a
replica that changes the authority writes it before the registration. So a replica that saw a registration sees an
authority at least as new, and never puts an older bundle back (its write carries the version that it read).

Invariants: the registration states everything, defaults included, so that the stored object can be compared with the
wanted one; an object of our name that isn't ours is reported and left alone.
"""

from __future__ import annotations

import base64
import copy
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

import structlog

from fluence_extender.cluster.errors import ClusterError, Conflict, Denied
from fluence_extender.cluster.pacing import jittered
from fluence_extender.cluster.port import Objects
from fluence_extender.cluster.reconciler import Reconciler
from fluence_extender.model.names import RESOURCE_PREFIX, SCHEDULER_NAME, WEBHOOK_NAME
from fluence_extender.webhook.contract import Json
from fluence_extender.webhook.identity import Identity, IdentitySource, NoIdentity

log = structlog.get_logger(__name__)

PATH = f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{WEBHOOK_NAME}"
MUTATE = "/mutate"

OWNER_LABEL = "app.kubernetes.io/managed-by"
OWNER = "fluence-extender"

DEVICES = "devices.fluence.flux-framework.org"
PODS = "pods.fluence.flux-framework.org"

DEVICES_TIMEOUT = 10
"""Seconds until the pod is refused, so this is rather long."""

PODS_TIMEOUT = 3
"""Seconds until the pod is admitted without us."""

PERIOD = 5.0
"""Seconds between two looks; another program's edit lasts no longer."""

STARTING = 0.2
"""Seconds between two looks while the webhook can't serve yet."""

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
        # Accounts of sidecars and producer records are made at admission, except in a dry run.
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": seconds,
    }


def _client(target: Target, bundle: bytes) -> Json:
    trusted = {"caBundle": base64.b64encode(bundle).decode()} if bundle else {}
    if isinstance(target, UrlTarget):
        return {**trusted, "url": target.url}
    service = {"namespace": target.namespace, "name": target.name, "path": MUTATE, "port": 443}
    return {**trusted, "service": service}


def is_ours(stored: Json) -> bool:
    """Return whether the object is ours, so that we may write it."""
    labels = stored.get("metadata", {}).get("labels") or {}
    return bool(labels.get(OWNER_LABEL) == OWNER)


def corrected(stored: Json, wanted: Json) -> Json | None:
    """Return ``stored`` with the entries it should have, None if it has them already.

    Labels and annotations stay as they are. So do selectors, with which administrators and cloud providers exempt
    namespaces or objects.
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


class RegistrationReconciler(Reconciler[str]):
    """Keeps certificate and registration as they should be.

    ``install`` is called with each new identity; ``may_register`` returns whether the webhook can serve. ``problem``
    says why the webhook isn't registered as it should be, "" if it is. ``registered`` is true once it has been;
    ``looks`` counts the looks.
    """

    def __init__(
        self,
        objects: Objects,
        source: IdentitySource,
        target: Target,
        install: Callable[[Identity], None],
        may_register: Callable[[], bool],
    ) -> None:
        super().__init__("the registration")
        self.looks = 0
        self.registered = False
        self.problem = "not registered yet"
        self.identity: Identity | None = None
        self._objects = objects
        self._source = source
        self._target = target
        self._install = install
        self._may_register = may_register
        self._trusted = b""
        self.enqueue((WEBHOOK_NAME,))

    async def reconcile(self, key: str) -> float:
        """Look once and correct what differs. What the API server refuses becomes the ``problem``."""
        self.looks += 1
        try:
            self._report(await self._look())
        except Conflict:
            # Another replica was faster; the next look sees what it wrote.
            pass
        except ClusterError as error:
            self._report(str(error))
        except NoIdentity as error:
            self._report(f"there is no certificate to serve with: {error}")
        return jittered(PERIOD) if self._may_register() else STARTING

    async def _look(self) -> str:
        """Return what is wrong after the look, "" if nothing is. Raises `ClusterError`, `NoIdentity`."""
        try:
            stored = await self._objects.read(PATH)
        except ClusterError:
            # A lack of a certificate is the more important problem, so it is raised first.
            await self._identify()
            raise
        self._trusted = registered_bundle(stored)
        identity = await self._identify()
        if not self._may_register():
            return self.problem
        problem = await self._register(stored, identity)
        self.registered = self.registered or not problem
        return problem

    async def _identify(self) -> Identity:
        """Return the current identity, after installing it if it is new. Raises `NoIdentity`."""
        identity = await self._source.identity(self._trusted)
        if self.identity is None or identity.certificate != self.identity.certificate:
            self._install(identity)
        self.identity = identity
        return identity

    async def _register(self, stored: Json | None, identity: Identity) -> str:
        """Write the registration if it differs. Return what forbids that, "" if nothing does."""
        wanted = registration(self._target, identity.bundle)
        if stored is None:
            try:
                await self._objects.create(PATH, wanted)
            except Denied as error:
                advice = "`kubectl apply -k deploy/webhook` makes the MutatingWebhookConfiguration"
                raise Denied(f"{error}. {advice}", 403) from error
            log.info("the webhook is registered", name=WEBHOOK_NAME)
        elif not is_ours(stored):
            return (
                f"there is a MutatingWebhookConfiguration {WEBHOOK_NAME} that isn't ours (it lacks the label "
                f"{OWNER_LABEL}={OWNER}): remove it or give it the label"
            )
        elif (correction := corrected(stored, wanted)) is not None:
            await self._objects.replace(PATH, correction)
            log.info("the registration is corrected", name=WEBHOOK_NAME)
        return ""

    def _report(self, problem: str) -> None:
        if problem and problem != self.problem:
            log.error("the webhook isn't registered as it should be", problem=problem)
        self.problem = problem
