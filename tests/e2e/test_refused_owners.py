"""What is said to be wrong with the fields of objects that make pods is what a real API server says, and vice versa.

Each case is an object of a common form with a few fields in its spec or in its metadata replaced.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from fluence_extender.apiserver.faults import object_fault
from fluence_extender.kinds.pod_sets import BadManifest
from tests.e2e.harness import Manifest, Namespace
from tests.e2e.test_refused_manifests import read, refusal, template

DISRUPTED = {"type": "DisruptionTarget"}
SIDECAR = {"name": "side", "image": "x", "restartPolicy": "Always"}


def pf(*rules: Any) -> dict[str, Any]:
    """Return a podFailurePolicy of these rules."""
    return {"podFailurePolicy": {"rules": list(rules)}}


JOBS: dict[str, Any] = {
    "pf ignore": pf({"action": "Ignore", "onPodConditions": [DISRUPTED]}),
    "pf cond no type": pf({"action": "Ignore", "onPodConditions": [{"status": "True"}]}),
    "pf cond status": pf({"action": "Ignore", "onPodConditions": [{"type": "A", "status": "true"}]}),
    "pf lower": pf({"action": "ignore", "onPodConditions": [DISRUPTED]}),
    "pf no action": pf({"onPodConditions": [DISRUPTED]}),
    "pf none": pf({"action": "Ignore"}),
    "pf both": pf(
        {"action": "Ignore", "onPodConditions": [DISRUPTED], "onExitCodes": {"operator": "In", "values": [1]}}
    ),
    "pf exit": pf(
        {"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "In", "values": [1, 2]}}
    ),
    "pf exit 0 in": pf({"action": "FailJob", "onExitCodes": {"operator": "In", "values": [0]}}),
    "pf exit 0 notin": pf({"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [0]}}),
    "pf exit unsorted": pf({"action": "FailJob", "onExitCodes": {"operator": "In", "values": [2, 1]}}),
    "pf exit dup": pf({"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1, 1]}}),
    "pf exit empty": pf({"action": "FailJob", "onExitCodes": {"operator": "In", "values": []}}),
    "pf exit op": pf({"action": "FailJob", "onExitCodes": {"operator": "Equal", "values": [1]}}),
    "pf exit noop": pf({"action": "FailJob", "onExitCodes": {"values": [1]}}),
    "pf exit container": pf(
        {"action": "FailJob", "onExitCodes": {"containerName": "other", "operator": "In", "values": [1]}}
    ),
    "pf exit text": pf({"action": "FailJob", "onExitCodes": {"operator": "In", "values": ["1"]}}),
    "pf failindex": {**pf({"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [1]}})},
    "pf failindex ok": {
        "completionMode": "Indexed",
        "backoffLimitPerIndex": 1,
        **pf({"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [1]}}),
    },
    "pf empty": {"podFailurePolicy": {}},
    "pf empty rules": {"podFailurePolicy": {"rules": []}},
    "pf many": pf(*[{"action": "Ignore", "onPodConditions": [DISRUPTED]}] * 21),
    "pf list": {"podFailurePolicy": [{"action": "Ignore", "onPodConditions": [DISRUPTED]}]},
    "pf replacement any": {
        "podReplacementPolicy": "TerminatingOrFailed",
        **pf({"action": "Ignore", "onPodConditions": [DISRUPTED]}),
    },
    "pf replacement failed": {
        "podReplacementPolicy": "Failed",
        **pf({"action": "Ignore", "onPodConditions": [DISRUPTED]}),
    },
    "repl": {"podReplacementPolicy": "Failed"},
    "repl t": {"podReplacementPolicy": "TerminatingOrFailed"},
    "repl bad": {"podReplacementPolicy": "failed"},
    "repl empty": {"podReplacementPolicy": ""},
    "sp index": {"completionMode": "Indexed", "successPolicy": {"rules": [{"succeededIndexes": "0"}]}},
    "sp count": {"completionMode": "Indexed", "successPolicy": {"rules": [{"succeededCount": 1}]}},
    "sp both": {
        "completionMode": "Indexed",
        "successPolicy": {"rules": [{"succeededIndexes": "0-1", "succeededCount": 1}]},
    },
    "sp nonindexed": {"successPolicy": {"rules": [{"succeededCount": 1}]}},
    "sp empty": {"completionMode": "Indexed", "successPolicy": {"rules": []}},
    "sp none": {"completionMode": "Indexed", "successPolicy": {}},
    "sp rule none": {"completionMode": "Indexed", "successPolicy": {"rules": [{}]}},
    "sp count high": {"completionMode": "Indexed", "successPolicy": {"rules": [{"succeededCount": 3}]}},
    "sp count 0": {"completionMode": "Indexed", "successPolicy": {"rules": [{"succeededCount": 0}]}},
    "sp count over idx": {
        "completionMode": "Indexed",
        "successPolicy": {"rules": [{"succeededIndexes": "0", "succeededCount": 2}]},
    },
    "sp index high": {"completionMode": "Indexed", "successPolicy": {"rules": [{"succeededIndexes": "2"}]}},
    "sp index bad": {"completionMode": "Indexed", "successPolicy": {"rules": [{"succeededIndexes": "a"}]}},
    "sp index desc": {"completionMode": "Indexed", "successPolicy": {"rules": [{"succeededIndexes": "1-0"}]}},
    "sp index same": {"completionMode": "Indexed", "successPolicy": {"rules": [{"succeededIndexes": "1-1"}]}},
    "sp index list": {"completionMode": "Indexed", "successPolicy": {"rules": [{"succeededIndexes": [0]}]}},
    "sp index num": {"completionMode": "Indexed", "successPolicy": {"rules": [{"succeededIndexes": 0}]}},
    "sp index unordered": {
        "completionMode": "Indexed",
        "successPolicy": {"rules": [{"succeededIndexes": "1,0"}]},
    },
    "sp index empty": {"completionMode": "Indexed", "successPolicy": {"rules": [{"succeededIndexes": ""}]}},
    "sp index blank": {
        "completionMode": "Indexed",
        "successPolicy": {"rules": [{"succeededIndexes": "0, 1"}]},
    },
    "bpi neg": {"completionMode": "Indexed", "backoffLimitPerIndex": -1},
    "bpi max": {"completionMode": "Indexed", "backoffLimitPerIndex": 1, "maxFailedIndexes": 1},
    "bpi max neg": {"completionMode": "Indexed", "backoffLimitPerIndex": 1, "maxFailedIndexes": -1},
    "bpi max many": {"completionMode": "Indexed", "backoffLimitPerIndex": 1, "maxFailedIndexes": 3},
    "max alone": {"completionMode": "Indexed", "maxFailedIndexes": 1},
    "max nonidx": {"maxFailedIndexes": 1},
    "max 1e5+": {
        "completionMode": "Indexed",
        "completions": 200000,
        "parallelism": 20000,
        "backoffLimitPerIndex": 1,
        "maxFailedIndexes": 1,
    },
    "bpi 200000": {
        "completionMode": "Indexed",
        "completions": 200000,
        "parallelism": 10,
        "backoffLimitPerIndex": 1,
        "maxFailedIndexes": 10,
    },
    "bpi 200000 no max": {
        "completionMode": "Indexed",
        "completions": 200000,
        "parallelism": 10,
        "backoffLimitPerIndex": 1,
    },
    "bpi 200000 max 20000": {
        "completionMode": "Indexed",
        "completions": 200000,
        "parallelism": 10,
        "backoffLimitPerIndex": 1,
        "maxFailedIndexes": 20000,
    },
    "idx par": {"completionMode": "Indexed", "completions": 200000, "parallelism": 100001},
    "ttl": {"ttlSecondsAfterFinished": 100},
    "ttl neg": {"ttlSecondsAfterFinished": -1},
    "ttl text": {"ttlSecondsAfterFinished": "1h"},
    "mode bad": {"completionMode": "indexed"},
    "mode empty": {"completionMode": ""},
    "managedBy": {"managedBy": "example.com/x"},
    "managedBy bad": {"managedBy": "x"},
    "managedBy kueue": {"managedBy": "kueue.x-k8s.io/multikueue"},
    "managedBy long": {"managedBy": "a.b/" + "x" * 64},
    "backoff big": {"backoffLimit": 2**31},
    "parallel big": {"parallelism": 2**31},
    "deadline 0": {"activeDeadlineSeconds": 0},
    "manual false": {"manualSelector": False},
    "status in spec": {"status": {}},
    "selector bad": {
        "manualSelector": True,
        "selector": {"matchLabels": {"app": "tried"}, "matchExpressions": [{"key": "app", "operator": "Is"}]},
    },
    "labels own": {
        "template": {**template("Never"), "metadata": {"labels": {"app": "tried", "job-name": "x"}}}
    },
    "labels ctrl uid": {
        "template": {
            **template("Never"),
            "metadata": {"labels": {"app": "tried", "batch.kubernetes.io/controller-uid": "x"}},
        }
    },
    "template name": {"template": {**template("Never"), "metadata": {"name": "x"}}},
    "template name bool": {"template": {**template("Never"), "metadata": {"name": True}}},
    "sidecar": {"template": {"spec": {**template("Never")["spec"], "initContainers": [SIDECAR]}}},
    "pf exit init": {
        "template": {"spec": {**template("Never")["spec"], "initContainers": [{"name": "i", "image": "x"}]}},
        **pf({"action": "FailJob", "onExitCodes": {"containerName": "i", "operator": "In", "values": [1]}}),
    },
}

CRON_JOBS: dict[str, Any] = {
    "usual": {},
    "tz": {"timeZone": "Europe/Berlin"},
    "tz local": {"timeZone": "Local"},
    "tz empty": {"timeZone": ""},
    "tz TZ": {"timeZone": "CET"},
    "tz in schedule": {"schedule": "TZ=UTC 0 3 * * *"},
    "crontz": {"schedule": "CRON_TZ=UTC 0 3 * * *"},
    "sched 6": {"schedule": "0 0 3 * * *"},
    "sched 4": {"schedule": "0 3 * *"},
    "sched daily": {"schedule": "@daily"},
    "sched bad@": {"schedule": "@dayly"},
    "sched every": {"schedule": "@every 1h"},
    "sched every bad": {"schedule": "@every 1x"},
    "sched 60": {"schedule": "60 3 * * *"},
    "sched step": {"schedule": "*/15 0-5,9 1 JAN-MAR MON"},
    "sched word": {"schedule": "never"},
    "sched 7": {"schedule": "0 0 * * 7"},
    "sched step0": {"schedule": "*/0 * * * *"},
    "sched desc": {"schedule": "5-1 * * * *"},
    "sched ?": {"schedule": "0 0 ? * *"},
    "sched L": {"schedule": "0 0 L * *"},
    "sched dom0": {"schedule": "0 0 0 * *"},
    "sched lead blank": {"schedule": " 0 3 * * * "},
    "sched lower": {"schedule": "0 0 * jan sun"},
    "sched longname": {"schedule": "0 0 * january *"},
    "sched never": {"schedule": "0 0 31 2 *"},
    "sched 5/": {"schedule": "5/10 * * * *"},
    "sched num": {"schedule": 5},
    "sched big step": {"schedule": "*/90 * * * *"},
    "sched dbl": {"schedule": "0  3 * * *"},
    "sched star": {"schedule": "0 3 *-5 * *"},
    "sched comma": {"schedule": "1,,2 * * * *"},
    "sched @reboot": {"schedule": "@reboot"},
    "conc": {"concurrencyPolicy": "Forbid"},
    "conc bad": {"concurrencyPolicy": "forbid"},
    "conc empty": {"concurrencyPolicy": ""},
    "hist neg": {"successfulJobsHistoryLimit": -1},
    "fhist neg": {"failedJobsHistoryLimit": -1},
    "start neg": {"startingDeadlineSeconds": -1},
    "start 0": {"startingDeadlineSeconds": 0},
    "suspend": {"suspend": True},
    "jobTemplate none": {"jobTemplate": None},
    "jobTemplate spec none": {"jobTemplate": {}},
    "misplaced template": {"template": template("Never")},
}

SETS: dict[str, Any] = {
    "rolling": {
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}}
    },
    "rolling both 0": {
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}
    },
    "rolling both 0%": {"strategy": {"rollingUpdate": {"maxSurge": "0%", "maxUnavailable": "0%"}}},
    "rolling surge 0": {"strategy": {"rollingUpdate": {"maxSurge": 0}}},
    "rolling bad": {"strategy": {"rollingUpdate": {"maxSurge": "25"}}},
    "rolling 101%": {"strategy": {"rollingUpdate": {"maxUnavailable": "101%"}}},
    "rolling neg": {"strategy": {"rollingUpdate": {"maxSurge": -1}}},
    "recreate": {"strategy": {"type": "Recreate"}},
    "recreate+rolling": {"strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}},
    "strategy bad": {"strategy": {"type": "recreate"}},
    "strategy text": {"strategy": "Recreate"},
    "progress": {"progressDeadlineSeconds": 600},
    "progress<minready": {"progressDeadlineSeconds": 5, "minReadySeconds": 10},
    "progress neg": {"progressDeadlineSeconds": -1},
    "minready neg": {"minReadySeconds": -1},
    "rev neg": {"revisionHistoryLimit": -1},
    "paused": {"paused": True},
    "updateStrategy": {"updateStrategy": {"type": "RollingUpdate"}},
    "minready 600": {"minReadySeconds": 600},
    "deadline": {
        "template": {**template(None), "spec": {**template(None)["spec"], "activeDeadlineSeconds": 5}}
    },
    "sel expr": {"selector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["tried"]}]}},
    "sel expr other": {
        "selector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["other"]}]}
    },
    "sel expr exists": {"selector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}},
    "sel expr notexists": {"selector": {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}},
    "sel expr notin": {
        "selector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["tried"]}]}
    },
    "sel expr op": {
        "selector": {"matchExpressions": [{"key": "app", "operator": "in", "values": ["tried"]}]}
    },
    "sel expr novalues": {"selector": {"matchExpressions": [{"key": "app", "operator": "In"}]}},
    "sel value bad": {
        "selector": {"matchLabels": {"app": "a b"}},
        "template": {**template(None), "metadata": {"labels": {"app": "a b"}}},
    },
    "template no labels": {"template": {"spec": template(None)["spec"]}},
}

STATEFUL_SETS: dict[str, Any] = {
    "svc": {"serviceName": "x"},
    "ordinals": {"ordinals": {"start": 1}},
    "ordinals neg": {"ordinals": {"start": -1}},
    "ordinals num": {"ordinals": 1},
    "pvc ret": {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Retain"}},
    "pvc ret bad": {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "delete"}},
    "pvc ret one": {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}},
    "pvc ret text": {"persistentVolumeClaimRetentionPolicy": "Delete"},
    "upd": {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}},
    "upd ondelete": {"updateStrategy": {"type": "OnDelete"}},
    "upd ondelete rolling": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": {"partition": 1}}},
    "upd recreate": {"updateStrategy": {"type": "Recreate"}},
    "upd part neg": {"updateStrategy": {"rollingUpdate": {"partition": -1}}},
    "upd mu 0": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 0}}},
    "upd mu": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": "50%"}}},
    "pmp": {"podManagementPolicy": "Parallel"},
    "pmp bad": {"podManagementPolicy": "parallel"},
    "strategy": {"strategy": {"type": "Recreate"}},
    "minready neg": {"minReadySeconds": -1},
    "rev neg": {"revisionHistoryLimit": -1},
    "vct": {
        "volumeClaimTemplates": [
            {
                "metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            }
        ]
    },
    "vct nosize": {
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]
    },
    "vct nomode": {
        "volumeClaimTemplates": [
            {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}
        ]
    },
    "vct badmode": {
        "volumeClaimTemplates": [
            {
                "metadata": {"name": "data"},
                "spec": {"accessModes": ["RWX"], "resources": {"requests": {"storage": "1Gi"}}},
            }
        ]
    },
    "vct bad size": {
        "volumeClaimTemplates": [
            {
                "metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1GB!"}}},
            }
        ]
    },
    "vct map": {"volumeClaimTemplates": {"metadata": {"name": "data"}}},
    "vct noname": {
        "volumeClaimTemplates": [
            {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
        ]
    },
    "vct storage misspelt": {
        "volumeClaimTemplates": [
            {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClass": "x"}}
        ]
    },
    "mount of vct": {
        "template": {
            **template(None),
            "spec": {
                "containers": [
                    {"name": "main", "image": "none", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}
                ]
            },
        },
        "volumeClaimTemplates": [
            {
                "metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            }
        ],
    },
}

METADATA: dict[str, Any] = {
    "name as number": {"name": 5},
    "name as truth": {"name": True},
    "name as untruth": {"name": False},
    "name as list": {"name": ["a"]},
    "name with dots": {"name": "a.b"},
    "name that begins with a digit": {"name": "1a"},
    "name with a dash at its end": {"name": "a-"},
    "misspelt labels": {"label": {"a": "b"}},
    "labels as list": {"labels": ["a"]},
    "prefix as number": {"generateName": 5, "name": None},
    "prefix as untruth": {"generateName": False, "name": None},
    "prefix in capitals beside a name": {"generateName": "UPPER"},
    "prefix of a dash": {"generateName": "-", "name": None},
    "prefix with a dash": {"generateName": "a-", "name": None},
    "prefix with two dashes": {"generateName": "a--", "name": None},
    "prefix with a point": {"generateName": "a.", "name": None},
    "large annotation": {"annotations": {"a": "x" * 300_000}},
    **{f"name of {size}": {"name": "n" * size} for size in (52, 53, 58, 63, 64, 253, 254)},
    **{
        f"prefix of {size}": {"generateName": "n" * size, "name": None}
        for size in (46, 47, 48, 51, 52, 58, 59, 63, 64, 250)
    },
}


def objects() -> Iterator[tuple[str, Manifest]]:
    """Yield objects, half of which have one fault."""
    job = {"completions": 2, "parallelism": 2, "template": template("Never")}
    cron = {"schedule": "0 3 * * *", "jobTemplate": {"spec": job}}
    usual = {"selector": {"matchLabels": {"app": "tried"}}, "template": template(None)}
    made: dict[str, tuple[str, dict[str, Any]]] = {"Job": ("batch/v1", job), "CronJob": ("batch/v1", cron)}
    made |= {kind: ("apps/v1", usual) for kind in ("Deployment", "ReplicaSet", "StatefulSet")}
    changes = [("Job", name, fields) for name, fields in JOBS.items()]
    changes += [
        ("CronJob", f"Job {name}", {"jobTemplate": {"spec": {**job, **fields}}})
        for name, fields in JOBS.items()
        if not name.startswith("labels")
    ]
    changes += [("CronJob", name, fields) for name, fields in CRON_JOBS.items()]
    changes += [
        (kind, name, fields)
        for kind in ("Deployment", "ReplicaSet", "StatefulSet")
        for name, fields in SETS.items()
    ]
    changes += [("StatefulSet", name, fields) for name, fields in STATEFUL_SETS.items()]
    for kind, name, fields in changes:
        api, spec = made[kind]
        meta = {"name": "tried"}
        yield (
            f"{kind} {name}",
            {"apiVersion": api, "kind": kind, "metadata": meta, "spec": {**spec, **copy.deepcopy(fields)}},
        )
    for last, size in ((0, 61), (0, 62), (9, 61), (10, 60), (10, 61), (-1, 63)):
        spec = {**job, "completionMode": "Indexed", "completions": last + 1}
        meta = {"name": "n" * size}
        yield (
            f"Job of {last + 1} indexes and a name of {size}",
            {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec},
        )
    for kind, (api, spec) in made.items():
        for name, fields in METADATA.items():
            meta = {"name": "tried", **fields}
            yield (
                f"{kind} {name}",
                {"apiVersion": api, "kind": kind, "metadata": meta, "spec": copy.deepcopy(spec)},
            )


def said(manifest: Manifest) -> str:
    """Return why the object is called faulty, "" if it isn't."""
    try:
        return object_fault(read(manifest))
    except BadManifest as error:
        return str(error)


def test_objects_are_called_faulty_that_the_api_server_refuses(namespace: Namespace) -> None:
    disagreements = {}
    for name, manifest in objects():
        real, ours = refusal(namespace, manifest), said(manifest)
        if bool(real) is not bool(ours):
            disagreements[name] = real, ours
    assert disagreements == {}, disagreements
