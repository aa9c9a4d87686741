"""The keys of quantum jobs and of what admission writes, as `kubectl fluence explain` tells them."""

from __future__ import annotations

from fluence_extender.model import coordination, names

Row = tuple[str, str, str, str, str, str]
"""Key, kind, what it stands on, who writes it, what it does, an example."""

USER, WEBHOOK, SIDECAR = "you", "the webhook", "the producer's sidecar"

ROWS: tuple[Row, ...] = (
    (
        coordination.COORDINATION_ANNOTATION,
        "annotation",
        "pod",
        USER,
        "shared: the first pod of the group submits the quantum task, the others start when it is about to run."
        " independent, as without it: each pod submits its own.",
        f"{coordination.COORDINATION_ANNOTATION}: shared",
    ),
    (
        coordination.OBSERVE_LABEL,
        "label",
        "pod",
        USER,
        "Adds the sidecar to a quantum pod that shares nothing, to tell where its task stands in the queue.",
        f'{coordination.OBSERVE_LABEL}: "true"',
    ),
    (
        coordination.ROLE_ANNOTATION,
        "annotation",
        "pod",
        "you or the webhook",
        "Who submits the task of a shared group (producer) and who waits for it (consumer). Set it where pods have no"
        " index that says who is first.",
        f"{coordination.ROLE_ANNOTATION}: producer",
    ),
    (
        coordination.DISCOVERY_TIMEOUT_ANNOTATION,
        "annotation",
        "pod",
        USER,
        "On a producer: how long consumers wait for a task that isn't found.",
        f"{coordination.DISCOVERY_TIMEOUT_ANNOTATION}: 5m",
    ),
    (
        coordination.POLL_INTERVAL_ANNOTATION,
        "annotation",
        "pod",
        USER,
        "On a producer: how often its task is looked at.",
        f"{coordination.POLL_INTERVAL_ANNOTATION}: 30s",
    ),
    (
        coordination.READY_GATE,
        "scheduling gate",
        "pod",
        WEBHOOK,
        "Keeps a consumer until its producer's task is about to run; then the sidecar removes it.",
        f"schedulingGates: [{{name: {coordination.READY_GATE}}}]",
    ),
    (
        coordination.DEPENDS_ON_KIND,
        "annotation",
        "pod",
        WEBHOOK,
        "What a consumer waits for.",
        f"{coordination.DEPENDS_ON_KIND}: {coordination.QUANTUM_SUBMIT}",
    ),
    (
        coordination.DEPENDS_ON_PRODUCER,
        "annotation",
        "pod",
        WEBHOOK,
        "The group of the pod that a consumer waits for.",
        f"{coordination.DEPENDS_ON_PRODUCER}: vqe-producer",
    ),
    (
        coordination.DEPENDS_ON_GATE,
        "annotation",
        "pod",
        WEBHOOK,
        "The gate behind which a consumer waits.",
        f"{coordination.DEPENDS_ON_GATE}: {coordination.READY_GATE}",
    ),
    (
        coordination.QUANTUM_JOB_ID_ANNOTATION,
        "annotation",
        "pod",
        SIDECAR,
        "The vendor's id of the task whose results a consumer works on; its containers read it as"
        f" {coordination.QUANTUM_JOB_ID_VARIABLE}.",
        f"{coordination.QUANTUM_JOB_ID_ANNOTATION}: 7d3f-42",
    ),
    (
        coordination.RELEASED_ANNOTATION,
        "annotation",
        "pod",
        SIDECAR,
        "On a producer: why its consumers were released. Those that come later start at once.",
        f"{coordination.RELEASED_ANNOTATION}: the task is next",
    ),
    (
        coordination.PRODUCER_SEEN_ANNOTATION,
        "annotation",
        "pod",
        WEBHOOK,
        "On a consumer that waits: its group had a producer. If that is gone and none comes, consumers start anyway.",
        f'{coordination.PRODUCER_SEEN_ANNOTATION}: "true"',
    ),
    (
        names.OWNER_SIZE_ANNOTATION,
        "annotation",
        "pod",
        WEBHOOK,
        "How many pods the ReplicaSet or StatefulSet wanted when this one was created: the size of a labelled gang"
        " that says none.",
        f'{names.OWNER_SIZE_ANNOTATION}: "4"',
    ),
    (
        names.CREATED_BY_ANNOTATION,
        "annotation",
        "PodGroup, Lease and the sidecars' account",
        WEBHOOK,
        "What carries it was made for you, and goes when nobody needs it any more.",
        f"{names.CREATED_BY_ANNOTATION}: {names.WEBHOOK_NAME}",
    ),
    (
        coordination.PRODUCER_BACKEND_ANNOTATION,
        "annotation",
        "pod",
        SIDECAR,
        f"The backend of a consumer's producer; the consumer's containers read it as {coordination.BACKEND_VARIABLE}.",
        f"{coordination.PRODUCER_BACKEND_ANNOTATION}: ibm_fez",
    ),
    (
        f"{coordination.PRODUCER_ATTRIBUTE_PREFIX}*",
        "annotation",
        "pod",
        SIDECAR,
        "An attribute of that backend; the consumer's containers read it as FLUXION_<KEY>.",
        f"{coordination.PRODUCER_ATTRIBUTE_PREFIX}vendor: ibm",
    ),
)
