"""What must hold at a quiet point, computed from the API server's objects alone.

Each check takes plain values and returns a line for each violation.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from fluence_extender.model.assignment import recorded_devices
from tests.chaos.deeds import Create, Form
from tests.chaos.witness import workload_of
from tests.chaos.workloads import POOL
from tests.e2e.harness import Manifest, annotations_of, node_of, phase_of, summary
from tests.e2e.kubelet_admission import amounts, effective_requests
from tests.localcluster.nodes import is_ready

ENDED = ("Succeeded", "Failed")


def pool_of(node: Manifest) -> str:
    """Return the pool in a node's label."""
    return str((node["metadata"].get("labels") or {}).get(POOL, ""))


def is_going(pod: Manifest) -> bool:
    """Return whether the pod is being deleted."""
    return "deletionTimestamp" in pod["metadata"]


def is_alive(pod: Manifest) -> bool:
    """Return whether the pod hasn't ended and isn't being deleted."""
    return phase_of(pod) not in ENDED and not is_going(pod)


def by_workload(pods: Iterable[Manifest]) -> dict[str, list[Manifest]]:
    """Return the pods of each workload."""
    found: dict[str, list[Manifest]] = defaultdict(list)
    for pod in pods:
        found[workload_of(pod)].append(pod)
    return found


def half_placed(wanted: Mapping[str, Create], pods: Iterable[Manifest], whole: Collection[str]) -> list[str]:
    """Return the gangs that are bound in part, were never whole, and haven't been evicted."""
    found: list[str] = []
    for name, mine in by_workload(pods).items():
        what = wanted.get(name)
        if what is None or what.form is Form.FOREIGN or name in whole:
            continue
        bound = sum(1 for pod in mine if is_alive(pod) and node_of(pod))
        ended = sum(1 for pod in mine if phase_of(pod) == "Succeeded")
        if bound and bound + ended < what.members:
            found.append(f"half placed: {what}: {', '.join(map(summary, mine))}")
    return found


def refused_and_left(wanted: Mapping[str, Create], pods: Iterable[Manifest]) -> list[str]:
    """Return the gangs that run on although a kubelet refused one of their pods and nothing replaces it."""
    found: list[str] = []
    for name, mine in by_workload(pods).items():
        what = wanted.get(name)
        if what is None or what.form in (Form.FOREIGN, Form.JOB) or what.members == 1:
            continue
        refused = [pod for pod in mine if str(pod["status"].get("reason", "")).startswith("OutOf")]
        if refused and any(is_alive(pod) and node_of(pod) for pod in mine):
            found.append(f"runs on without a refused member: {what}: {', '.join(map(summary, mine))}")
    return found


def devices_held_twice(pods: Iterable[Manifest]) -> list[str]:
    """Return the devices that more than one bound pod got."""
    holders: dict[str, list[str]] = defaultdict(list)
    for pod in pods:
        if node_of(pod) and phase_of(pod) not in ENDED:
            for share in recorded_devices(annotations_of(pod)):
                holders[share.path].append(pod["metadata"]["name"])
    return [f"device {path} is held by {names}" for path, names in holders.items() if len(names) > 1]


def holders_of_withdrawn(pods: Iterable[Manifest], resources: str) -> set[str]:
    """Return the pods with a device that isn't in ``resources``, which a restarted service can't know."""
    found: set[str] = set()
    for pod in pods:
        devices = (share.path.rpartition("/")[2] for share in recorded_devices(annotations_of(pod)))
        if any(f"name: {device}}}" not in resources for device in devices):
            found.add(pod["metadata"]["name"])
    return found


def overfull(nodes: Mapping[str, Manifest], pods: Iterable[Manifest], excused: Collection[str]) -> list[str]:
    """Return the nodes whose pods request more than they have, except nodes that were made smaller under their pods."""
    used: dict[str, Counter[str]] = defaultdict(Counter)
    for pod in pods:
        if node_of(pod) and phase_of(pod) not in ENDED:
            used[node_of(pod)].update({**effective_requests(pod["spec"]), "pods": 1})
    found: list[str] = []
    for name, node in nodes.items():
        have = amounts(node["status"]["allocatable"])
        over = {key: used[name][key] - have[key] for key in have if used[name][key] > have[key]}
        if over and name not in excused:
            found.append(f"node {name} is overfull by {over}")
    return found


def outside_their_pool(
    wanted: Mapping[str, Create], nodes: Mapping[str, Manifest], pods: Iterable[Manifest]
) -> dict[str, str]:
    """Return the bound pods, by uid, on a node of another pool than they or the rest of their gang ask for."""
    found: dict[str, str] = {}
    for name, mine in by_workload(pods).items():
        what = wanted.get(name)
        if what is None or what.form not in (Form.POOL, Form.PACKED):
            continue
        bound = {pod["metadata"]["uid"]: pod for pod in mine if node_of(pod) in nodes and is_alive(pod)}
        pools = {uid: pool_of(nodes[node_of(pod)]) for uid, pod in bound.items()}
        ours = {what.pool} if what.pool else set(list(pools.values())[:1])
        found.update(
            (uid, f"outside its pool: {summary(bound[uid])} of {what}, in {pool}")
            for uid, pool in pools.items()
            if pool not in ours
        )
    return found


def waiting_although_it_fits(
    wanted: Mapping[str, Create],
    nodes: Mapping[str, Manifest],
    pods: Sequence[Manifest],
) -> list[str]:
    """Return the complete gangs of compute pods that have no bound pod although there is certainly room for them."""
    room = _room(nodes, pods)
    found: list[str] = []
    for name, mine in by_workload(pods).items():
        what = wanted.get(name)
        if what is None or what.form in (Form.FOREIGN, Form.QUANTUM):
            continue
        waiting = [pod for pod in mine if is_alive(pod) and not node_of(pod)]
        if len(waiting) < what.members or len(waiting) < len(mine):
            continue
        largest = max(effective_requests(pod["spec"])["cpu"] for pod in waiting)
        rooms: Counter[str] = Counter()
        for node, free in room.items():
            rooms[pool_of(nodes[node]) if what.form in (Form.POOL, Form.PACKED) else ""] += free // largest
        if (rooms[what.pool] if what.pool else max(rooms.values(), default=0)) >= len(waiting):
            found.append(f"waits although it fits: {what}: {', '.join(map(summary, mine))}")
    return found


def _room(nodes: Mapping[str, Manifest], pods: Iterable[Manifest]) -> dict[str, int]:
    """Return the free millicores of each node that takes pods."""
    room = {
        name: amounts(node["status"]["allocatable"])["cpu"]
        for name, node in nodes.items()
        if is_ready(node) and not node["spec"].get("unschedulable") and not node["spec"].get("taints")
    }
    for pod in pods:
        name = node_of(pod)
        if name in room and phase_of(pod) not in ENDED:
            room[name] -= effective_requests(pod["spec"]).get("cpu", 0)
    return {name: max(0, free) for name, free in room.items()}
