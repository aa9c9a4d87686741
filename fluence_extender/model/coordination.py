"""What admission, sidecar and interceptor of a quantum job agree on: every name that one writes and another reads.

A shared group ``<g>`` has one producer, which submits the quantum task, and consumers, which work on its results. The
producer's label ``…/group`` becomes ``<g>-producer``; a consumer keeps ``<g>`` and carries `READY_GATE` until the
producer's sidecar (or, where the task is never found, its time limit) removes that gate by its name.

Invariant: what the ledger believes (``…/backend``, ``…/attr-*``) is written in the Binding alone. A consumer has no
backend of its own, so that of its producer stands in annotations of their own, from which its environment is filled.
"""

from __future__ import annotations

from fluence_extender.model.names import ATTRIBUTE_PREFIX, BACKEND_ANNOTATION, DOMAIN

# Set by users.
COORDINATION_ANNOTATION = f"{DOMAIN}/coordination"
SHARED = "shared"
INDEPENDENT = "independent"
OBSERVE_LABEL = f"{DOMAIN}/observe"
DISCOVERY_TIMEOUT_ANNOTATION = f"{DOMAIN}/task-discovery-timeout"
"""On a producer: how long after its start consumers wait for a task that isn't found (``90s``, ``2h``)."""
POLL_INTERVAL_ANNOTATION = f"{DOMAIN}/task-poll-interval"
"""On a producer: how often the task is looked at."""

QPU = "qpu"
"""The virtual resource type whose request makes a pod a quantum pod."""

# Written at admission. Users may set the role where nothing else tells who produces (no completion or pod index).
ROLE_ANNOTATION = f"{DOMAIN}/coordination-role"
PRODUCER = "producer"
CONSUMER = "consumer"
PRODUCER_SUFFIX = "-producer"
DEPENDS_ON_KIND = f"{DOMAIN}/depends-on-kind"
DEPENDS_ON_PRODUCER = f"{DOMAIN}/depends-on-producer"
DEPENDS_ON_GATE = f"{DOMAIN}/depends-on-gate"
QUANTUM_SUBMIT = "quantum-submit"
READY_GATE = "quantum.braket/ready"
CONSUMER_PRIORITY_CLASS = "fluence-quantum-classical"

# Written on each consumer by the producer's sidecar, before the gate is removed.
QUANTUM_JOB_ID_ANNOTATION = f"{DOMAIN}/quantum-job-id"
RELEASED_ANNOTATION = f"{DOMAIN}/released"
"""On the producer, with its task's id, before the first gate is removed: why. Later consumers start at once."""
PRODUCER_SEEN_ANNOTATION = f"{DOMAIN}/producer-seen"
"""On one of the gated consumers: its group had a producer, which may be gone since."""
PRODUCER_BACKEND_ANNOTATION = f"producer.{BACKEND_ANNOTATION}"
PRODUCER_ATTRIBUTE_PREFIX = f"producer.{ATTRIBUTE_PREFIX}"

# Containers, volumes and mounts that admission adds to a pod.
STAGE_CONTAINER = "fluence-stage"
SIDECAR_CONTAINER = "fluence-sidecar"
PACKAGE_VOLUME = "fluence-pkg"
STAGED = "/opt/fluence-staged"
"""Where the interceptor is staged: mounted read-only in the user's containers, first in their PYTHONPATH."""
TOKEN_VOLUME = "fluence-token"
TOKEN_MOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
"""The usual place of a service account's token, CA and namespace, in the sidecar whatever the pod automounts."""
SIDECAR_ACCOUNT = "fluence-sidecar"
"""ServiceAccount, Role and RoleBinding of a namespace with producers or observed pods. It must exist before the pod is
created (the API server refuses a pod whose account isn't there), so it is made at admission, never in a dry run."""

SIDECAR_COMMAND = ("fluence-sidecar",)
STAGE_COMMAND = (
    "sh",
    "-c",
    f"python3 -m fluence_extender.apps.sidecar stage {STAGED} || "
    "echo '[fluence] staging skipped (interceptor unavailable)'",
)

# Environment of the user's containers.
BACKEND_VARIABLE = "FLUXION_BACKEND"
POD_UID_VARIABLE = "FLUENCE_POD_UID"
ROLE_VARIABLE = "FLUENCE_COORDINATION_ROLE"
QUANTUM_JOB_ID_VARIABLE = "FLUENCE_QUANTUM_JOB_ID"
PYTHONPATH = "PYTHONPATH"
USERS_PYTHONPATH = "FLUENCE_USERS_PYTHONPATH"
"""Where a PYTHONPATH that comes from a ConfigMap or the like is kept, so that ours can refer to it."""
QRMI_BACKEND_VARIABLE = "QRMI_BACKEND"
QRMI_NAME_VARIABLES = ("QRMI_RESOURCE_ID", "QRMI_JOB_QPU_RESOURCES")
QRMI_TYPE_VARIABLE = "QRMI_JOB_QPU_TYPES"
QRMI_TYPE_ATTRIBUTE = "qrmi_type"
"""QRMI reads the resource's name and type together; both are set where the file has this attribute."""
QRMI_PREFIX = "qrmi_"
"""Other attributes that begin so are also given under the name without FLUXION_."""

# Environment of the sidecar, beside FLUENCE_POD_UID, FLUXION_* and copies of the first container's secrets.
POD_NAME_VARIABLE = "FLUENCE_POD_NAME"
NAMESPACE_VARIABLE = "FLUENCE_NAMESPACE"
GROUP_VARIABLE = "FLUENCE_GROUP"
GANG_GROUP_VARIABLE = "FLUENCE_GANG_GROUP"
"""The group whose consumers are released: ``<g>`` in the sidecar of ``<g>-producer``, absent where it only observes."""
OBSERVE_VARIABLE = "FLUENCE_OBSERVE"


def producer_group(group: str) -> str:
    """The group of the producer of a shared group."""
    return f"{group}{PRODUCER_SUFFIX}"


def handed_over(annotation: str) -> str:
    """Where a consumer finds what its producer's Binding says under ``annotation`` (backend or attr-*)."""
    return f"producer.{annotation}"
