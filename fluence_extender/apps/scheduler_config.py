"""The KubeSchedulerConfiguration for the kube-scheduler that stands beside an extender.

A process of its own with one profile, because extenders are shared by all profiles of a process. What each line is for
is said in the text that is printed.
"""

from __future__ import annotations

import yaml

from fluence_extender.http.scheduler.port import SELF_BINDING
from fluence_extender.model.names import DOMAIN, MARKS, RESOURCE_DOMAIN, SCHEDULER_NAME

ELECTION = """\
# leaderElection: of several replicas one leads; the extender beside it follows the same Lease (serve --lease).
"""

HEADER = """\
# kube-scheduler --config=THIS FILE. A process of its own: extenders are shared by all profiles of a process.
# percentageOfNodesToScore 100: the planned node must never be missing from what the extender is offered.
# ignoredResourceGroups: virtual resources are on no node; the extender accounts for them.
# enableContentionProfiling false: to note where each goroutine waits costs as much CPU as a filter call.
# httpTimeout: one for all verbs; bind waits up to 20 s for the rest of its gang.
# ignorable false: without the extender nothing of ours may be placed.
"""

SPLIT = """\
# Two extenders: the first is asked about every pod; the second binds those that ask for one of managedResources, which
# is put on them at admission if their Binding says more than their node, or their gang has to be bound together. The
# others are bound by kube-scheduler itself, which is faster. Where no pods are marked: scheduler-config --barrier.
"""


ENVIRONMENT = {"GOGC": "400"}
"""What kube-scheduler runs with beside an extender: the Go runtime collects garbage a fifth as often as by default.

With 5,000 nodes that takes 5 to 10 % of its CPU a pod away, for some 65 MB more of memory.
"""


def scheduler_config(
    url: str, kubeconfig: str, lease: str = "", lease_duration: int = 15, barrier: bool = False
) -> str:
    """The configuration as YAML; ``url`` is where the verbs are served, an empty ``kubeconfig`` means in-cluster.

    With ``barrier`` the extender binds every pod, and each gang together; without it the marked ones only.
    ``lease`` is the Lease (NAMESPACE/NAME) by which one of several replicas is elected, "" for no election;
    ``lease_duration`` is in seconds, at least 3.
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
                            "ignoredResourceGroups": [RESOURCE_DOMAIN, DOMAIN],
                            "scoringStrategy": {
                                "type": "LeastAllocated",
                                "resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}],
                            },
                        },
                    }
                ],
            }
        ],
        "extenders": _extenders(url.rstrip("/"), barrier),
    }
    header = HEADER + ("" if barrier else SPLIT) + (ELECTION if lease else "")
    return header + yaml.safe_dump(document, sort_keys=False)


def _extenders(url: str, barrier: bool) -> list[dict[str, object]]:
    """One for all verbs, or one that binds some pods beside one for all the rest: two may not bind."""
    looks: dict[str, object] = {
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "preemptVerb": "preempt",
        "weight": 1,
    }
    binds: dict[str, object] = {"bindVerb": "bind"}
    marks: dict[str, object] = {"managedResources": [{"name": mark} for mark in MARKS]}
    common: dict[str, object] = {
        "enableHTTPS": False,
        "httpTimeout": "30s",
        "nodeCacheCapable": True,
        "ignorable": False,
    }
    if barrier:
        return [{"urlPrefix": url, **looks, **binds, **common}]
    return [
        {"urlPrefix": url + SELF_BINDING, **looks, **common},
        {"urlPrefix": url, **binds, **common, **marks},
    ]


def _election(lease: str, duration: int) -> dict[str, object]:
    """kube-scheduler's own proportions: it gives up after two thirds, and tries every seventh or so (15, 10, 2 s)."""
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
