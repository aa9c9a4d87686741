"""The KubeSchedulerConfiguration for the kube-scheduler in an extender's pod.

It is a process of its own with one profile, because all profiles of a process share its extenders. The printed text
explains each line.
"""

from __future__ import annotations

import yaml

from fluence_extender.model.names import RESOURCE_DOMAIN, SCHEDULER_NAME

ELECTION = """\
# leaderElection: one of several replicas leads; the extender in its pod follows the same Lease (serve --lease).
"""

HEADER = """\
# kube-scheduler --config=THIS FILE. A process of its own: all profiles of a process share its extenders.
# percentageOfNodesToScore 100: the planned node must never be missing from the nodes that the extender is offered.
# ignoredResourceGroups: virtual resources are on no node; the extender accounts for them.
# enableContentionProfiling false: recording where each goroutine waits costs as much CPU as a filter call.
# httpTimeout: one for all verbs; bind waits up to 20 s for the rest of its gang.
# ignorable false: without the extender no pod of this scheduler may be placed.
# bindVerb: the extender binds every pod that kube-scheduler has filtered, together with its gang.
# Gangs are the extender's: start kube-scheduler with --feature-gates=GenericWorkload=false as well.
"""


FEATURE_GATES = {"GenericWorkload": False}
"""What switches off kube-scheduler's own gang scheduling in Kubernetes 1.36 and 1.37: gangs are the extender's."""

ENVIRONMENT = {"GOGC": "400"}
"""The environment of a kube-scheduler with an extender: Go's runtime collects garbage a fifth as often as by default.

With 5,000 nodes that saves 5 to 10 % of its CPU time for each pod, and costs some 65 MB of memory.
"""


def scheduler_config(url: str, kubeconfig: str, lease: str = "", lease_duration: int = 15) -> str:
    """Return the configuration as YAML.

    ``url`` is where the verbs are served; an empty ``kubeconfig`` means in-cluster. ``lease`` is the Lease
    (NAMESPACE/NAME) that elects one of several replicas, "" for no election; ``lease_duration`` is in seconds, at least
    3.
    """
    connection: dict[str, object] = {"qps": 1000, "burst": 2000}
    if kubeconfig:
        connection["kubeconfig"] = kubeconfig
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": connection,
        "leaderElection": _election(lease, lease_duration),
        "enableContentionProfiling": False,
        "percentageOfNodesToScore": 100,
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 5,
        "profiles": [
            {
                "schedulerName": SCHEDULER_NAME,
                "pluginConfig": [
                    {
                        "name": "NodeResourcesFit",
                        "args": {
                            "apiVersion": "kubescheduler.config.k8s.io/v1",
                            "kind": "NodeResourcesFitArgs",
                            "ignoredResourceGroups": [RESOURCE_DOMAIN],
                            "scoringStrategy": {
                                "type": "LeastAllocated",
                                "resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}],
                            },
                        },
                    }
                ],
            }
        ],
        "extenders": [
            {
                "urlPrefix": url.rstrip("/"),
                "filterVerb": "filter",
                "prioritizeVerb": "prioritize",
                "preemptVerb": "preempt",
                "bindVerb": "bind",
                "weight": 1,
                "enableHTTPS": False,
                "httpTimeout": "30s",
                "nodeCacheCapable": True,
                "ignorable": False,
            }
        ],
    }
    header = HEADER + (ELECTION if lease else "")
    return header + yaml.safe_dump(document, sort_keys=False)


def _election(lease: str, duration: int) -> dict[str, object]:
    """Return the election in kube-scheduler's own proportions: duration 15, deadline 10, retry 2 seconds."""
    if not lease:
        return {"leaderElect": False}
    namespace, _, name = lease.partition("/")
    return {
        "leaderElect": True,
        "leaseDuration": f"{duration}s",
        "renewDeadline": f"{duration * 1000 * 2 // 3}ms",
        "retryPeriod": f"{duration * 1000 * 2 // 15}ms",
        "resourceLock": "leases",
        "resourceName": name,
        "resourceNamespace": namespace,
    }
