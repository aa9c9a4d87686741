"""Labels and annotations of others that more than one module reads: Kubernetes' own and those of operators.

What only one module reads stands where it is read; the project's own are in `fluence_extender.model.names`.
"""

LONGEST_LABEL = 63
"""Characters of a label's value, by Kubernetes' API conventions."""

# Kubernetes: on nodes, and on the pods of Jobs and StatefulSets. The completion index is an annotation in any version.
ZONE = "topology.kubernetes.io/zone"
JOB_NAME = "batch.kubernetes.io/job-name"
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
POD_INDEX = "apps.kubernetes.io/pod-index"

# The coscheduling plugin (scheduler-plugins), and flux-k8s, which used its group with a size of its own.
COSCHEDULING_GROUP = "scheduling.x-k8s.io/pod-group"
FLUX_SIZE = "fluence.group-size"

# JobSet.
JOB_SET_NAME = "jobset.sigs.k8s.io/jobset-name"
JOB_INDEX = "jobset.sigs.k8s.io/job-index"
REPLICATED_JOB = "jobset.sigs.k8s.io/replicatedjob-name"
REPLICATED_JOB_REPLICAS = "jobset.sigs.k8s.io/replicatedjob-replicas"

# LeaderWorkerSet; the size is an annotation.
LWS_NAME = "leaderworkerset.sigs.k8s.io/name"
LWS_GROUP_INDEX = "leaderworkerset.sigs.k8s.io/group-index"
LWS_WORKER_INDEX = "leaderworkerset.sigs.k8s.io/worker-index"
LWS_SIZE = "leaderworkerset.sigs.k8s.io/size"
LWS_REVISION = "leaderworkerset.sigs.k8s.io/template-revision-hash"

# The operators of Kubeflow, the MPI Operator among them.
TRAINING_OPERATOR = "training.kubeflow.org/operator-name"
TRAINING_JOB_NAME = "training.kubeflow.org/job-name"
TRAINING_REPLICA_INDEX = "training.kubeflow.org/replica-index"
