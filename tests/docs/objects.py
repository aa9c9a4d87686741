"""The objects that commands of the texts may name: those of deploy/, of examples, of the pages, and what we make."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from fluence_extender.apps.kubectl.state_api import SERVICE
from fluence_extender.model.coordination import SIDECAR_CONTAINER
from fluence_extender.model.names import GROUP_LABEL, JOB_NAME, RESOURCES_CONFIGMAP
from tests.docs.reading import PAGES, ROOT, fences

Manifest = dict[str, Any]
KUBECTL = str(Path(sys.executable).with_name("kubectl"))
OVERLAYS = tuple(
    str(file.parent.relative_to(ROOT))
    for file in sorted((ROOT / "deploy").rglob("kustomization.yaml"))
    if yaml.safe_load(file.read_text())["kind"] != "Component"
)
KINDS = {
    "pod": "Pod",
    "job": "Job",
    "deploy": "Deployment",
    "deployment": "Deployment",
    "lease": "Lease",
    "configmap": "ConfigMap",
    "secret": "Secret",
    "apiservice": "APIService",
    "mutatingadmissionpolicy": "MutatingAdmissionPolicy",
    "mutatingadmissionpolicybinding": "MutatingAdmissionPolicyBinding",
    "validatingadmissionpolicy": "ValidatingAdmissionPolicy",
    "validatingadmissionpolicybinding": "ValidatingAdmissionPolicyBinding",
    "role": "Role",
    "rolebinding": "RoleBinding",
    "serviceaccount": "ServiceAccount",
}
"""What commands call the kinds of which they name an object."""

FORMER = {
    "fluence-births": ("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"),
    "fluence-accounts-pods": ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
    "fluence-gated-jobs": ("Role", "RoleBinding", "ServiceAccount"),
}
"""What earlier versions installed, and the page on upgrades says to delete: the kinds by name."""
NAMESPACED = ("Role", "RoleBinding", "ServiceAccount")


def kind_of(word: str) -> str:
    """Return the kind that a command calls ``word``, in the singular or plural; an unknown one as it is."""
    return (
        KINDS.get(word)
        or KINDS.get(word.removesuffix("s"))
        or KINDS.get(f"{word.removesuffix('ies')}y")
        or word
    )


@cache
def rendered(overlay: str) -> tuple[Manifest, ...]:
    """Return what kustomize makes of a folder under deploy/."""
    done = subprocess.run(
        [KUBECTL, "kustomize", str(ROOT / overlay)], check=True, capture_output=True, text=True
    )
    return tuple(one for one in yaml.safe_load_all(done.stdout) if one)


@cache
def installed_in() -> str:
    """Return the namespace in which deploy/ installs the service."""
    (found,) = (
        one["metadata"]["namespace"]
        for one in rendered("deploy")
        if (one["kind"], one["metadata"]["name"]) == ("Deployment", SERVICE)
    )
    return str(found)


@cache
def known() -> dict[tuple[str, str], str]:
    """Return the namespace of each object, by kind and name; it is empty for objects of users and of the cluster."""
    found = {
        (one["kind"], one["metadata"]["name"]): one["metadata"].get("namespace", "") for one in _manifests()
    }
    for name, kinds in FORMER.items():
        found |= {(kind, name): installed_in() if kind in NAMESPACED else "" for kind in kinds}
    found |= {("Lease", SERVICE): installed_in(), ("ConfigMap", RESOURCES_CONFIGMAP): installed_in()}
    return found


@cache
def labels() -> frozenset[str]:
    """Return the labels of all pods, as selectors name them."""
    found = {
        f"{key}={value}"
        for manifest in _manifests()
        for pod in _templates(manifest)
        for key, value in pod.get("metadata", {}).get("labels", {}).items()
    }
    found |= {f"{JOB_NAME}={name}" for kind, name in known() if kind == "Job"}
    shared = {one for one in found if one.startswith(f"{GROUP_LABEL}=")}
    return frozenset(found | {f"{one}-producer" for one in shared})


@cache
def containers() -> frozenset[str]:
    """Return the names of all containers."""
    return frozenset(
        container["name"]
        for manifest in _manifests()
        for pod in _templates(manifest)
        for part in ("containers", "initContainers")
        for container in pod.get("spec", {}).get(part) or ()
    ) | {SIDECAR_CONTAINER}


def _manifests() -> Iterator[Manifest]:
    for overlay in OVERLAYS:
        yield from rendered(overlay)
    texts = [file.read_text() for file in sorted((ROOT / "examples").rglob("*.yaml"))]
    texts += [one.text for page in PAGES for one in fences(page) if one.language == "yaml"]
    for text in texts:
        for document in yaml.safe_load_all(text):
            if isinstance(document, dict) and "name" in document.get("metadata", {}):
                yield document


def _templates(manifest: Manifest) -> Iterator[Manifest]:
    """Yield a manifest itself, and everything in it that has a spec with containers."""
    if isinstance(manifest.get("spec"), dict):
        yield manifest
    for value in manifest.values():
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, dict):
                yield from _templates(one)
