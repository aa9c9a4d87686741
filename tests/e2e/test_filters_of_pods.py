"""Rules about other pods against kube-scheduler's own filters, InterPodAffinity and PodTopologySpread.

A small program links the two filters and judges random clusters. Each verdict about each node has to be ours.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fluence_extender.cluster.decode.node import decode_node
from fluence_extender.cluster.decode.pod import decode_pod
from fluence_extender.placement.pod_rules import PodRules
from fluence_extender.room.kept_apart import KeptApart
from tests.go_programs import FLAGS, compiled

CASES = int(os.environ.get("FILTER_CASES", "12000"))
FOLDER = Path(__file__).parent / "filters"
Json = dict[str, Any]

APPS = ("a", "b", "c")
NAMESPACES = ("one", "two", "three")
KEYS = ("zone", "rack", "kubernetes.io/hostname")


def program() -> Path:
    """Return the program that judges by the real filters."""
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in sorted(FOLDER.iterdir())))
    return compiled("filters", FOLDER, digest.hexdigest()[:12], FLAGS)


def selector(dice: random.Random, key: str, values: tuple[str, ...]) -> Json | None:
    """A label selector, sometimes one that selects all or nothing."""
    kind = dice.random()
    if kind < 0.05:
        return None
    if kind < 0.12:
        return {}
    if kind < 0.6:
        return {"matchLabels": {key: dice.choice(values)}}
    operator = dice.choice(("In", "NotIn", "Exists", "DoesNotExist"))
    listed = {"values": dice.sample(values, dice.randint(1, 2))} if operator in ("In", "NotIn") else {}
    return {"matchExpressions": [{"key": key, "operator": operator, **listed}]}


def term(dice: random.Random) -> Json:
    """A term of required affinity or anti-affinity, as the API server stores it."""
    made: Json = {"topologyKey": dice.choice(KEYS), "labelSelector": selector(dice, "app", APPS)}
    if dice.random() < 0.2:
        made["namespaces"] = dice.sample(NAMESPACES, dice.randint(1, 2))
    if dice.random() < 0.2:
        made["namespaceSelector"] = selector(dice, "team", ("x", "y"))
    return made


def spread(dice: random.Random) -> Json:
    """A topology spread constraint."""
    made: Json = {
        "topologyKey": dice.choice(KEYS),
        "maxSkew": dice.randint(1, 3),
        "whenUnsatisfiable": dice.choice(("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway")),
        "labelSelector": selector(dice, "app", APPS),
    }
    if dice.random() < 0.3:
        made["minDomains"] = dice.randint(1, 5)
    for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if dice.random() < 0.4:
            made[policy] = dice.choice(("Honor", "Ignore"))
    if dice.random() < 0.25 and made["labelSelector"] is not None:
        made["matchLabelKeys"] = dice.sample(("hash", "missing"), dice.randint(1, 2))
    return made


def pod(dice: random.Random, name: str, ruled: float) -> Json:
    """A pod with rules of each kind with this probability."""
    labels = {"app": dice.choice(APPS), "hash": dice.choice("12")}
    if dice.random() < 0.1:
        del labels["app"]
    meta: Json = {"name": name, "namespace": dice.choice(NAMESPACES), "uid": name, "labels": labels}
    affinity: Json = {}
    for kind in ("podAffinity", "podAntiAffinity"):
        if dice.random() < ruled:
            terms = [term(dice) for _ in range(dice.choice((1, 1, 2)))]
            affinity[kind] = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    spec: Json = {"affinity": affinity, "containers": [{"name": "c"}]}
    if dice.random() < ruled:
        spec["topologySpreadConstraints"] = [spread(dice) for _ in range(dice.choice((1, 1, 2)))]
    if dice.random() < 0.3:
        spec["nodeSelector"] = {"disk": dice.choice(("fast", "slow"))}
    if dice.random() < 0.3:
        affinity["nodeAffinity"] = {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z0", "z1"]}]}
                ]
            }
        }
    if dice.random() < 0.3:
        spec["tolerations"] = [{"key": "only", "operator": "Exists"}]
    return {"metadata": meta, "spec": spec}


def node(dice: random.Random, name: str) -> Json:
    """A node, some without some labels."""
    labels = {
        "zone": f"z{dice.randint(0, 2)}",
        "rack": f"r{dice.randint(0, 3)}",
        "kubernetes.io/hostname": name,
    }
    labels["disk"] = dice.choice(("fast", "slow"))
    for key in KEYS:
        if dice.random() < 0.08:
            del labels[key]
    taints = [
        {"key": "only", "effect": dice.choice(("NoSchedule", "NoExecute", "PreferNoSchedule"))}
        for _ in range(dice.random() < 0.25)
    ]
    return {"metadata": {"name": name, "uid": name, "labels": labels}, "spec": {"taints": taints}}


def question(dice: random.Random) -> Json:
    """A cluster with pods that have their nodes, and a pod that wants one."""
    nodes = [node(dice, f"n{at}") for at in range(dice.randint(1, 8))]
    pods = []
    for at in range(dice.randint(0, 12)):
        made = pod(dice, f"p{at}", 0.3)
        made["spec"]["nodeName"] = dice.choice(nodes)["metadata"]["name"]
        if dice.random() < 0.15:
            made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        pods.append(made)
    namespaces = [
        {"metadata": {"name": name, "labels": {"team": dice.choice("xy")} if dice.random() < 0.8 else {}}}
        for name in NAMESPACES
    ]
    return {"namespaces": namespaces, "nodes": nodes, "pods": pods, "pod": pod(dice, "new", 0.6)}


def ours(asked: Json) -> set[str]:
    """Return the nodes that our rules refuse."""
    nodes = {one.name: one for one in (decode_node(json.dumps(raw).encode()) for raw in asked["nodes"])}
    kept = KeptApart(nodes)
    for namespace in asked["namespaces"]:
        kept.put_namespace(namespace["metadata"]["name"], namespace["metadata"]["labels"])
    for raw in asked["pods"]:
        placed = decode_pod(json.dumps(raw).encode())
        kept.put(placed, placed.node, bound=True)
    new = decode_pod(json.dumps(asked["pod"]).encode())
    allowed = PodRules([new], [*nodes], nodes, kept).allowed(0)
    return {name for name, may in zip(nodes, allowed.tolist(), strict=True) if not may}


def judged(asked: list[Json]) -> Iterator[set[str]]:
    """Yield for each question the nodes that one of the real filters refuses."""
    lines = "".join(json.dumps(one) + "\n" for one in asked)
    answers = subprocess.run([program()], input=lines, stdout=subprocess.PIPE, text=True, check=True).stdout
    for line in answers.splitlines():
        found = json.loads(line)
        yield {*found["affinity"], *found["spread"]}


def test_rules_about_other_pods_are_judged_as_by_kube_scheduler() -> None:
    asked = [question(random.Random(seed)) for seed in range(CASES)]
    wrong = [
        (seed, sorted(verdict), sorted(ours(one)))
        for seed, (one, verdict) in enumerate(zip(asked, judged(asked), strict=True))
        if ours(one) != verdict
    ]
    assert not wrong, f"{len(wrong)} of {CASES} differ: {wrong[:3]}"
