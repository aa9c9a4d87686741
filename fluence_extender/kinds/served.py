"""The kinds of workloads that the service knows, and the API that serves each. kubectl's plugin reads it, too."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Api:
    """Where a kind is served: its API ``group``, and the ``versions`` that are read, the preferred one first.

    Not every cluster serves an ``optional`` kind.
    """

    kind: str
    group: str
    versions: tuple[str, ...] = ("v1",)
    optional: bool = True

    @property
    def plural(self) -> str:
        """Its name in paths."""
        return f"{self.kind.lower()}{'es' if self.kind.endswith('s') else 's'}"

    @property
    def resource(self) -> str:
        """Its name in messages, for kubectl and in RBAC rules."""
        return f"{self.plural}.{self.group}"

    @property
    def api_version(self) -> str:
        """The apiVersion of an object that states none."""
        return f"{self.group}/{self.versions[-1]}"

    def path(self, namespace: str, name: str) -> str:
        """Return the path of an object, in the last of the versions."""
        return f"/apis/{self.api_version}/namespaces/{namespace}/{self.plural}/{name}"


JOB = Api("Job", "batch", optional=False)
REPLICA_SET = Api("ReplicaSet", "apps", optional=False)
STATEFUL_SET = Api("StatefulSet", "apps", optional=False)
POD_GROUP = Api("PodGroup", "scheduling.k8s.io", ("v1", "v1beta1", "v1alpha3", "v1alpha2"))
COSCHEDULING_GROUP = Api("PodGroup", "scheduling.x-k8s.io", ("v1alpha1",))
JOB_SET = Api("JobSet", "jobset.x-k8s.io", ("v1", "v1beta1", "v1alpha2"))
LEADER_WORKER_SET = Api("LeaderWorkerSet", "leaderworkerset.x-k8s.io")
MPI_JOB = Api("MPIJob", "kubeflow.org", ("v2beta1",))
RAY_CLUSTER = Api("RayCluster", "ray.io")
RAY_JOB = Api("RayJob", "ray.io")
TRAIN_JOB = Api("TrainJob", "trainer.kubeflow.org", ("v1alpha1",))

OPERATORS = (JOB_SET, LEADER_WORKER_SET, MPI_JOB, RAY_CLUSTER, RAY_JOB, TRAIN_JOB)
"""The kinds of which operators make pods."""
