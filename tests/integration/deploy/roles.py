"""What roles grant, and to whom they are bound."""

from __future__ import annotations

from typing import Any

Manifest = dict[str, Any]
Objects = dict[tuple[str, str], Manifest]


def rights(role: Manifest) -> set[tuple[str, str, str]]:
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def bound_to(objects: Objects, account: str) -> set[tuple[str, str]]:
    """The roles, by kind and name, of a ServiceAccount in fluence-system."""
    subject = {"kind": "ServiceAccount", "name": account, "namespace": "fluence-system"}
    return {
        (item["roleRef"]["kind"], item["roleRef"]["name"])
        for (kind, _), item in objects.items()
        if kind.endswith("RoleBinding") and subject in item["subjects"]
    }
