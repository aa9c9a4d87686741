"""Measure what the admission policies cost the API server, write by write, without anything else that a pod causes.

    python -m benchmarks.policies [--writes 400] [--rounds 3] [--without fluence-stamps ...]

Every write is a dry run: it passes all of admission and is stored nowhere. The rounds have no policies and all of them
in turn, and with ``--without`` also all but the named ones.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import median

from rich.console import Console

from benchmarks.throughput.policies import ACCOUNT, POLICIES, POLICY_LAG, shipped
from benchmarks.throughput.usage import cpu_seconds
from benchmarks.throughput.workloads import STOCK, Manifest, pod
from fluence_extender.model.names import (
    COMPLETION_INDEX,
    DEFAULT_NAMESPACE,
    DIRECT_SCHEDULER_NAME,
    GATE,
    NODES_ANNOTATION,
    PLACED_ANNOTATION,
    SCHEDULER_NAME,
)
from tests.localcluster import Api, ControlPlane

NAMESPACE = "policies"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "owner", "uid": "1", "controller": True}
STRATEGIC = "application/strategic-merge-patch+json"
WRITERS = 3
FIRST = 60
"""Writes before the measured ones."""

Write = Callable[[int], object]


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--writes", type=int, default=400, help="of each kind in each round")
    parser.add_argument("--rounds", type=int, default=3, help="of which the middle one counts")
    parser.add_argument("--without", nargs="+", default=[], help="names of policies")
    arguments = parser.parse_args()
    everything = shipped(*POLICIES)
    contenders = {"no policies": [], "all policies": everything}
    if arguments.without:
        some = [one for one in everything if one["metadata"]["name"] not in arguments.without]
        contenders[f"without {' '.join(arguments.without)}"] = some
    console = Console()
    taken: dict[tuple[str, str], list[float]] = {}
    with ControlPlane() as plane:
        writes = _writes(plane)
        for number in range(arguments.rounds):
            for name in list(contenders)[:: 1 if number % 2 == 0 else -1]:
                for what, cost in _round(plane, contenders[name], writes, arguments.writes):
                    taken.setdefault((what, name), []).append(cost)
    console.print(f"| CPU of the API server, ms | {' | '.join(contenders)} |", markup=False, soft_wrap=True)
    console.print("|---|" + "---:|" * len(contenders), markup=False, soft_wrap=True)
    for what in writes:
        cells = " | ".join(f"{median(taken[what, name]):.2f}" for name in contenders)
        console.print(f"| {what} | {cells} |", markup=False, soft_wrap=True)


def _round(
    plane: ControlPlane, policies: Sequence[Manifest], writes: dict[str, Write], count: int
) -> list[tuple[str, float]]:
    """Return the milliseconds of each write under these policies."""
    for manifest in policies:
        plane.api.apply(manifest)
    time.sleep(POLICY_LAG)
    pid = plane.component("kube-apiserver").pid
    assert pid is not None
    found = []
    with ThreadPoolExecutor(WRITERS) as pool:
        for what, write in writes.items():
            list(pool.map(write, range(FIRST)))
            before = cpu_seconds(pid)
            list(pool.map(write, range(count)))
            found.append((what, (cpu_seconds(pid) - before) * 1000 / count))
    for manifest in policies:
        plane.api.delete(plane.api.path_of(manifest))
    return found


def _writes(plane: ControlPlane) -> dict[str, Write]:
    """Create the objects that are written to, and return the writes."""
    # It would delete the pod whose node doesn't exist.
    plane.component("kube-controller-manager").stop()
    admin = plane.api
    for manifest in shipped(*ACCOUNT):
        admin.apply(manifest)
    admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    service = Api(plane.kubeconfig_for_service_account(DEFAULT_NAMESPACE, "fluence"))
    controller = Api(plane.kubeconfig_for("system:kube-controller-manager", "system:masters"))
    bound, gated = pod("bound", DIRECT_SCHEDULER_NAME), pod("gated", SCHEDULER_NAME)
    bound["spec"]["nodeName"] = "node"
    gated["spec"]["schedulingGates"] = [{"name": GATE}]
    for one in (bound, gated):
        admin.create(one, NAMESPACE)
    ungated = {"spec": {"schedulingGates": [{"$patch": "delete", "name": GATE}]}}
    return {
        "a new pod of another scheduler": _creates(admin, _owned(pod("", STOCK))),
        "a new direct pod": _creates(admin, _owned(pod("", SCHEDULER_NAME))),
        "a new direct pod of a user": _creates(admin, _named(pod("", SCHEDULER_NAME))),
        "a new filtered pod": _creates(admin, _filtered(_owned(pod("", SCHEDULER_NAME)))),
        "a new pod that is created with its node": _creates(controller, _placed(pod("", SCHEDULER_NAME))),
        "the patch that removes the gate": lambda _: _patches(service, f"{PODS}/gated", ungated),
        "a label of a bound pod": lambda number: _patches(
            admin, f"{PODS}/bound", {"metadata": {"labels": {"seen": str(number)}}}
        ),
        "a status of a bound pod": lambda number: _patches(
            admin, f"{PODS}/bound/status", {"status": {"podIP": f"10.0.0.{number % 250}"}}
        ),
    }


def _named(manifest: Manifest) -> Manifest:
    del manifest["metadata"]["name"]
    manifest["metadata"]["generateName"] = "new-"
    return manifest


def _owned(manifest: Manifest) -> Manifest:
    manifest["metadata"]["ownerReferences"] = [OWNER]
    return _named(manifest)


def _filtered(manifest: Manifest) -> Manifest:
    manifest["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    return manifest


def _placed(manifest: Manifest) -> Manifest:
    """Return the pod as the Job controller creates it from a template that names fifty nodes."""
    nodes = ",".join(f"node-{number}" for number in range(50)) + ";2999-01-01T00:00:00Z"
    notes = {NODES_ANNOTATION: nodes, PLACED_ANNOTATION: "50 job/owner", COMPLETION_INDEX: "7"}
    manifest["metadata"] |= {"labels": {COMPLETION_INDEX: "7"}, "annotations": notes}
    return _owned(manifest)


def _creates(api: Api, manifest: Manifest) -> Write:
    return lambda _: api.request("POST", PODS, manifest, query={"dryRun": "All"})


def _patches(api: Api, path: str, body: object) -> object:
    return api.request("PATCH", path, body, query={"dryRun": "All"}, content_type=STRATEGIC)


if __name__ == "__main__":
    main()
