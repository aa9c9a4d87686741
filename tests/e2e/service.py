"""The service as tests see it from outside: its state API, and what that must agree on with the cluster."""

from __future__ import annotations

import json
import urllib.request
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families

from fluence_extender.model.gang import HistoryKind
from fluence_extender.model.names import (
    ALLOCATION_ANNOTATION,
    BACKEND_ANNOTATION,
    RESOURCE_PREFIX,
    SCHEDULER_NAMES,
    STATE_GROUP,
)
from fluence_extender.objects.devices import CLASS_RESOURCE_PREFIX, EXTENDED_CLAIM
from tests.e2e.harness import LONGEST, Cluster, Manifest, annotations_of, node_of, phase_of, wait_for
from tests.e2e.kubelet_admission import Amounts, amounts, effective_requests
from tests.localcluster import Api, ControlPlane
from tests.localcluster.stack import unverified

Fetch = Callable[[str], str]

AGGREGATED = f"/apis/{STATE_GROUP}"
PROBED = "/api/v1/namespaces/fluence-system/services/https:fluence:api/proxy"
PROBES = ("/healthz", "/readyz")
CLAIMS = "/apis/resource.k8s.io/v1/resourceclaims"
STANDBY = ('"leading":false', "fluence_leader 0.0")
"""What only a standby's documents and metrics have."""


def over_http(url: Callable[[], str], token: str = "") -> Fetch:
    """Asks the service at ``url()``, which may change from one test to the next, as the user of ``token``."""

    def fetch(path: str) -> str:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        request = urllib.request.Request(f"{url()}{path}", headers=headers)
        with urllib.request.urlopen(request, timeout=60, context=unverified()) as answer:
            return str(answer.read().decode())

    return fetch


def admin_token(plane: ControlPlane) -> str:
    """The admin's bearer token."""
    document = yaml.safe_load(plane.kubeconfig.read_text())
    return str(document["users"][0]["user"]["token"])


def through_api_server(api: Api) -> Fetch:
    """Asks the replica that leads in the cluster, through the API server; probes answer of any replica."""

    def ask(path: str) -> str:
        answer = api.get(path)
        body = answer["text"] if set(answer) == {"text"} else answer
        return body if isinstance(body, str) else json.dumps(body, separators=(",", ":"))

    def leads(path: str) -> str:
        body = ask(path)
        return "" if any(sign in body for sign in STANDBY) else body

    def fetch(path: str) -> str:
        if path in PROBES:
            return ask(f"{PROBED}{path}")
        below = path if path.startswith("/v1/") else f"/v1{path}"
        return wait_for(lambda: leads(f"{AGGREGATED}{below}"), LONGEST, "the leader to answer")

    return fetch


class Fluence:
    """The state API."""

    def __init__(self, fetch: Fetch) -> None:
        self.text = fetch

    def get(self, path: str) -> Any:
        """A JSON document."""
        return json.loads(self.text(path))

    def items(self, path: str) -> list[Manifest]:
        """The items of a list."""
        found: list[Manifest] = self.get(path)["items"]
        return found

    def gangs(self, namespace: str = "") -> list[Manifest]:
        """All gangs, or those of one namespace."""
        return self.items(f"/v1/gangs?namespace={namespace}")

    def gang(self, namespace: str, name: str) -> Manifest | None:
        """One gang, None while it isn't known."""
        found = [one for one in self.gangs(namespace) if one["name"] == name]
        assert len(found) <= 1, found
        return found[0] if found else None

    def allocations(self, namespace: str = "") -> list[Manifest]:
        """What pods hold, or those of one namespace."""
        return self.items(f"/v1/allocations?namespace={namespace}")

    def metric(self, name: str, **labels: str) -> float:
        """The value of one sample; 0 where there is none."""
        for family in text_string_to_metric_families(self.text("/metrics")):
            for sample in family.samples:
                if sample.name == name and labels.items() <= sample.labels.items():
                    return float(sample.value)
        return 0.0

    def wait_for_state(self, namespace: str, name: str, state: str, timeout: float = LONGEST) -> Manifest:
        """The gang once it is in ``state``."""

        def reached() -> Manifest | None:
            found = self.gang(namespace, name)
            return found if found is not None and found["state"] == state else None

        found = wait_for(
            reached, timeout, f"gang {name} to be {state}", lambda: self.gang(namespace, name) or "unknown"
        )
        assert found is not None
        return found

    def wait_for_reason(self, namespace: str, name: str, reason: str, timeout: float = LONGEST) -> Manifest:
        """The gang once it waits for a reason that begins with ``reason``."""

        def reached() -> Manifest | None:
            found = self.gang(namespace, name)
            return found if found is not None and found["reason"].startswith(reason) else None

        found = wait_for(
            reached,
            timeout,
            f"gang {name} to say {reason!r}",
            lambda: self.gang(namespace, name) or "unknown",
        )
        assert found is not None
        return found

    def wait_for_nodes(self, names: Collection[str]) -> None:
        """Wait until the service knows exactly these nodes; pods may be seen before what happened to nodes earlier."""

        def known() -> set[str]:
            return {one["name"] for one in self.items("/v1/nodes")}

        wait_for(lambda: known() == set(names), what=f"the service to know {sorted(names)}", seen=known)

    def wait_for_problem(self, node: str, problem: str) -> None:
        """Wait until the service knows why a node is closed."""

        def problems() -> list[str]:
            return list(self.get(f"/v1/nodes/{node}")["problems"])

        wait_for(lambda: problem in problems(), what=f"{node} to be {problem}", seen=problems)

    def happened(self, namespace: str, name: str) -> list[tuple[str, str]]:
        """What happened to a gang, in order: what, and to which pod ("": to all of it)."""
        story = self.get(f"/v1/gangs/{namespace}/{name}")["history"]
        return [(one["what"], one["pod"]) for one in story]


def bound_at_once(fluence: Fluence, namespace: str, name: str) -> bool:
    """Whether every member of a small gang had been asked for by kube-scheduler before the first was bound.

    That is what can be promised; how long the Bindings then take is the machine's matter.
    """
    happened = fluence.happened(namespace, name)
    members = {pod for what, pod in happened if what == HistoryKind.BOUND}
    first = min(number for number, (what, _) in enumerate(happened) if what == HistoryKind.BOUND)
    return members <= {pod for what, pod in happened[:first] if what == HistoryKind.FILTERED}


def placed_at_once(fluence: Fluence, namespace: str, name: str) -> bool:
    """Whether the gang had all its places before the first member was bound.

    That is what can be promised of members that kube-scheduler binds itself.
    """
    happened = fluence.happened(namespace, name)
    first = min(number for number, (what, _) in enumerate(happened) if what == HistoryKind.BOUND)
    return (HistoryKind.PLANNED, "") in happened[:first]


def backends(fluence: Fluence) -> set[str]:
    """The names of the top-level virtual resources in the graph."""
    vertices = fluence.get("/v1/graph")["graph"]["nodes"]
    marks = (one["metadata"].get("properties") or {} for one in vertices)
    prefix = f"{RESOURCE_PREFIX}backend="
    return {
        mark.removeprefix(prefix) for properties in marks for mark in properties if mark.startswith(prefix)
    }


def discrepancies(cluster: Cluster, fluence: Fluence) -> list[str]:
    """Where the ledger and the cluster differ.

    Each bound pod of ours has exactly one allocation, of its node and its effective requests; nobody else has one but
    pods that wait for their node; each living pod of ours is a member of one gang; no node holds more than it has.
    """
    pods = [pod for pod in cluster.pods() if phase_of(pod) not in ("Succeeded", "Failed")]
    ours = {pod["metadata"]["uid"]: pod for pod in pods if pod["spec"]["schedulerName"] in SCHEDULER_NAMES}
    claimed = devices_by_class(cluster.api.get(CLAIMS)["items"])
    return [
        *_holds(ours, fluence.allocations(), claimed),
        *_members(ours, fluence.gangs()),
        *_sums(cluster, pods),
    ]


def devices_by_class(claims: Iterable[Manifest]) -> dict[str, Counter[str]]:
    """How many devices of each class claims have, by the uid of the first pod that each is reserved for.

    Claims that kube-scheduler made of extended resources are left out: their pods request these by name. So are devices
    for administrators, which others may have.
    """
    found: dict[str, Counter[str]] = {}
    for claim in claims:
        if EXTENDED_CLAIM in claim["metadata"].get("annotations", {}):
            continue
        users = [one["uid"] for one in claim.get("status", {}).get("reservedFor", [])]
        asked = {
            (one["name"], choice.get("name", "")): choice["deviceClassName"]
            for one in claim["spec"]["devices"]["requests"]
            for choice in one.get("firstAvailable") or [{**one["exactly"], "name": ""}]
        }
        for result in claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", []):
            if result.get("adminAccess"):
                continue
            request, _, choice = result["request"].partition("/")
            for uid in sorted(users)[:1]:
                found.setdefault(uid, Counter())[f"{CLASS_RESOURCE_PREFIX}{asked[request, choice]}"] += 1
    return found


def _holds(
    ours: Mapping[str, Manifest], held: Iterable[Manifest], claimed: Mapping[str, Counter[str]]
) -> list[str]:
    found: list[str] = []
    by_uid: dict[str, Manifest] = {}
    for one in held:
        if one["uid"] in by_uid:
            found.append(f"{one['pod']} is booked twice")
        by_uid[one["uid"]] = one
        if one["uid"] not in ours:
            found.append(f"{one['namespace']}/{one['pod']} is gone and still holds {one}")
    for uid, pod in ours.items():
        if not node_of(pod):
            continue
        if uid not in by_uid:
            found.append(f"{pod['metadata']['name']} is bound to {node_of(pod)} and holds nothing")
            continue
        due = _due(pod)
        due["devices"] = {**due["devices"], **claimed.get(uid, {})}
        if _share(by_uid[uid]) != due:
            found.append(f"{pod['metadata']['name']} holds {_share(by_uid[uid])}, not {due}")
    return found


def _share(allocation: Manifest) -> dict[str, object]:
    """An allocation in the units of `_due`."""
    return {
        "node": allocation["node"],
        "cpu": round(allocation["core"] * 1000),
        "memory": allocation["memory"],
        "gpu": allocation["gpu"],
        "devices": allocation["devices"],
        "backend": allocation["backend"],
    }


def _due(pod: Manifest) -> dict[str, Any]:
    """What a bound pod must hold, from its spec, its node and what its Binding wrote."""
    asked = effective_requests(pod["spec"])
    virtual = {
        name.removeprefix(RESOURCE_PREFIX): amount
        for name, amount in asked.items()
        if name.startswith(RESOURCE_PREFIX)
    }
    notes = annotations_of(pod)
    if ALLOCATION_ANNOTATION in notes:
        assert json.loads(notes[ALLOCATION_ANNOTATION])["node"] == node_of(pod)
    return {
        "node": node_of(pod),
        "cpu": asked.get("cpu", 0),
        "memory": asked.get("memory", 0),
        "gpu": sum(amount for name, amount in asked.items() if name.endswith("/gpu")),
        "devices": virtual,
        "backend": notes.get(BACKEND_ANNOTATION, ""),
    }


def _members(ours: Mapping[str, Manifest], gangs: Iterable[Manifest]) -> list[str]:
    found: list[str] = []
    members = [member for one in gangs for member in one["members"]]
    counted = Counter(member["uid"] for member in members)
    for uid, pod in ours.items():
        if counted[uid] != 1:
            found.append(f"{pod['metadata']['name']} is a member of {counted[uid]} gangs")
    for member in members:
        pod = ours.get(member["uid"], {"spec": {}})
        if node_of(pod) and member["node"] != node_of(pod):
            found.append(f"gang member {member} is bound to {node_of(pod)}")
    return found


def _sums(cluster: Cluster, pods: Iterable[Manifest]) -> list[str]:
    used: dict[str, Counter[str]] = {}
    for pod in pods:
        if node_of(pod):
            asked: Amounts = {**effective_requests(pod["spec"]), "pods": 1}
            used.setdefault(node_of(pod), Counter()).update(asked)
    found: list[str] = []
    for name, node in cluster.nodes().items():
        have = amounts(node["status"]["allocatable"])
        found += [
            f"node {name} has {have[key]} {key} and its pods ask for {amount}"
            for key, amount in used.get(name, Counter()).items()
            if key in have and amount > have[key]
        ]
    return found
