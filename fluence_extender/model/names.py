"""The labels, annotations, gates and resource names that more than one module reads: the project's own, and others'.

Users set the keys of requests. Only the service writes the keys of results, and it writes them in the Binding. What
only admission, the sidecar and the interceptor of quantum jobs use is in `coordination`.
"""

# Users name the first. Admission gives the second to pods that a node alone decides: the service binds them itself, and
# no kube-scheduler serves them.
SCHEDULER_NAME = "fluence"
DIRECT_SCHEDULER_NAME = "fluence-direct"
SCHEDULER_NAMES = (SCHEDULER_NAME, DIRECT_SCHEDULER_NAME)
DEFAULT_SCHEDULER = "default-scheduler"

DOMAIN = "fluence.flux-framework.org"
RESOURCE_DOMAIN = "fluxion.flux-framework.org"
RESOURCE_PREFIX = f"{RESOURCE_DOMAIN}/"

# Requests, set by users.
GROUP_LABEL = f"{DOMAIN}/group"
GROUP_SIZE_ANNOTATION = f"{DOMAIN}/group-size"
SCHEDULE_TIMEOUT_ANNOTATION = f"{DOMAIN}/schedule-timeout"
DURATION_ANNOTATION = f"{DOMAIN}/duration"
HOLD_ANNOTATION = f"{DOMAIN}/hold"
AFTER_ANNOTATION = f"{DOMAIN}/after"
TOPOLOGY_REQUIRED_ANNOTATION = f"{DOMAIN}/topology-required"
TOPOLOGY_PREFERRED_ANNOTATION = f"{DOMAIN}/topology-preferred"
REQUIRE_PREFIX = f"{DOMAIN}/require-"
REQUIRE_BACKEND_ANNOTATION = f"{REQUIRE_PREFIX}backend"

# Backend selection before an object is submitted: users set how to choose; the result records what was chosen from.
SELECT_PREFIX = f"{DOMAIN}/select-"
SELECT_POLICY_ANNOTATION = f"{SELECT_PREFIX}policy"
SELECT_CANDIDATES_ANNOTATION = f"{SELECT_PREFIX}candidates"
SELECT_CONSTRAINTS_ANNOTATION = f"{SELECT_PREFIX}constraints"
SELECT_SHOTS_ANNOTATION = f"{SELECT_PREFIX}shots"
SELECT_RESULT_ANNOTATION = f"{SELECT_PREFIX}result"

# Set by users on namespaces, and read by a policy and NetworkPolicies of deploy/ alone.
INTAKE_LABEL = f"{DOMAIN}/intake"
API_ACCESS_LABEL = f"{DOMAIN}/api-access"
DASHBOARD_ACCESS_LABEL = f"{DOMAIN}/dashboard-access"

# On objects that the webhook creates. It deletes only objects that carry this annotation.
CREATED_BY_ANNOTATION = f"{DOMAIN}/created-by"
WEBHOOK_NAME = "fluence-webhook"

# The project's scheduling gate, which admission adds to pods that kube-scheduler's filters judge.
GATE = f"{DOMAIN}/gang"

# Set by users on workloads or pods: the Queue that their work is in. Kueue's label, below, counts as well where the
# cluster doesn't serve Kueue's queues.
QUEUE_LABEL = f"{DOMAIN}/queue"

# Set by users on pods: the account that the use of resources is added to. It has no effect on placement.
ACCOUNT_LABEL = f"{DOMAIN}/account"

# Written on the pod of the replica that leads, which the Service selects by it.
LEADS_LABEL = f"{DOMAIN}/leads"

# Results, written in the Binding.
BACKEND_ANNOTATION = f"{DOMAIN}/backend"
ATTRIBUTE_PREFIX = f"{DOMAIN}/attr-"
ALLOCATION_ANNOTATION = f"{DOMAIN}/allocation"

# Written by admission when an object is created: the name of the user who created it.
USER_ANNOTATION = f"{DOMAIN}/submitted-by"

# Written by the webhook: what it warns of, for users whose pods a controller creates; and how the text begins on a pod
# that it hasn't prepared.
WARNING_ANNOTATION = f"{DOMAIN}/warning"
LONGEST_WARNING = 400
LEFT_AS_IT_IS = "fluence left the pod as it is: "

# Written when the pod is ungated or nominated, and in the Binding: the gang with which it got its place, the size of
# that gang and its queue, sealed (`records`).
PLACED_ANNOTATION = f"{DOMAIN}/placed-with"

# By this label Kueue counts an object, and suspends and resumes it.
KUEUE_QUEUE_LABEL = "kueue.x-k8s.io/queue-name"

# Annotations of nodes: with "true", Cluster Autoscaler and Karpenter don't remove the node.
KEEPING = ("cluster-autoscaler.kubernetes.io/scale-down-disabled", "karpenter.sh/do-not-disrupt")

# Written with these: which of them the service has set, joined by a comma. It takes back no others.
KEPT_ANNOTATION = f"{DOMAIN}/kept"

# On a Job or its pods: how many seconds the work runs at most, as Kueue reads it.
KUEUE_LONGEST_LABEL = "kueue.x-k8s.io/max-exec-time-seconds"

# On a Job: why admission created it suspended. Until the service has places for its pods it has the first value.
SUSPENDED_FOR_ANNOTATION = f"{DOMAIN}/suspended-for"
SUSPENDED_FOR_PLACEMENT = "placement"

# On a Job whose pods had to give their places back: the place in line that it keeps, as the time of its submission and
# a number that orders what was submitted in the same second, joined by a slash.
QUEUED_SINCE_ANNOTATION = f"{DOMAIN}/queued-since"

# On a Job or a pod that waits for others: its uid, and its dependencies that were met, each as `after` names it. What
# has ended may be deleted. A copy of the object has another uid, and waits for all of them.
MET_ANNOTATION = f"{DOMAIN}/after-met"

# On a Job's pod template, written when it is resumed: the nodes of its pods by completion index, joined by commas; and
# after a semicolon until when pods are bound by their creation, if they may be.
NODES_ANNOTATION = f"{DOMAIN}/nodes"

# By this finalizer the Job controller counts how a pod of a Job ends. It takes it off pods that it deletes itself.
JOB_TRACKING = "batch.kubernetes.io/job-tracking"

# What runs a Job, an MPIJob or a RayCluster unless `managedBy` names another controller.
JOB_CONTROLLER = "kubernetes.io/job-controller"
OPERATORS = ("kubeflow.org/mpi-operator", "ray.io/kuberay-operator")

# Set by users on a Job or its namespace: with "never" the Job isn't suspended, and its pods wait for places.
SUSPEND_LABEL = f"{DOMAIN}/suspend"
NEVER_SUSPEND = "never"

# The state API as a part of the API server: /apis/GROUP/VERSION.
STATE_GROUP = DOMAIN
STATE_VERSION = "v1"

# The version of the kinds Queue and Reservation, which are in the same API group.
QUEUE_VERSION = "v1alpha1"

# The condition of a Job whose pods can't be placed on this cluster, even if nothing else ran.
ASKS_FOR_NODES = "waits for nodes: "
"""How the message of a pod's condition begins that asks autoscalers for nodes."""

UNSATISFIABLE_CONDITION = f"{DOMAIN}/Unsatisfiable"

# Where deploy/ installs the service, and where fluence and kubectl-fluence have their ConfigMap.
DEFAULT_NAMESPACE = "fluence-system"

# The ConfigMap with the virtual resources, and its key.
RESOURCES_CONFIGMAP = "fluence-resources"
RESOURCES_KEY = "resources.yaml"

# Kubernetes: the node field of affinity terms, then labels on nodes and on the pods of Jobs and StatefulSets. Every
# version of Kubernetes also sets the completion index as an annotation.
NODE_NAME = "metadata.name"
ZONE = "topology.kubernetes.io/zone"
JOB_NAME = "batch.kubernetes.io/job-name"
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
POD_INDEX = "apps.kubernetes.io/pod-index"
HOSTNAME = "kubernetes.io/hostname"
"""The label by which each node has a name of its own."""

LONGEST_LABEL = 63
"""Characters in a label's value at most (Kubernetes API conventions)."""

# The coscheduling plugin (scheduler-plugins), and flux-k8s, which combined its group with a size label.
COSCHEDULING_GROUP = "scheduling.x-k8s.io/pod-group"
FLUX_SIZE = "fluence.group-size"
_EARLIER = "pod-group.scheduling.sigs.k8s.io"
COSCHEDULING_NAMES = (COSCHEDULING_GROUP, f"{_EARLIER}/name", _EARLIER)
"""The labels that name the coscheduling plugin's group; the last two are those of its earlier versions."""
COSCHEDULING_SIZES = (FLUX_SIZE, f"{_EARLIER}/min-available")

# JobSet.
JOB_SET_NAME = "jobset.sigs.k8s.io/jobset-name"
JOB_INDEX = "jobset.sigs.k8s.io/job-index"
REPLICATED_JOB = "jobset.sigs.k8s.io/replicatedjob-name"
REPLICATED_JOB_REPLICAS = "jobset.sigs.k8s.io/replicatedjob-replicas"

# LeaderWorkerSet. The size is an annotation.
LWS_NAME = "leaderworkerset.sigs.k8s.io/name"
LWS_GROUP_INDEX = "leaderworkerset.sigs.k8s.io/group-index"
LWS_WORKER_INDEX = "leaderworkerset.sigs.k8s.io/worker-index"
LWS_SIZE = "leaderworkerset.sigs.k8s.io/size"
LWS_REVISION = "leaderworkerset.sigs.k8s.io/template-revision-hash"

# KubeRay. The label ``group`` names the head or the worker group.
RAY_CLUSTER = "ray.io/cluster"
RAY_NODE = "ray.io/is-ray-node"
RAY_NODE_TYPE = "ray.io/node-type"
RAY_GROUP = "ray.io/group"

# The operators of Kubeflow, including the MPI Operator.
MPI_OPERATOR = "mpi-operator"
TRAINING_OPERATOR = "training.kubeflow.org/operator-name"
TRAINING_JOB_NAME = "training.kubeflow.org/job-name"
TRAINING_ROLE = "training.kubeflow.org/job-role"
TRAINING_REPLICA_INDEX = "training.kubeflow.org/replica-index"
