"""Disturbances: processes die, stop and hang, connections break, nodes change, resources.yaml is edited.

Invariant: what was disturbed returns to its former state. Accidents with the same `target` must not overlap; accidents
with several targets consist of `parts`.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from fluence_extender.model.names import RESOURCES_CONFIGMAP, RESOURCES_KEY
from tests.chaos.agenda import Agenda
from tests.chaos.deeds import (
    BRIEF,
    Accident,
    Cut,
    Disturb,
    Edit,
    Hit,
    How,
    NodeChange,
    Process,
    Ungroup,
    Wipe,
)
from tests.chaos.renewal import Renewal
from tests.chaos.script import DEVICES, NODE_CORES, POOLS, pool_of
from tests.chaos.stage import Stage, namespace
from tests.chaos.users import GROUPS, Users, unless
from tests.chaos.witness import Witness
from tests.chaos.workloads import FAULTY_RESOURCES, POOL, group_of, resources_yaml
from tests.e2e.harness import NODE_READY, Manifest, wait_for
from tests.localcluster.nodes import node_manifest, resource_list

NAMESPACES_PATH = "/api/v1/namespaces"
NODES_PATH = "/api/v1/nodes"
MOMENT = 3.0
"""Seconds to wait for a moment."""

LOOK = 0.005
TAINT = {"key": "example.com/chaos", "effect": "NoSchedule"}


def target(what: Accident) -> str:
    """Return what an accident hits."""
    match what:
        case Hit() | Cut():
            return f"{what.process} {what.replica}"
        case Disturb():
            return what.node
        case Edit():
            return "resources.yaml"
        case Wipe():
            return f"namespace {BRIEF}"
        case Ungroup():
            return f"PodGroup {what.name}"


def parts(what: Accident) -> tuple[Accident, ...]:
    """Return the accidents that happen at once, each to one target."""
    if isinstance(what, Hit | Cut) and what.process is Process.REPLICA:
        return tuple(replace(what, process=one) for one in (Process.EXTENDER, Process.SCHEDULER))
    return (what,)


@dataclass(slots=True)
class Accidents:
    """Makes accidents happen on ``stage``, where ``users`` have workloads that a ``witness`` sees.

    ``before_end`` is called before the extender of a replica ends; ``nodes`` says what was done to which node since
    it was last cleared.
    """

    stage: Stage
    agenda: Agenda
    users: Users
    witness: Witness
    before_end: Callable[[int], None]
    nodes: dict[str, list[NodeChange]] = field(default_factory=dict)
    resources: str = field(default=resources_yaml(DEVICES))

    def begin(self) -> None:
        """Write the first resources.yaml."""
        wait_for(self._first_resources)

    def happen(self, what: Accident) -> None:
        """Make an accident happen once its targets have recovered from earlier ones. Raise `ApiError`."""
        if isinstance(what, Hit) and what.moment:
            what = self._at_moment(what)
        for part in parts(what):
            self.agenda.await_free(target(part))
        for part in parts(what):
            self._happen(part)

    def _happen(self, what: Accident) -> None:
        match what:
            case Hit():
                self._hit(what)
            case Cut():
                self._cut(what)
            case Disturb():
                self._disturb(what)
            case Edit():
                self._edit(what)
            case Wipe():
                self._wipe()
            case Ungroup():
                self._ungroup(what)

    def _at_moment(self, hit: Hit) -> Hit:
        """Wait for the moment of a hit, for a limited time; return the hit on the replica that leads then."""
        until = time.monotonic() + MOMENT
        leader = replace(hit, replica=self.stage.leader())
        while not self.witness.now_is(hit.moment) and time.monotonic() < until:
            self.agenda.let_pass(LOOK)
        return leader

    def _hit(self, hit: Hit) -> None:
        component = self.stage.component(hit.process, hit.replica)
        if hit.process is Process.EXTENDER and hit.how is not How.FREEZE:
            self.before_end(hit.replica)
        undo: Callable[[], object] = component.launch
        if hit.how is How.FREEZE:
            undo = _freeze(component.pid)
        elif hit.how is How.KILL:
            component.kill()
        else:
            component.stop()
        self.agenda.later(hit.seconds, target(hit), f"{target(hit)} is back", undo)

    def _cut(self, cut: Cut) -> None:
        relay = self.stage.replicas[cut.replica].relays[cut.process]
        if not cut.seconds:
            relay.cut()
            return
        relay.silence()
        self.agenda.later(cut.seconds, target(cut), f"{target(cut)} is connected again", relay.restore)

    def _disturb(self, disturb: Disturb) -> None:
        node = disturb.node
        self.nodes.setdefault(node, []).append(disturb.change)
        change, undo = self._change(node, disturb.change)
        # First of all: a change whose answer is lost may have been made.
        self.agenda.later(disturb.seconds, target(disturb), f"{node} is as it was", undo)
        change()

    def _change(self, node: str, change: NodeChange) -> tuple[Callable[[], object], Callable[[], object]]:
        """Return what makes the change, and what undoes it."""
        path = f"{NODES_PATH}/{node}"
        match change:
            case NodeChange.CORDON:
                return self._patches(path, _spec(unschedulable=True), _spec(unschedulable=None))
            case NodeChange.TAINT:
                return self._patches(path, _spec(taints=[TAINT]), _spec(taints=None))
            case NodeChange.UNREADY:
                return self._patches(path, _ready("false"), _ready(None))
            case NodeChange.SHRINK:
                return self._patches(f"{path}/status", _size(NODE_CORES // 2), _size(NODE_CORES))
            case NodeChange.GROW:
                return self._patches(f"{path}/status", _size(NODE_CORES + 4), _size(NODE_CORES))
            case NodeChange.RELABEL:
                (other,) = set(POOLS) - {pool_of(node)}
                return self._patches(path, _pool(other), _pool(pool_of(node)))
            case NodeChange.DELETE | NodeChange.LOSE | NodeChange.REPLACE:
                labels = {POOL: pool_of(node)}
                made = node_manifest(node, resource_list(NODE_CORES, "32Gi", 110, "100Gi", {}), labels, ())
                again = partial(self.stage.api.request, "POST", NODES_PATH, made)
                return partial(self._delete_node, node, change, again), partial(unless, 409, again)

    def _patches(
        self, path: str, change: Manifest, undo: Manifest
    ) -> tuple[Callable[[], object], Callable[[], object]]:
        patch = partial(self.stage.api.patch, path)
        return partial(patch, change), partial(unless, 404, partial(patch, undo))

    def _delete_node(self, node: str, change: NodeChange, again: Callable[[], object]) -> None:
        self.stage.api.delete(f"{NODES_PATH}/{node}")
        if change is NodeChange.REPLACE:
            again()
        if change is NodeChange.LOSE:
            self.stage.delete_pods(fieldSelector=f"spec.nodeName={node}")

    def _wipe(self) -> None:
        renewal = Renewal(self.stage.api, NAMESPACES_PATH, namespace(BRIEF), lambda: True)
        renewal.begin()
        self.users.lose(BRIEF)
        self.agenda.later(0.0, target(Wipe()), f"the namespace {BRIEF} is new", renewal.go_on)

    def _ungroup(self, ungroup: Ungroup) -> None:
        what = self.users.wanted.get(ungroup.name)
        if what is None:
            return
        wanted = self.users.wanted
        renewal = Renewal(
            self.stage.api,
            GROUPS.format(what.namespace),
            group_of(what),
            lambda: wanted.get(what.name) is what,
        )
        renewal.begin()
        self.stage.api.delete(renewal.object_path)
        self.agenda.later(ungroup.seconds, target(ungroup), f"{target(ungroup)} is new", renewal.go_on)

    def _edit(self, edit: Edit) -> None:
        if edit.faulty:
            correct = partial(self._write_resources, self.resources)
            self.agenda.later(edit.seconds, target(edit), "resources.yaml is corrected", correct)
            self._write_resources(FAULTY_RESOURCES)
        else:
            self.resources = resources_yaml(edit.devices)
            self._write_resources(self.resources)

    def _first_resources(self) -> bool:
        self._write_resources(self.resources)
        return True

    def _write_resources(self, text: str) -> None:
        self.stage.api.apply(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": RESOURCES_CONFIGMAP, "namespace": "fluence-system"},
                "data": {RESOURCES_KEY: text},
            }
        )


def _freeze(pid: int | None) -> Callable[[], object]:
    assert pid is not None, "a process that doesn't run can't be frozen"
    os.kill(pid, signal.SIGSTOP)
    return lambda: os.kill(pid, signal.SIGCONT)


def _spec(**fields: object) -> Manifest:
    return {"spec": fields}


def _pool(name: str) -> Manifest:
    return {"metadata": {"labels": {POOL: name}}}


def _ready(value: str | None) -> Manifest:
    return {"metadata": {"annotations": {NODE_READY: value}}}


def _size(cores: int) -> Manifest:
    amounts = {"cpu": str(cores)}
    return {"status": {"allocatable": amounts, "capacity": amounts}}
