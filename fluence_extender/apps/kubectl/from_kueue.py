"""Turn the objects by which Kueue divides a cluster into Queues (kueue.x-k8s.io, v1beta1 and v1beta2).

In Kueue a ClusterQueue has quotas by hardware (ResourceFlavor), Cohorts are trees in which ClusterQueues lend to each
other, and work names a LocalQueue of its namespace, which stands for a ClusterQueue. Here all of them but
ResourceFlavors are Queues of one tree. Work that names its LocalQueue by Kueue's label then goes on unchanged.

Invariant: each field of these objects is in a Queue, or a note says that it is dropped and what to do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from fluence_extender.apps.kubectl.kueue import (
    COHORT_FIELDS,
    Amounts,
    Fields,
    KueueQuota,
    amount_of,
    cohort_of,
    fields_of,
    name_of,
    quota_of,
    spec_of,
)
from fluence_extender.model.names import STATE_GROUP
from fluence_extender.model.quantity import written_amount
from fluence_extender.model.queue import DEFAULT_QUEUE
from fluence_extender.model.resources import CPU
from fluence_extender.queueing.tree import LEVELS

MILLI = 1000
LEAST_WEIGHT = 0.000001
"""Stands for a weight of 0, which Kueue knows and a Queue doesn't."""

TAKEN = (
    *COHORT_FIELDS,
    "resourceGroups",
    "namespaceSelector",
    "stopPolicy",
    "fairSharing",
    "clusterQueue",
    "preemption",
)
STOPS = {"Hold": "Hold", "HoldAndDrain": "Evict"}

NEVER = "Never"
SAYS_NOTHING = (None, "", NEVER, "None", "BestEffortFIFO", "Borrow", "TryNextFlavor")
"""Values which Kueue's API server fills in, and which ask for nothing that isn't done here."""

DROPPED = {
    "queueingStrategy": "all queues are served in one order; choose scheduling.policy in the Queue default",
    "flavorFungibility": "a quota doesn't know hardware",
    "admissionChecks": "nothing outside is asked before work starts",
    "admissionChecksStrategy": "nothing outside is asked before work starts",
    "admissionScope": "give the tree's root a halfLife to count past use",
    "nodeLabels": "a quota doesn't know hardware; its amounts are added to those of the other flavors, and pods choose "
    "nodes by their own nodeSelector",
    "nodeTaints": "taint the nodes themselves",
    "tolerations": "pods need them themselves",
    "topologyName": "pods name their topology themselves; see docs/topology.md",
}
"""The fields that aren't translated, with the reason or what to do instead."""


@dataclass(slots=True)
class Migration:
    """The Queues to make, by name, and the notes on what differs, in the order in which they were found."""

    queues: dict[str, dict[str, Any]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def manifest(self) -> str:
        """Return the Queues as YAML, parents first."""
        return "---\n".join(
            yaml.safe_dump(
                {
                    "apiVersion": f"{STATE_GROUP}/v1alpha1",
                    "kind": "Queue",
                    "metadata": {"name": name},
                    "spec": spec,
                },
                sort_keys=False,
            )
            for name, spec in sorted(self.queues.items(), key=lambda one: (len(self.path(one[0])), one[0]))
        )

    def path(self, name: str) -> list[str]:
        """Return the Queue itself, its parent, and so on up to the root, or until one is its own ancestor."""
        found: list[str] = []
        while name and name not in found:
            found.append(name)
            name = self.queues.get(name, {}).get("parent", "")
        return found


def migrated(objects: Mapping[str, Sequence[Fields]]) -> Migration:
    """Return the Queues that do what these objects of Kueue do. Raise `CommandError` if one can't be read."""
    result = Migration()
    clusters = {name_of(one): spec_of(one) for one in objects["ClusterQueue"]}
    cohorts = {name_of(one): spec_of(one) for one in objects["Cohort"]}
    for spec in (*clusters.values(), *list(cohorts.values())):
        # A cohort needs no object: it is enough to be named.
        cohorts.setdefault(cohort_of(spec), {})
    cohorts.pop("", None)
    names = {one: f"{one}-cohort" if one in clusters else one for one in sorted(cohorts)}
    quotas: dict[str, KueueQuota] = {}
    for one, name in names.items():
        if name != one:
            result.notes.append(f"Cohort {one}: becomes Queue {name}, because there is a ClusterQueue {one}")
        quotas[name] = _group(f"Cohort {one}", name, cohorts[one], names, result)
    for one, spec in sorted(clusters.items()):
        quotas[one] = _group(f"ClusterQueue {one}", one, spec, names, result)
    _divide(quotas, result)
    for one, spec in sorted(clusters.items()):
        _add_preemption(one, spec, result)
    _admit(objects["LocalQueue"], clusters, result)
    _take_local_queues(objects["LocalQueue"], clusters, result)
    for one in sorted(clusters):
        _share_guarantee(one, result)
    for flavor in objects["ResourceFlavor"]:
        _note_dropped(f"ResourceFlavor {name_of(flavor)}", spec_of(flavor), result)
    return result


def _group(title: str, name: str, spec: Fields, names: Mapping[str, str], result: Migration) -> KueueQuota:
    """Add the Queue for a ClusterQueue or Cohort, as yet without quotas, and return its quota in Kueue."""
    queue = result.queues[name] = {}
    if cohort := cohort_of(spec):
        queue["parent"] = names[cohort]
    selector = spec.get("namespaceSelector")
    if selector:
        queue["namespaces"] = {"selector": selector}
    _add_common(title, queue, spec, result)
    if selector is None and title.startswith("ClusterQueue"):
        queue["stop"] = "Drain"
        result.notes.append(f"{title}: selects no namespace, so Queue {name} takes no work; see its stop")
    _note_dropped(title, spec, result)
    return quota_of(title, spec)


def _add_common(title: str, queue: dict[str, Any], spec: Fields, result: Migration) -> None:
    """Add what all kinds of queues have in Kueue: whether they are stopped, and their weight."""
    if spec.get("stopPolicy") in STOPS:
        queue["stop"] = STOPS[str(spec["stopPolicy"])]
    weight = fields_of(spec.get("fairSharing"), f"{title}: fairSharing").get("weight")
    if weight is not None:
        queue["weight"] = amount_of(title, CPU, "weight", weight) / MILLI or LEAST_WEIGHT
        if queue["weight"] == LEAST_WEIGHT:
            result.notes.append(f"{title}: a weight is more than 0, so {LEAST_WEIGHT:f} stands for 0")


def _divide(quotas: Mapping[str, KueueQuota], result: Migration) -> None:
    """Give all Queues their quotas.

    What a Cohort has is its own quota and those of all below it. Nobody outside lends to the root of a tree, so its
    limit is what it has.
    """
    total: dict[str, Amounts] = {name: {} for name in quotas}
    for name, quota in quotas.items():
        for above in result.path(name):
            for kind, amount in quota.nominal.items():
                total[above][kind] = total[above].get(kind, 0) + amount
    for name, quota in quotas.items():
        queue, has = result.queues[name], total[name]
        borrows = {kind: has[kind] + amount for kind, amount in quota.borrowing.items()}
        limit = borrows if "parent" in queue else has
        guaranteed = {kind: has[kind] for kind, amount in quota.nominal.items() if amount}
        for key, amounts in (("guaranteed", guaranteed), ("limit", limit), ("lendable", quota.lending)):
            if amounts:
                queue[key] = {kind: written_amount(kind, amount) for kind, amount in sorted(amounts.items())}


def _add_preemption(name: str, spec: Fields, result: Migration) -> None:
    """Say what the Queue of a ClusterQueue may take from its own gangs and from those of others."""
    title, queue = f"ClusterQueue {name}", result.queues[name]
    found = fields_of(spec.get("preemption"), f"{title}: preemption")
    within, reclaim = (found.get(key, NEVER) for key in ("withinClusterQueue", "reclaimWithinCohort"))
    queue["preemption"] = {"within": NEVER if within == NEVER else "LowerPriority"}
    if within == "LowerOrNewerEqualPriority":
        result.notes.append(
            f"{title}: newer work of the same priority isn't preempted, only that of a lower one"
        )
    if reclaim != NEVER and "guaranteed" in queue:
        queue["preemption"]["reclaim"] = "Borrowed"
        if reclaim != "Any":
            result.notes.append(
                f"{title}: takes back what others borrow at any priority, where Kueue says {reclaim}"
            )
    if _says_something(found.get("borrowWithinCohort")):
        result.notes.append(
            f"{title}: borrowWithinCohort is dropped: gangs that borrow preempt by priority alone"
        )


def _share_guarantee(name: str, result: Migration) -> None:
    """Give the one Queue below that of a ClusterQueue its guarantee, which counts in the queue that work is in."""
    queue = result.queues[name]
    below = [one for one in result.queues.values() if one.get("parent") == name]
    for one in below:
        one["preemption"] = dict(queue["preemption"])
    if "reclaim" not in queue["preemption"]:
        return
    if len(below) == 1:
        below[0]["guaranteed"] = dict(queue["guaranteed"])
        return
    for one in below:
        del one["preemption"]["reclaim"]
    if below:
        result.notes.append(
            f"ClusterQueue {name}: give each Queue below it a part of its guarantee and preemption.reclaim: a queue "
            "takes back by its own guarantee"
        )


def _admit(found: Sequence[Fields], clusters: Mapping[str, Fields], result: Migration) -> None:
    """Let the namespaces with a LocalQueue submit, where a ClusterQueue's selector selects all."""
    for name, spec in clusters.items():
        if spec.get("namespaceSelector") != {}:
            continue
        namespaces = sorted(
            {name_of(one, "namespace") for one in found if spec_of(one).get("clusterQueue") == name}
        )
        if namespaces:
            result.queues[name]["namespaces"] = {"names": namespaces}
        else:
            result.notes.append(
                f"ClusterQueue {name}: has no LocalQueue; Queue {name} takes work of all namespaces"
            )


def _take_local_queues(found: Sequence[Fields], clusters: Mapping[str, Fields], result: Migration) -> None:
    """Add a Queue for the LocalQueues of each name, which Kueue's label names, below that of their ClusterQueue."""
    by_name: dict[str, list[tuple[str, Fields]]] = {}
    for one in found:
        namespace, target = name_of(one, "namespace"), str(spec_of(one).get("clusterQueue", ""))
        title = f"LocalQueue {namespace}/{name_of(one)}"
        if target not in clusters:
            result.notes.append(f"{title}: there is no ClusterQueue {target}, so nothing is made of it")
        elif name_of(one) == DEFAULT_QUEUE:
            result.queues[target].setdefault("defaultFor", []).append(namespace)
            result.notes.append(
                f"{title}: is what defaultFor says of Queue {target}; take the label off work which names it"
            )
        else:
            by_name.setdefault(name_of(one), []).append((namespace, spec_of(one)))
    for name, some in sorted(by_name.items()):
        title = f"LocalQueue {name}"
        targets = sorted({str(spec["clusterQueue"]) for _, spec in some})
        namespaces = sorted(namespace for namespace, _ in some)
        queue: dict[str, Any] = {"parent": targets[0], "namespaces": {"names": namespaces}}
        if len(targets) > 1 or any(spec != some[0][1] for _, spec in some):
            why = "the LocalQueues of that name differ, and there is one Queue of a name"
        elif name in result.queues and name != targets[0]:
            why = f"Queue {name} is another one"
        elif name not in result.queues and len(result.path(targets[0])) >= LEVELS:
            why = f"it would be below level {LEVELS} of the tree"
        else:
            if name not in result.queues:
                _add_common(title, queue, some[0][1], result)
                _note_dropped(title, some[0][1], result)
                if stop := queue.get("stop") or result.queues[targets[0]].get("stop"):
                    queue["stop"] = stop
                result.queues[name] = queue
            continue
        instead = " or ".join(targets)
        where = ", ".join(namespaces)
        result.notes.append(
            f"{title} ({where}): isn't a Queue, because {why}; let its work name Queue {instead}"
        )


def _note_dropped(title: str, spec: Fields, result: Migration) -> None:
    """Note the fields which say something that no Queue does."""
    for key in sorted(set(spec) - set(TAKEN)):
        if _says_something(spec[key]):
            result.notes.append(f"{title}: {key} is dropped: {DROPPED.get(key, 'no Queue has it')}")


def _says_something(value: object) -> bool:
    if isinstance(value, Mapping):
        return any(map(_says_something, value.values()))
    if isinstance(value, list):
        return any(map(_says_something, value))
    return value not in SAYS_NOTHING
