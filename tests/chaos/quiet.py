"""Quiet points: everything is repaired, so within a limited time all checks must hold, and nothing may be left over.

The checks read the API server's objects, what the service says that it holds, which pods kubelets refused, and the
service's own count of drift.
"""

from __future__ import annotations

import time
import urllib.error
from contextlib import suppress
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from fluence_extender.model.names import RESOURCES_CONFIGMAP, RESOURCES_KEY
from tests.chaos.deeds import Create, NodeChange
from tests.chaos.stage import PODS, Stage
from tests.chaos.truth import (
    devices_held_twice,
    half_placed,
    holders_of_withdrawn,
    outside_their_pool,
    overfull,
    refused_and_left,
    waiting_although_it_fits,
)
from tests.chaos.witness import Witness
from tests.e2e.harness import Manifest, node_of
from tests.e2e.judge import Violation
from tests.e2e.service import Fluence, discrepancies
from tests.localcluster import ApiError

DRIFT = "fluence_drift"
DEFECTS = ("Traceback", "planning failed")
CALM = 3
"""How many checks in a row must find nothing."""
EVERY = 0.4


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a quiet point found: violations, refused pods with the reason, and how many seconds it took."""

    violations: tuple[str, ...]
    explained: tuple[str, ...]
    seconds: float


@dataclass(slots=True)
class Quiet:
    """Checks ``stage``; ``wanted`` are the workloads that users want, ``patience`` is in seconds."""

    stage: Stage
    wanted: dict[str, Create]
    witness: Witness
    patience: float
    excused: set[str] = field(default_factory=set)
    revived: list[str] = field(default_factory=list)
    drift: float = 0.0
    _strayed: set[str] = field(default_factory=set)
    _drift_seen: dict[int, float] = field(default_factory=dict)
    _judged: int = 0

    def point(self, disturbed: dict[str, list[NodeChange]]) -> Outcome:
        """Wait until all checks hold or the time is over."""
        began = time.monotonic()
        self.excused |= made_smaller(disturbed)
        moved = any(NodeChange.RELABEL in changes for changes in disturbed.values())
        calm, found = 0, ["nothing was looked at"]
        while calm < CALM and time.monotonic() - began < self.patience:
            time.sleep(EVERY)
            found = self._look(moved)
            calm = 0 if found else calm + 1
        seconds = time.monotonic() - began
        self.stage.cluster.judge.settle()
        refused, explained = self._refusals(disturbed)
        drifted = self._drifted()
        self.excused &= self._overfull_now()
        return Outcome((*found, *refused, *drifted, *self._defects()), tuple(explained), seconds)

    def note_drift(self, replica: int) -> None:
        """Add the drift that a replica has counted since the last call; call it before the replica ends, too."""
        with suppress(OSError, urllib.error.URLError):
            now, before = drift_of(self.stage.replicas[replica].fluence), self._drift_seen.get(replica, 0.0)
            self.drift += now - before if now >= before else now
            self._drift_seen[replica] = now

    def _look(self, moved: bool) -> list[str]:
        try:
            return self._unready() or self._faults(moved)
        except (ApiError, OSError) as error:
            return [f"no answer: {error}"]

    def _unready(self) -> list[str]:
        """Return what doesn't run or isn't ready, and start what ended by itself, as a kubelet would do."""
        ended = self.stage.revive()
        self.revived += ended
        stacks = [replica.stack for replica in self.stage.replicas]
        return [f"{name} didn't run" for name in ended] + [
            f"{stack.extender.name} isn't ready" for stack in stacks if not stack.ready()
        ]

    def _faults(self, moved: bool) -> list[str]:
        cluster = self.stage.cluster
        nodes = cluster.nodes()
        pods = self.stage.api.get(PODS)["items"]
        withdrawn = holders_of_withdrawn(pods, self._resources())
        differences = [
            line
            for replica in self.stage.replicas
            for line in discrepancies(cluster, replica.fluence)
            if not line.startswith(("node ", *(f"{name} holds " for name in withdrawn)))
        ]
        return [
            *half_placed(self.wanted, pods, self.witness.whole),
            *refused_and_left(self.wanted, pods),
            *devices_held_twice(pods),
            *overfull(nodes, pods, self.excused),
            *self._astray(nodes, pods, moved),
            *waiting_although_it_fits(self.wanted, nodes, pods),
            *differences,
        ]

    def _astray(self, nodes: dict[str, Manifest], pods: list[Manifest], moved: bool) -> list[str]:
        """Return the pods outside their pools; a pod may stay whose node was ``moved`` to another pool."""
        found = outside_their_pool(self.wanted, nodes, pods)
        if moved:
            self._strayed |= found.keys()
        return [line for uid, line in found.items() if uid not in self._strayed]

    def _resources(self) -> str:
        document = self.stage.api.get(f"/api/v1/namespaces/fluence-system/configmaps/{RESOURCES_CONFIGMAP}")
        return str(document["data"][RESOURCES_KEY])

    def _overfull_now(self) -> set[str]:
        nodes = self.stage.cluster.nodes()
        lines = overfull(nodes, self.stage.cluster.pods(), ())
        return {node for node in self.excused if any(f"node {node} " in line for line in lines)}

    def _refusals(self, disturbed: dict[str, list[NodeChange]]) -> tuple[list[str], list[str]]:
        """Return the pods that kubelets refused since the last call: without a good reason, and with one."""
        judged = self.stage.cluster.judge.violations
        fresh, self._judged = judged[self._judged :], len(judged)
        pods = self.stage.cluster.pods() if fresh else []
        bad: list[str] = []
        good: list[str] = []
        for one in fresh:
            reason = explanation(one, pods, disturbed)
            (good if reason else bad).append(f"refused by kubelet: {one} ({reason or 'without a reason'})")
        return bad, good

    def _defects(self) -> list[str]:
        """Return the lines of the service's logs that report a defect of its own."""
        logs = [replica.stack.extender.log for replica in self.stage.replicas]
        return [f"{log} tells of {word!r}" for log in logs for word in DEFECTS if word in log.read_text()]

    def _drifted(self) -> list[str]:
        before = self.drift
        for replica in range(len(self.stage.replicas)):
            self.note_drift(replica)
        return [f"drift was repaired {self.drift - before:g} times"] if self.drift > before else []


def made_smaller(disturbed: dict[str, list[NodeChange]]) -> set[str]:
    """Return the nodes that may have been made smaller under their pods; a node that grew was smaller before."""
    return {
        node for node, changes in disturbed.items() if {NodeChange.SHRINK, NodeChange.GROW} & set(changes)
    }


def explanation(
    refused: Violation,
    pods: list[Manifest],
    disturbed: dict[str, list[NodeChange]],
) -> str:
    """Return why a kubelet may have had no room for a pod without anyone's fault, "" without such a reason."""
    changes = [one for one in disturbed.get(refused.node, ()) if one in SHRINKING]
    if changes:
        return f"meanwhile: {', '.join(changes)} {refused.node}"
    foreign = [
        pod["metadata"]["name"]
        for pod in pods
        if node_of(pod) == refused.node and pod["spec"]["schedulerName"] == "default-scheduler"
    ]
    if foreign:
        return f"default-scheduler put {', '.join(foreign)} there"
    return ""


SHRINKING = (NodeChange.DELETE, NodeChange.LOSE, NodeChange.REPLACE, NodeChange.SHRINK, NodeChange.GROW)


def drift_of(fluence: Fluence) -> float:
    """Return the service's count of repaired drift, 0 while it exports none."""
    families = text_string_to_metric_families(fluence.text("/metrics"))
    return sum(
        sample.value
        for family in families
        if family.name == DRIFT
        for sample in family.samples
        if sample.name == f"{DRIFT}_total"
    )
