"""The names that admission, the sidecar and the interceptor of a quantum job share.

A shared group ``<g>`` has one producer, which submits the quantum task, and consumers, which work on its results. The
producer's label ``…/group`` becomes ``<g>-producer``. A consumer keeps ``<g>`` and carries `READY_GATE` until the
producer's sidecar removes that gate by its name; if no task is found, the gate is removed after a time limit.

Invariant: only the Binding writes the annotations that the ledger reads (``…/backend``, ``…/attr-*``). A consumer has
no backend of its own. So its producer's backend is written to separate annotations, which fill the consumer's
environment.
"""

from __future__ import annotations

from fluence_extender.model.names import ATTRIBUTE_PREFIX, BACKEND_ANNOTATION, DOMAIN

# Set by users.
COORDINATION_ANNOTATION = f"{DOMAIN}/coordination"
SHARED = "shared"
INDEPENDENT = "independent"
OBSERVE_LABEL = f"{DOMAIN}/observe"
DISCOVERY_TIMEOUT_ANNOTATION = f"{DOMAIN}/task-discovery-timeout"
"""On a producer: how long after its start consumers wait for a task that can't be found (``90s``, ``2h``)."""
POLL_INTERVAL_ANNOTATION = f"{DOMAIN}/task-poll-interval"
"""On a producer: how often the state of the task is read."""

QPU = "qpu"
"""The virtual resource type whose request makes a pod a quantum pod."""

# Written at admission. Users may set the role where pods have no completion index or pod index that determines it.
ROLE_ANNOTATION = f"{DOMAIN}/coordination-role"
PRODUCER = "producer"
CONSUMER = "consumer"
PRODUCER_SUFFIX = "-producer"
NAMING_OWNERS = ("Job", "ReplicaSet", "StatefulSet")
"""The kinds of controllers whose name is the group of pods that no label names."""
DEPENDS_ON_KIND = f"{DOMAIN}/depends-on-kind"
DEPENDS_ON_PRODUCER = f"{DOMAIN}/depends-on-producer"
DEPENDS_ON_GATE = f"{DOMAIN}/depends-on-gate"
QUANTUM_SUBMIT = "quantum-submit"
READY_GATE = "quantum.braket/ready"
CONSUMER_PRIORITY_CLASS = "fluence-quantum-classical"

# Written on each consumer by the producer's sidecar, before the gate is removed.
QUANTUM_JOB_ID_ANNOTATION = f"{DOMAIN}/quantum-job-id"
TASK_STATUS_ANNOTATION = f"{DOMAIN}/task-status"
"""On the pod of a sidecar: the status of its newest task in the vendor's queue. It is there to be shown, and decides
nothing."""
RELEASED_ANNOTATION = f"{DOMAIN}/released"
"""On the producer, with the id of its task: why consumers may start. It is written before the first gate is removed.
Consumers created later start at once."""
PRODUCER_SEEN_ANNOTATION = f"{DOMAIN}/producer-seen"
"""On one of the gated consumers: its group had a producer, which may be gone by now."""
PRODUCER_BACKEND_ANNOTATION = f"producer.{BACKEND_ANNOTATION}"
PRODUCER_ATTRIBUTE_PREFIX = f"producer.{ATTRIBUTE_PREFIX}"

# Containers, volumes and mounts that admission adds to a pod.
STAGE_CONTAINER = "fluence-stage"
SIDECAR_CONTAINER = "fluence-sidecar"
PACKAGE_VOLUME = "fluence-pkg"
STAGED = "/opt/fluence-staged"
"""Where the interceptor is staged. It is mounted read-only in the user's containers and first in their PYTHONPATH."""
TOKEN_VOLUME = "fluence-token"
TOKEN_MOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
"""The usual place of a ServiceAccount's token, CA and namespace. In the sidecar it has the token of the sidecar's own
account, in the user's containers that of the pod's."""
SIDECAR_ACCOUNT = "fluence-sidecar"
"""The ServiceAccount, Role, RoleBinding and token Secret of a namespace with producers or observed pods. The webhook's
process creates them once such a pod exists."""
TOKEN_KEY = "token"
"""The key of the token in its Secret."""

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
"""Holds a user's PYTHONPATH that comes from a ConfigMap or the like, so that the extended one can refer to it."""
QRMI_BACKEND_VARIABLE = "QRMI_BACKEND"
QRMI_NAME_VARIABLES = ("QRMI_RESOURCE_ID", "QRMI_JOB_QPU_RESOURCES")
QRMI_TYPE_VARIABLE = "QRMI_JOB_QPU_TYPES"
QRMI_TYPE_ATTRIBUTE = "qrmi_type"
"""QRMI reads the name and the type of a resource together. Both are set where the resources file has this attribute."""
QRMI_PREFIX = "qrmi_"
"""Other attributes with this prefix are also set under their name without FLUXION_."""

# Environment of the sidecar, in addition to FLUENCE_POD_UID, FLUXION_* and copies of the first container's secrets.
POD_NAME_VARIABLE = "FLUENCE_POD_NAME"
NAMESPACE_VARIABLE = "FLUENCE_NAMESPACE"
GROUP_VARIABLE = "FLUENCE_GROUP"
GANG_GROUP_VARIABLE = "FLUENCE_GANG_GROUP"
"""The group whose consumers are released: ``<g>`` in the sidecar of ``<g>-producer``; unset where it only observes."""
OBSERVE_VARIABLE = "FLUENCE_OBSERVE"


def producer_group(group: str) -> str:
    """Return the group of the producer of the shared group ``group``."""
    return f"{group}{PRODUCER_SUFFIX}"


def producer_annotation(annotation: str) -> str:
    """Return the consumer's annotation that holds its producer's ``annotation`` (backend or attr-*)."""
    return f"producer.{annotation}"
