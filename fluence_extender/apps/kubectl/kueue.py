"""Read the objects by which Kueue divides a cluster (kueue.x-k8s.io, v1beta1 and v1beta2).

They may come from files, which no API server has checked. Invariant: what isn't of the form that Kueue prescribes is a
`CommandError` that names the object and the field.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import yaml

from fluence_extender.apps.kubectl.errors import CommandError, KubectlFailed
from fluence_extender.apps.kubectl.program import kubectl_output
from fluence_extender.apps.kubectl.sources import read_sources
from fluence_extender.model.quantity import InvalidQuantity, Quantity, read_amount

KINDS = ("ClusterQueue", "Cohort", "LocalQueue", "ResourceFlavor")
GROUP = "kueue.x-k8s.io"
COHORT_FIELDS = ("cohortName", "cohort", "parentName", "parent")

PATIENCE = 60.0
"""Seconds for a list from the API server."""

Fields = Mapping[str, Any]
Amounts = dict[str, int]


@dataclass(frozen=True, slots=True)
class KueueQuota:
    """The quota of a ClusterQueue or Cohort: amounts by resource, added up over its flavors.

    ``borrowing`` has the resources of which every flavor has a borrowingLimit, and ``lending`` those of which one has a
    lendingLimit.
    """

    nominal: Amounts
    borrowing: Amounts
    lending: Amounts


def kueue_from_files(filenames: Sequence[str]) -> dict[str, list[Fields]]:
    """Return the objects of Kueue in these manifests, by kind."""
    documents: list[object] = []
    for source in read_sources(filenames, "", recursive=False):
        try:
            documents += yaml.safe_load_all(source.content)
        except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
            why = str(error).replace("\n", " ")
            raise CommandError(f"{source.name}: isn't valid YAML: {why}; correct the syntax there") from None
    return objects_of_kueue(documents)


def kueue_from_cluster(connection: Sequence[str]) -> dict[str, list[Fields]]:
    """Return the objects of Kueue in the cluster, which the user's kubectl lists. Raise `KubectlFailed`."""
    kinds = ",".join(f"{kind}.{GROUP}" for kind in ("clusterqueues", "localqueues", "resourceflavors"))
    found = [json.loads(kubectl_output(["get", kinds, "-A", "-o", "json", *connection], PATIENCE))]
    # Older versions of Kueue have no Cohorts.
    with suppress(KubectlFailed):
        cohorts = kubectl_output(["get", f"cohorts.{GROUP}", "-o", "json", *connection], PATIENCE)
        found.append(json.loads(cohorts))
    return objects_of_kueue(found)


def objects_of_kueue(documents: Iterable[object]) -> dict[str, list[Fields]]:
    """Return the objects of Kueue among these documents and the items of lists, by kind."""
    found: dict[str, list[Fields]] = {kind: [] for kind in KINDS}
    waiting = list(documents)
    while waiting:
        one = waiting.pop(0)
        if not isinstance(one, Mapping):
            continue
        if isinstance(one.get("items"), list):
            waiting[:0] = one["items"]
        elif str(one.get("apiVersion", "")).startswith(f"{GROUP}/") and one.get("kind") in found:
            found[one["kind"]].append(one)
    return found


def name_of(one: Fields, key: str = "name") -> str:
    """Return the name of an object, or another text of its metadata."""
    metadata = one.get("metadata")
    name = metadata.get(key) if isinstance(metadata, Mapping) else None
    if not isinstance(name, str) or not name:
        raise CommandError(f"a {one.get('kind')} has no metadata.{key}; give it one")
    return name


def spec_of(one: Fields) -> Fields:
    """Return the spec of an object, empty for none."""
    return fields_of(one.get("spec"), f"{one.get('kind')} {name_of(one)}: spec")


def fields_of(found: object, title: str) -> Fields:
    """Return a map of fields, empty for none. Raise `CommandError` if it isn't a map."""
    if found is not None and not isinstance(found, Mapping):
        raise CommandError(f"{title} isn't a map; correct it")
    return found or {}


def _items(found: object, title: str) -> list[Fields]:
    """Return a list of maps, empty for none. Raise `CommandError` if it isn't one."""
    if found is not None and not isinstance(found, list):
        raise CommandError(f"{title} isn't a list; correct it")
    return [fields_of(one, title) for one in found or ()]


def cohort_of(spec: Fields) -> str:
    """Return the cohort that a ClusterQueue or Cohort is in, by the field of whichever version, "" for none."""
    return str(next((spec[key] for key in COHORT_FIELDS if spec.get(key)), ""))


def quota_of(title: str, spec: Fields) -> KueueQuota:
    """Return the quota of a ClusterQueue or Cohort, which messages call ``title``."""
    flavors: dict[str, list[Fields]] = {}
    for group in _items(spec.get("resourceGroups"), f"{title}: resourceGroups"):
        for flavor in _items(group.get("flavors"), f"{title}: flavors"):
            for one in _items(flavor.get("resources"), f"{title}: resources"):
                flavors.setdefault(str(one.get("name")), []).append(one)

    def amount(kind: str, one: Fields, *keys: str) -> int:
        key = next((key for key in keys if one.get(key) is not None), keys[-1])
        return amount_of(title, kind, f"{key} of {kind}", one.get(key) or 0)

    return KueueQuota(
        {kind: sum(amount(kind, one, "nominalQuota") for one in some) for kind, some in flavors.items()},
        {
            kind: sum(amount(kind, one, "borrowingLimit") for one in some)
            for kind, some in flavors.items()
            if all(one.get("borrowingLimit") is not None for one in some)
        },
        {
            kind: sum(amount(kind, one, "lendingLimit", "nominalQuota") for one in some)
            for kind, some in flavors.items()
            if any(one.get("lendingLimit") is not None for one in some)
        },
    )


def amount_of(title: str, kind: str, field: str, quantity: Quantity) -> int:
    """Return an amount of the resource ``kind`` in the unit in which it is counted."""
    try:
        return read_amount(kind, quantity)
    except InvalidQuantity as error:
        raise CommandError(f"{title}: {field}: {error}; correct it") from None
