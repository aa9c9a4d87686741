"""Every label, annotation, gate and resource name of the project's own, in one place.

A user sets the request keys; the result keys are written by us in the Binding, and only by us.
"""

SCHEDULER_NAME = "fluence"

DOMAIN = "fluence.flux-framework.org"
RESOURCE_DOMAIN = "fluxion.flux-framework.org"
RESOURCE_PREFIX = f"{RESOURCE_DOMAIN}/"

# Requests: set by users.
GROUP_LABEL = f"{DOMAIN}/group"
GROUP_SIZE_ANNOTATION = f"{DOMAIN}/group-size"
SCHEDULE_TIMEOUT_ANNOTATION = f"{DOMAIN}/schedule-timeout"
DURATION_ANNOTATION = f"{DOMAIN}/duration"
TOPOLOGY_REQUIRED_ANNOTATION = f"{DOMAIN}/topology-required"
TOPOLOGY_PREFERRED_ANNOTATION = f"{DOMAIN}/topology-preferred"
REQUIRE_PREFIX = f"{DOMAIN}/require-"
REQUIRE_BACKEND_ANNOTATION = f"{REQUIRE_PREFIX}backend"

# Selection, before an object is submitted: how to choose its backend (set by users), and what was chosen from.
SELECT_PREFIX = f"{DOMAIN}/select-"
SELECT_POLICY_ANNOTATION = f"{SELECT_PREFIX}policy"
SELECT_CANDIDATES_ANNOTATION = f"{SELECT_PREFIX}candidates"
SELECT_CONSTRAINTS_ANNOTATION = f"{SELECT_PREFIX}constraints"
SELECT_SHOTS_ANNOTATION = f"{SELECT_PREFIX}shots"
SELECT_RESULT_ANNOTATION = f"{SELECT_PREFIX}result"

# What the owner of a pod said at admission: how many pods it wants at once.
OWNER_SIZE_ANNOTATION = f"{DOMAIN}/owner-size"

# On objects that the webhook makes, which it may therefore delete.
CREATED_BY_ANNOTATION = f"{DOMAIN}/created-by"
WEBHOOK_NAME = "fluence-webhook"

# Our own scheduling gate, added to each pod of ours at admission.
GATE = f"{DOMAIN}/gang"

# Asked for by the pods that kube-scheduler is to leave to our bind verb: it picks a binder by what a pod asks for.
# Put on pods at admission; the device types that every installation knows do the same without it.
MARK_RESOURCE = f"{DOMAIN}/binding"
MARKS = (MARK_RESOURCE, f"{RESOURCE_PREFIX}qpu", f"{RESOURCE_PREFIX}qubit")

# Results: written in the Binding.
BACKEND_ANNOTATION = f"{DOMAIN}/backend"
ATTRIBUTE_PREFIX = f"{DOMAIN}/attr-"
ALLOCATION_ANNOTATION = f"{DOMAIN}/allocation"

# Written in the write that ungates: the node to which, or to a spare one, the pod is confined.
PINNED_ANNOTATION = f"{DOMAIN}/pinned-to"

# Kubernetes' own.
NODE_NAME = "metadata.name"

RESOURCES_CONFIGMAP = "fluence-resources"
RESOURCES_KEY = "resources.yaml"
